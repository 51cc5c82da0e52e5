"""HTML and SVG from Python, and the frame of every page.

Everything that is not :class:`Safe` is escaped. A page carries its style and a content security
policy that forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import cycle
from typing import NamedTuple, TypeAlias


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
_INLINE = re.compile(r"\*\*(.+?)\*\*|`([^`]+)`")


class Section(NamedTuple):
    """A part of a page: a heading and what stands below it."""

    title: str
    body: Content


def element(name: str, /, *content: Content, **attributes: Attribute) -> Safe:
    """An element; plain strings in it are escaped.

    Of attributes, ``class_`` is ``class``, an underscore is a hyphen, ``None`` and ``False`` leave
    the attribute out, ``True`` writes its name only.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Safe(f"<{name}{written}>")
    return Safe(f"<{name}{written}>{to_markup(content)}</{name}>")


def to_markup(content: Content) -> Safe:
    """The markup of some content, one piece after the other."""
    if content is None:
        return Safe("")
    if isinstance(content, Safe):
        return content
    if isinstance(content, str):
        return Safe(html.escape(content))
    return Safe("".join(map(to_markup, content)))


def rich_text(text: str) -> list[Content]:
    """Text in which ``**strong**`` and `` `code` `` become elements."""
    pieces = zip(cycle((None, "strong", "code")), _INLINE.split(text), strict=False)
    return [element(kind, piece) if kind and piece else piece for kind, piece in pieces]


def scroll_region(content: Safe, label: str) -> Safe:
    """What scrolls by itself where it is too wide, with the keyboard too."""
    return element("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def slug(text: str) -> str:
    """Letters, digits and hyphens, for an ``id``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "part"


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _CAPITALS.get(key, key.rstrip("_").replace("_", "-"))
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text)}"'


def read_asset(name: str) -> Safe:
    """A file of this package, which is ours and needs no escaping."""
    return Safe(files("autofgl.report").joinpath(name).read_text("utf-8"))


#: Colors, lines and marks, also for charts as files of their own.
CHART_STYLE = read_asset("chart.css")
#: The style of a page except for drawings of networks.
STYLE = Safe(CHART_STYLE + read_asset("style.css"))
#: For a network's drawing as a file of its own.
NETWORK_STYLE = read_asset("network.css")


def page(
    title: str,
    header: Safe,
    sections: Sequence[Section],
    script: Safe | None = None,
    before: Safe | None = None,
) -> str:
    """A whole HTML file.

    A script may run, and may then talk to the page's own server; what stands before everything is
    never refreshed.
    """
    style = Safe(STYLE + NETWORK_STYLE)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", style),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        before,
        element("div", page_body(header, sections), id="content", tabindex=-1),
        element("footer", "Made by AutoFGL. Nothing on this page comes from the network."),
        element("script", script) if script else None,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def page_body(header: Safe, sections: Sequence[Section]) -> Safe:
    """What a live page refreshes: header, navigation and sections."""
    links, parts = [], []
    for title, body in sections:
        name = slug(title)
        links.append(element("li", element("a", title, href=f"#{name}")))
        heading = element("h2", title, id=name)
        parts.append(element("section", heading, body, aria_labelledby=name))
    navigation = element("nav", element("ul", links), aria_label="Sections") if links else None
    return to_markup([header, navigation, element("main", parts)])


def _policy(style: Safe, script: Safe | None) -> str:
    """Nothing may be loaded from anywhere; only this style, and this script, may be used."""
    rules = ["default-src 'none'", f"style-src {_digest(style)}"]
    if script:
        rules += [f"script-src {_digest(script)}", "connect-src 'self'"]
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
