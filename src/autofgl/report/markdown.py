"""Our own Markdown as HTML: headings, paragraphs, tables, lists, bold, code. No more is needed."""

import re
from collections.abc import Iterator, Sequence

from autofgl.report.figures import Cells, table
from autofgl.report.markup import Content, Safe, element
from autofgl.report.section import Section

_NUMBER = re.compile(r"[+−-]?\d[\d.,]*( ± [\d.,]+)?( %)?|–")
_INLINE = re.compile(r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`")


def sections(text: str, intro: str = "In short") -> tuple[str, list[Section]]:
    """The title of a page, and its parts; what stands before the first heading is ``intro``."""
    title, current, bodies = "", intro, {intro: []}  # type: tuple[str, str, dict[str, list[Content]]]
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            title = block[2:].strip()
        elif block.startswith("## "):
            current = block[3:].strip()
            bodies.setdefault(current, [])
        else:
            bodies[current].append(_block(block, current))
    return title, [Section(name, body) for name, body in bodies.items() if body]


def inline(text: str) -> list[Content]:
    """Text with bold and code in it."""
    return list(_pieces(text))


def _block(block: str, name: str) -> Safe:
    lines = block.splitlines()
    if lines[0].startswith("|"):
        return _table(lines, name)
    if all(line.startswith(("- ", "  ")) for line in lines):
        entries = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
        return element("ul", [element("li", inline(" ".join(e.split()))) for e in entries])
    return element("p", inline(" ".join(lines)))


def _table(lines: Sequence[str], name: str) -> Safe:
    head, _, *body = ([_unescaped(cell) for cell in _cells(line)] for line in lines)
    numeric = frozenset(
        at
        for at in range(1, len(head))
        if all(_NUMBER.fullmatch(row[at].strip()) for row in body if row[at].strip())
    )
    return table(Cells(head, [[inline(cell) for cell in row] for row in body], numeric), name)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _unescaped(cell: str) -> str:
    return cell.replace("\\|", "|")


def _pieces(text: str) -> Iterator[Content]:
    at = 0
    for found in _INLINE.finditer(text):
        yield text[at : found.start()]
        bold, code = found["bold"], found["code"]
        yield element("strong", bold) if bold is not None else element("code", code)
        at = found.end()
    yield text[at:]
