"""HTML and SVG from Python. Everything that is not :class:`Safe` is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias


class Safe(str):
    """Text that is markup already; only this module and files of ours make it."""

    __slots__ = ()


#: What may stand in an element: markup, text that is escaped, nothing, or several of these.
Content: TypeAlias = "Safe | str | Iterable[Content] | None"

Attribute: TypeAlias = "str | float | bool | None"

#: Elements of HTML that have neither content nor an end.
_VOID = frozenset({"br", "hr", "img", "link", "meta", "wbr"})


#: Attributes of SVG with a capital.
_CAPITALS = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}


def element(name: str, /, *content: Content, **attributes: Attribute) -> Safe:
    """An element.

    Args:
        name: Its name.
        *content: What stands in it; plain strings are escaped.
        **attributes: Its attributes. ``class_`` is ``class``, an underscore is a hyphen,
            ``None`` and ``False`` leave the attribute out, ``True`` writes its name only.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Safe(f"<{name}{written}>")
    return Safe(f"<{name}{written}>{join(content)}</{name}>")


def join(content: Content, between: str = "") -> Safe:
    """The markup of some content, one piece after the other."""
    if content is None:
        return Safe("")
    if isinstance(content, Safe):
        return content
    if isinstance(content, str):
        return Safe(html.escape(content))
    return Safe(between.join(join(piece) for piece in content))


def slug(text: str) -> str:
    """Letters, digits and hyphens, for an ``id``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    name = _CAPITALS.get(name, name)
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text)}"'
