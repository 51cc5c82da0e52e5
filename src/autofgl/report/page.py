"""The frame of every page: style, a policy that forbids everything else, navigation, sections."""

import base64
import hashlib
from collections.abc import Sequence

from autofgl.report.markup import Content, Safe, element, join, slug
from autofgl.report.section import Section
from autofgl.report.style import NETWORK_STYLE, STYLE


def page(
    title: str,
    header: Safe,
    sections: Sequence[Section],
    script: Safe | None = None,
    before: Safe | None = None,
) -> str:
    """A whole HTML file.

    Args:
        title: For the browser's tab.
        header: What stands on top.
        sections: The parts, with headings and a link to each.
        script: A script that may run, and may then talk to where the page came from.
        before: What stands above everything and is never renewed.
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
        element("div", content(header, sections), id="content", tabindex=-1),
        element("footer", "Made by AutoFGL. Nothing on this page comes from the network."),
        element("script", script) if script else None,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def content(header: Safe, sections: Sequence[Section]) -> Safe:
    """What a live page renews: header, navigation and sections."""
    names = [slug(section.title) for section in sections]
    links = [
        element("li", element("a", section.title, href=f"#{name}"))
        for name, section in zip(names, sections, strict=True)
    ]
    return join(
        [
            header,
            element("nav", element("ul", links), aria_label="Sections") if links else None,
            element(
                "main",
                [
                    element(
                        "section",
                        element("h2", section.title, id=name),
                        section.body,
                        aria_labelledby=name,
                    )
                    for name, section in zip(names, sections, strict=True)
                ],
            ),
        ]
    )


def _policy(style: Content, script: Safe | None) -> str:
    """Nothing may be loaded from anywhere; only this style, and this script, may be used."""
    rules = ["default-src 'none'", f"style-src {_digest(str(style))}"]
    if script:
        rules += [f"script-src {_digest(script)}", "connect-src 'self'"]
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
