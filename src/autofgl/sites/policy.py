"""What a site takes part in: rules that its owner sets, and that no server sees or changes.

A site is closed until its owner has listed methods. What a rule leaves open has the strict value:
secure modes only, three parties at least, limits on everything that grows. A refusal names the rule
to the server; what the site allows instead, and any figure of its own, goes to its log only.
"""

import json
import logging
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from autofgl.config import validated
from autofgl.errors import UserError
from autofgl.federation.party import Refused
from autofgl.identity import check_names
from autofgl.methods.catalog import METHODS
from autofgl.plugins import is_known
from autofgl.runs.folder import read_config_file
from autofgl.secure import MODES

if TYPE_CHECKING:
    from autofgl.runtime.method import Method

_log = logging.getLogger("autofgl.site")

#: The policy's name in a site's kit.
POLICY_FILE = "policy.yaml"
#: What the server learns of a site whose owner has not said yet what it takes part in.
CLOSED = "policy: nothing is allowed here yet: the owner of the site says what, autofgl site init"
#: What ``allow`` lists where sites may look for the ids that they have in common.
MATCH = "match"

#: Characters of a reason: parts of it may be the server's own words.
_LONGEST_REASON = 300


#: Settings of a method.
Given = TypeVar("Given", bound=BaseModel)


class Policy(BaseModel):
    """A site's own rules; a limit of 0 is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    methods: tuple[str, ...] = ()
    """Methods that may run (see autofgl methods); none: nothing runs here. Your own, as
    module:Class or file.py:Class of this site, is listed in the same way."""
    models: tuple[str, ...] = ()
    """Networks and layers from outside the package that may be built here, as file.py:Class or
    module:Class of this site, or the name of an installed plug-in. A run that asks for
    net.py:Net is given this site's own file of that name; no code comes from others."""
    secure: tuple[str, ...] = ("shares",)
    """How sums must be protected: any of shares, ckks, shares-additive. 'none' shows the server all
    that this site sends, and is allowed only if it is listed."""
    min_parties: int = Field(default=3, ge=1)
    """Fewest sites of a run, and fewest whose sum this site helps to reveal."""
    parties: tuple[str, ...] = ()
    """Sites that may take part; none listed: all that the kit names."""
    allow: tuple[str, ...] = ()
    """Settings that show others more than this site's part of sums: collect_models (its own
    network or model), sharing=across (embeddings of nodes, to sites that share an edge with them;
    auto goes without if it is not allowed), share=all (rows from which features can be rebuilt),
    backward (gradients from which labels of nodes next to another site's can be read),
    mode=threshold (graphfl-ga: whether its accuracy is below the threshold), match (autofgl site
    match: to each other site, which of the ids that it asks for are here, and edges to them)."""
    max_rounds: int = Field(default=20_000, ge=0)
    """Rounds of a run, its search included."""
    max_parameters: int = Field(default=20_000_000, ge=0)
    """Parameters of a network."""
    max_classes: int = Field(default=1_000, ge=0)
    """Classes that the sites have together."""
    max_message: int = Field(default=1 << 28, ge=1 << 10)
    """Bytes of a message that is read."""
    max_bytes: int = Field(default=100_000_000_000, ge=0)
    """Bytes that this site sends in a run."""
    max_epsilon: int = Field(default=0, ge=0)
    """Largest epsilon of differential privacy (--dp) of a run; 0: a run need not have any."""

    #: What the names in a list may be.
    _choices: ClassVar[Mapping[str, Collection[str]]] = {"methods": METHODS, "secure": MODES}

    @classmethod
    def read(cls, path: Path) -> "Policy":
        """The policy in a YAML file, closed if there is none; a mistake is a ``UserError``."""
        values = read_config_file(path, may_be_empty=True) if path.exists() else {}
        return cls.of(values, f"{path}: ")

    @classmethod
    def of(cls, values: dict[str, Any], where: str = "") -> "Policy":
        """The policy of these rules; a mistake is a ``UserError``."""
        policy = validated(cls, values, where)
        for key, choices in cls._choices.items():
            for name in getattr(policy, key):
                if name not in choices and not (key == "methods" and is_known("method", name)):
                    raise UserError(f"{where}{key}: '{name}' is unknown: use {', '.join(choices)}")
        if "secure" in values and not policy.secure:
            raise UserError(f"{where}secure: list at least one of {', '.join(MODES)}")
        return policy

    @property
    def closed(self) -> bool:
        """Whether the site takes part in nothing."""
        return not self.methods

    def check_method(self, name: str, secure: str) -> None:
        """Refuse a method or a protection that the site does not allow."""
        if self.closed:
            raise Refused(CLOSED)
        if name not in self.methods:
            raise _refuse("methods", f"'{name}' is not allowed", self.methods)
        if secure not in self.secure:
            raise _refuse("secure", f"'{secure}' is not allowed", self.secure)

    def check_matching(self) -> None:
        """Refuse to look for common ids unless it is allowed by name."""
        if MATCH not in self.allow:
            raise _refuse("allow", f"{MATCH} is not allowed", self.allow)

    def own_code(self, asked: str) -> str:
        """The site's own name of a network or layer that a run asks for: paths may differ, names of
        files and classes may not. Refused if none is listed.
        """
        for listed in self.models:
            if _without_folder(listed) == _without_folder(asked):
                return listed
        raise _refuse("models", f"'{_without_folder(asked)}' is not allowed", self.models)

    def check_protection(self, method: "type[Method]", name: str, secure: str) -> None:
        """Refuse a method that the mode protects nothing of: all that it sends is in the clear."""
        if secure != "none" and not method.sums_securely:
            raise _refuse("secure", f"{name} sums nothing that '{secure}' protects", self.secure)
        if method.pools:
            raise _refuse("methods", f"{name} pools the sites' graphs", self.methods)

    def check_parties(self, parties: Sequence[str], sites: Collection[str]) -> None:
        """Refuse parties that the kit or the policy does not name, and too few of them."""
        try:
            check_names(parties, "site")
        except UserError as error:
            raise Refused(str(error)) from error
        allowed = [name for name in sites if not self.parties or name in self.parties]
        for name in parties:
            if name not in allowed:
                raise _refuse("parties", f"'{name}' is no site that is known here", allowed)
        if len(parties) < self.min_parties:
            reason = f"{len(parties)} parties are fewer than this site asks for"
            raise _refuse("min_parties", reason, self.min_parties)

    def check_settings(self, settings: Any, secure: str, parties: int) -> None:
        """Refuse settings that show too much of the site, or ask too much of it."""
        for text in disclosed(settings):
            if text not in self.allow:
                raise _refuse("allow", f"{text} is not allowed", self.allow)
        for key, count in _contributors(settings, parties).items():
            if secure != "none" and count < self.min_parties:
                reason = f"{key}: a sum of {count} parties might be revealed"
                raise _refuse("min_parties", f"{reason}: raise it", self.min_parties)
        epsilon = getattr(settings, "dp_epsilon", 0)
        if self.max_epsilon and not 0 < epsilon <= self.max_epsilon:
            reason = f"dp_epsilon={epsilon:g} is too little privacy" if epsilon else "there is none"
            raise _refuse("max_epsilon", f"{reason}: give --dp epsilon", self.max_epsilon)
        rounds = settings.total_rounds
        if self.max_rounds and rounds > self.max_rounds:
            raise _refuse("max_rounds", f"{rounds} rounds are too many", self.max_rounds)

    def accepted(self, settings: Given) -> Given:
        """Settings as this site takes part in them: what it may turn down is off unless allowed."""
        declines = getattr(type(settings), "declines", {}).items()
        off = {key: value for key, (name, value) in declines if name not in self.allow}
        return settings.model_copy(update=off)

    def check_classes(self, classes: int) -> None:
        """Refuse more classes than the site builds networks for."""
        if self.max_classes and classes > self.max_classes:
            raise _refuse("max_classes", f"{classes} classes are too many", self.max_classes)

    def check_parameters(self, count: int) -> None:
        """Refuse networks that are too large."""
        if self.max_parameters and count > self.max_parameters:
            reason = f"{count} parameters are too many"
            raise _refuse("max_parameters", reason, self.max_parameters)

    def check_sent(self, count: int) -> None:
        """Refuse to send more bytes in a run."""
        if self.max_bytes and count > self.max_bytes:
            raise _refuse("max_bytes", "the run has had all that it may have", self.max_bytes)

    def to_text(self) -> str:
        """The policy as a file for its owner, with a word on every rule."""
        lines = ["# What this site takes part in. Everything else is refused; the site's log says",
                 "# by which rule. A limit of 0 is none."]  # fmt: skip
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            names = "" if isinstance(value, int) else ", ".join(map(_quoted, value))
            given = f"{value:_}" if isinstance(value, int) else f"[{names}]"
            about = textwrap.wrap(" ".join((field.description or "").split()), 88)
            lines += ["", *(f"# {line}" for line in about), f"{key}: {given}"]
        return "\n".join(lines) + "\n"


