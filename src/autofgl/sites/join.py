"""A site's own part of a run: its graph, its policy, and the party that it builds from them.

All that runs here is the installed package, and methods of one's own that the site's policy lists.
The server says which method, settings, seed and secure mode it wants; it sends no code. The policy
stays at the site; the server neither sees nor changes it.
"""

import json
import logging
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from autofgl.atomic import write_text
from autofgl.config import validated
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.job import SITE_FILE
from autofgl.federation.party import Context, Party, Refused
from autofgl.federation.payload import Payload
from autofgl.graphs.files import load_client, load_graph
from autofgl.methods.catalog import METHODS, find_method
from autofgl.runs.folder import read_config_file
from autofgl.secure import MODES
from autofgl.version import __version__

_log = logging.getLogger("autofgl.site")

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
    """A site's own rules, as the template explains them; what is empty or 0 sets no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[str, ...] = ()
    secure: tuple[str, ...] = ()
    min_parties: int = Field(default=1, ge=1)
    max_rounds: int = Field(default=0, ge=0)
    max_message: int = Field(default=1 << 31, ge=1 << 10)

    @classmethod
    def read(cls, path: Path) -> "Policy":
        """The policy in a YAML file; a wrong key or value is a ``UserError``."""
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
        """Refuse a run that the site does not allow; ``Refused`` names the rule."""
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
        if self.max_rounds and settings.rounds > self.max_rounds:
            raise Refused(f"policy: {settings.rounds} rounds are more than {self.max_rounds}")


class SiteConfig(BaseModel):
    """What a site's job process reads from its kit's ``local/site.json``.

    The name is that of its certificate; ``state`` is the folder for checkpoints, ``build`` names
    what builds the party, ``secret`` the file with the sites' own secret, if they have one, and
    another site may take ``peer_timeout`` seconds to answer this one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    graph: str
    state: str
    policy: str
    build: str = f"{__name__}:LocalSite"
    peer_timeout: float = 60.0
    secret: str = ""

    def write(self, kit: Path) -> None:
        """Leave the configuration in a kit."""
        write_text(kit / "local" / SITE_FILE, json.dumps(self.model_dump(), indent=2) + "\n")


class LocalSite:
    """Builds this site's party; a ``SiteBuilder`` of the NVFlare engine."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = SiteConfig.model_validate(config)
        self._policy = Policy.read(Path(self._config.policy))
        self.limit = self._policy.max_message

    def hello(self, payload: Payload) -> Payload:
        """Compare versions, and say what shape the graph has: all that the others must know."""
        theirs = payload.get("version")
        if theirs != __version__:
            raise Refused(f"runs autofgl {__version__}, the coordinator {theirs}: install the same")
        try:
            graph = load_graph(self._config.graph)
        except UserError as error:
            raise Refused(str(error)) from error
        return {"classes": graph.classes, "features": graph.num_features}

    def build(self, payload: Payload, context: Context) -> Party:
        """The party that the server asks for, if the policy allows it."""
        method_name, secure, seed = payload["method"], payload["secure"], payload["seed"]
        if method_name not in METHODS and method_name not in self._policy.methods:
            raise Refused(
                f"method '{method_name}' is unknown here; one's own must be in the policy"
            )
        try:
            method = find_method(method_name)
            settings = validated(method.Settings, dict(payload["settings"]), "setting ")
            self._policy.check(method_name, secure, settings, len(context.parties))
            graph = load_client(
                self._config.graph,
                context.name,
                context.parties,
                classes=int(payload["classes"]),
                seed=int(seed),
            )
            party = method.party(graph, settings, int(seed), secure)(context)
        except UserError as error:
            raise Refused(str(error)) from error
        note = Path(self._config.state) / str(payload["run"]) / f"{self._config.name}.graph"
        digest = graph.fingerprint()
        if note.is_file() and note.read_text() != digest:
            raise Refused("the graph is not the one that this run was started on")
        write_text(note, digest)
        _log.info("run %s: %s with %d parties, secure %s", payload["run"], method_name,
                  len(context.parties), secure)  # fmt: skip
        return party
