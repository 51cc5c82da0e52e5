"""Reads a page as a browser would, and finds what must not be in it."""

import html
from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "br", "hr", "link", "img"}
_REFERRING = {"src", "href", "action", "data", "poster", "srcset", "xlink:href"}


class Page(HTMLParser):
    """Elements, ids, references and text of a page; wrong nesting is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.labels: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            assert not key.startswith("on"), f"a script in {key}"
            assert key != "style", "the policy forbids style attributes"
            if key == "id":
                self.ids.append(str(value))
            if key == "aria-label":
                self.labels.append(str(value))
            if key in _REFERRING:
                self.references.append(str(value))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def check_page(text: str, near: Path | None = None) -> Page:
    """The page, if it stands alone: nothing is loaded, nothing runs, every id is there once.

    Links lead into the page itself, or to files that lie in the folder ``near``.
    """
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids), "an id is there twice"
    for reference in page.references:
        inside = reference.startswith("#") and reference[1:] in page.ids
        beside = near is not None and (near / reference).is_file()
        assert inside or beside or reference.startswith("data:"), f"reference to {reference}"
    assert not {"img", "link", "iframe", "object", "embed"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in html.unescape(text)
    assert "could not be shown" not in page.text
    return page