def disclosed(settings: Any) -> list[str]:
    """What of the settings shows others more of a site than its part of sums, as ``allow`` has it.

    Methods of one's own declare theirs, as ours do (``TrainSettings.discloses``).
    """
    given = getattr(type(settings), "discloses", {}).items()
    active = [(key, value) for key, value in given if getattr(settings, key) == value]
    return [key if value is True else f"{key}={value}" for key, value in active]


def _contributors(settings: Any, parties: int) -> dict[str, int]:
    """The fewest parties that a sum may be of, by the setting that says so."""
    fewest: dict[str, int] = {}
    if getattr(settings, "secure_threshold", 0):
        fewest["secure_threshold"] = settings.secure_threshold
    new = getattr(settings, "new_clients", 0)
    if new:  # their figures are summed apart from the others'
        fewest["new_clients"] = min(new, parties - new)
    share = getattr(settings, "participation", 1.0)
    if share < 1:
        fewest["participation"] = max(1, round(share * (parties - new)))
    return fewest


def _without_folder(name: str) -> str:
    where, colon, own = name.rpartition(":")
    return f"{Path(where).name}:{own}" if colon and where.endswith(".py") else name


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w=-]+", text) else json.dumps(text, ensure_ascii=False)


def _refuse(rule: str, reason: str, allowed: object) -> Refused:
    """A refusal that names the rule; what the rule says stays in the site's log."""
    reason = "".join(char if char.isprintable() else "?" for char in reason[:_LONGEST_REASON])
    shown = ", ".join(allowed) or "none" if isinstance(allowed, tuple | list) else allowed
    _log.warning("policy: %s: %s (allowed: %s)", rule, reason, shown)
    return Refused(f"policy: {rule}: {reason}")


#: A new site's policy: strict, and closed.
TEMPLATE = Policy().to_text()
