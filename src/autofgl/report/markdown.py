"""Our own Markdown as HTML: headings, paragraphs, tables, lists, bold, code. No more is needed."""

import re
from collections.abc import Sequence

from autofgl.report.charts.figures import Cells, table
from autofgl.report.page import Safe, Section, element, rich_text

_NUMBER = re.compile(r"[+−-]?\d[\d.,]*( ± [\d.,]+)?( %)?|–")


def markdown_sections(text: str, intro: str = "In short") -> tuple[str, list[Section]]:
    """The title of a page, and its parts; what stands before the first heading is ``intro``."""
    title, current = "", intro
    bodies: dict[str, list[Safe]] = {intro: []}
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            title = block[2:].strip()
        elif block.startswith("## "):
            current = block[3:].strip()
            bodies.setdefault(current, [])
        else:
            bodies[current].append(_block(block, current))
    return title, [Section(name, body) for name, body in bodies.items() if body]


def _block(block: str, name: str) -> Safe:
    lines = block.splitlines()
    if lines[0].startswith("|"):
        return _table(lines, name)
    if all(line.startswith(("- ", "  ")) for line in lines):
        entries = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
        return element("ul", [element("li", rich_text(" ".join(e.split()))) for e in entries])
    return element("p", rich_text(" ".join(lines)))


def _table(lines: Sequence[str], name: str) -> Safe:
    head, _, *body = ([_unescaped(cell) for cell in _cells(line)] for line in lines)
    numeric = frozenset(
        at
        for at in range(1, len(head))
        if all(_NUMBER.fullmatch(row[at].strip()) for row in body if row[at].strip())
    )
    return table(Cells(head, [[rich_text(cell) for cell in row] for row in body], numeric), name)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _unescaped(cell: str) -> str:
    return cell.replace("\\|", "|")
