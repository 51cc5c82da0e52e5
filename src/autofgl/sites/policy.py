"""What a site allows. The file stays at the site; the server neither sees nor changes it."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from autofgl.config import validated
from autofgl.errors import UserError
from autofgl.federation.party import Refused
from autofgl.methods.catalog import METHODS
from autofgl.runs.folder import read_config_file
from autofgl.secure import MODES

#: The policy's name in a site's kit.
POLICY_FILE = "policy.yaml"
#: A new site's policy, with a line for each choice.
TEMPLATE = """\
# What this site takes part in. Anything else is refused, and the refusal is in the site's log.

# Methods (see autofgl methods). Leave the list out to allow all of these. One's own, as
# module:Class or file.py:Class of this site, is allowed only if it is listed.
# methods: [fedavg, fl-agcns]

# Protection of sums that must be used: any of these. With [ckks, shares] no run may go unprotected.
# secure: [ckks, shares]

# Fewest sites whose sum may be revealed, and fewest sites of a run.
# min_parties: 3

# Longest run, in rounds.
# max_rounds: 1000

# Largest message that is read, in bytes.
# max_message: 2147483648
"""


class Policy(BaseModel):
    """A site's own rules.

    Attributes:
        methods: Methods that may be run; all if empty.
        secure: Modes that sums may be protected with; all if empty.
        min_parties: Fewest sites of a run, and fewest whose sum may be revealed.
        max_rounds: Most rounds of a run; 0: no limit.
        max_message: Largest message in bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[str, ...] = ()
    secure: tuple[str, ...] = ()
    min_parties: int = Field(default=1, ge=1)
    max_rounds: int = Field(default=0, ge=0)
    max_message: int = Field(default=1 << 31, ge=1 << 10)

    @classmethod
    def read(cls, path: Path) -> "Policy":
        """The policy in a YAML file.

        Raises:
            UserError: A key or a value is wrong.
        """
        text = path.read_text() if path.is_file() else ""
        empty = not any(line.strip() and not line.startswith("#") for line in text.splitlines())
        policy = validated(cls, {} if empty else read_config_file(path), f"{path}: ")
        for kind, given, choices in (
            ("methods", policy.methods, METHODS),
            ("secure", policy.secure, MODES),
        ):
            for name in given:
                if name not in choices and not (kind == "methods" and ":" in name):
                    use = ", ".join(choices)
                    raise UserError(f"{path}: {kind}: '{name}' is unknown: use {use}")
        return policy

    def check(self, method: str, secure: str, settings: Any, parties: int) -> None:
        """Refuse a run that the site does not allow.

        Raises:
            Refused: The message names the rule.
        """
        if self.methods and method not in self.methods:
            raise Refused(f"policy: method '{method}' is not among {', '.join(self.methods)}")
        if self.secure and secure not in self.secure:
            raise Refused(f"policy: secure mode '{secure}' is not among {', '.join(self.secure)}")
        revealed = getattr(settings, "secure_threshold", 0) or parties // 2 + 1
        smallest = parties if secure == "none" else min(parties, revealed)
        if smallest < self.min_parties:
            raise Refused(
                f"policy: a sum of {smallest} parties might be revealed, at least "
                f"{self.min_parties} are asked for: raise secure_threshold or the number of sites"
            )
        rounds = settings.rounds
        if self.max_rounds and rounds > self.max_rounds:
            raise Refused(f"policy: {rounds} rounds are more than {self.max_rounds}")
