"""A recipe: which way of sharing trains which network with which settings, as plain data.

Searches propose recipes, trials train them, comparisons compare them and results name them. A part
that is left out is the run's own. The text form is ``sharing: network; key=value …``, as in
``common: gcn; lr=0.01 dropout=0.5`` or ``personal: relu | gcn<0 gcn<1 | identity``.
"""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from autofgl.errors import UserError
from autofgl.federation.payload import Payload

Model = TypeVar("Model", bound=BaseModel)

#: Way of sharing, network, and the rest: pairs, whose values are in quotes if they have blanks.
_FORM = re.compile(r'(?:([^:;="|]*):)?([^:;="]*?)(?:;|(?=\s*[^\s:;="]+=)|$)(.*)', re.DOTALL)
_PAIR = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')
_PLAIN = re.compile(r'[^\s"]+')


class Recipe(BaseModel):
    """What is trained, and how: a way of sharing, a network as text, and settings that differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sharing: str = ""
    network: str = ""
    settings: dict[str, bool | int | float | str] = {}

    def __str__(self) -> str:
        pairs = " ".join(f"{key}={_text(value)}" for key, value in self.settings.items())
        return (f"{self.sharing}: " if self.sharing else "") + "; ".join(
            part for part in (self.network, pairs) if part
        )

    @classmethod
    def parse(cls, text: str) -> "Recipe":
        """The recipe of a text form.

        Raises:
            UserError: It is none.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise UserError(f"recipe '{text}': write 'sharing: network; key=value …'")
        sharing, network, pairs = match.groups()
        if sharing is not None and not sharing.strip():
            raise UserError(f"recipe '{text}': name a way of sharing before ':'")
        settings = {}
        for pair in _PAIR.findall(pairs):
            key, equals, value = pair.partition("=")
            if not equals or not key or not value:
                raise UserError(f"recipe '{text}': '{pair}' is not key=value")
            settings[key] = _value(value)
        return cls(sharing=(sharing or "").strip(), network=network.strip(), settings=settings)

    def to_payload(self) -> Payload:
        """What travels: the parts that are given."""
        return {key: value for key, value in self.model_dump().items() if value}

    @classmethod
    def from_payload(cls, payload: Payload) -> "Recipe":
        """The recipe in a message, whatever else it says."""
        return cls(**{key: payload[key] for key in cls.model_fields if key in payload})

    def apply(self, settings: Model) -> Model:
        """The run's settings with those of the recipe.

        Raises:
            UserError: A value does not fit, or nobody reads it.
        """
        changes = dict(self.settings)
        if self.network and "|" not in self.network and "model" in type(settings).model_fields:
            changes["model"] = self.network
        return changed(settings, changes, "recipe") if changes else settings


def changed(settings: Model, changes: dict[str, Any], what: str) -> Model:
    """Settings with some other values.

    Raises:
        UserError: A value does not fit; the message begins with ``what``.
    """
    try:
        return type(settings).model_validate({**settings.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{what}: {key}={first['input']}: {first['msg']}") from error


def _text(value: Any) -> str:
    """A value that :func:`_value` reads back; text is in quotes where it would be misread."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and _value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _value(text: str) -> Any:
    """A number, true, false, text in quotes, or the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | str) else text
