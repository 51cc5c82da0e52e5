"""Checks every link of the built site, and of the Markdown files beside it, without a network.

A link to a page, picture or heading that is not there is printed with the page that has it, and the
exit code is 1. What leads to other hosts is not asked for. Run it with ``make docs``, or as
``python tools/check_links.py SITE``.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
#: Pages that are read in the repository itself.
MARKDOWN = ("*.md", "deploy/*.md")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_ATTRIBUTES = ("href", "src", "data")


class _Page(HTMLParser):
    """The links of a page, and the names that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag refers to, and what it is called."""
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.names.add(value)
            if key in _ATTRIBUTES and value and (tag, key) != ("meta", "name"):
                self.links.append(value)


@cache
def parsed(path: Path) -> _Page:
    """A page of HTML."""
    page = _Page()
    page.feed(path.read_text(errors="replace"))
    return page


def broken_in_site(site: Path) -> Iterator[str]:
    """Links of pages that lead nowhere within the site."""
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":  # its links begin at the root of wherever it is served
            continue
        for link in parsed(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            if parts.path.startswith("/"):
                yield f"{path.relative_to(site)}: {link} begins at the root"
                continue
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} is not there"
            elif target.suffix == ".html" and not _is_name(parts.fragment, parsed(target).names):
                yield f"{path.relative_to(site)}: {link} names no heading there"


def broken_in_markdown() -> Iterator[str]:
    """Links of the repository's own pages that lead to no file, or to no heading of one."""
    for path in sorted({one for pattern in MARKDOWN for one in ROOT.glob(pattern)}):
        for link in _LINK.findall(_FENCE.sub("", path.read_text())):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            if not target.exists():
                yield f"{path.relative_to(ROOT)}: {link} is not there"
            elif target.suffix == ".md" and not _is_name(parts.fragment, headings(target)):
                yield f"{path.relative_to(ROOT)}: {link} names no heading there"


def _is_name(fragment: str, names: set[str]) -> bool:
    return not fragment or unquote(fragment) in names


def headings(path: Path) -> set[str]:
    """The anchors that GitHub and MkDocs give to a Markdown file's headings."""
    text = _FENCE.sub("", path.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def main() -> int:
    """Print what is broken."""
    broken = [*broken_in_site(Path(sys.argv[1])), *broken_in_markdown()]
    for line in broken:
        print(line)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
