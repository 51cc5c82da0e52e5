"""Pages as data, and how they are written: Markdown, HTML, CSV and JSON.

Texts may have ``**bold**`` and ```code``` in them; both forms of a page know these and no more.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from autofgl.experiments.plan import Experiment
from autofgl.experiments.summary import Summary
from autofgl.report.charts.figures import Cells, table
from autofgl.report.numbers import NOTHING
from autofgl.report.page import Content, Safe, Section, element, page, rich_text

_NUMBER = re.compile(r"[+−-]?\d[\d.,]*( ± [\d.,]+)?( %)?|–")


#: Heading of a column, and how its cell is made of a summary.
Column: TypeAlias = tuple[str, Callable[[Any], str]]


class Grid(NamedTuple):
    """A table of texts."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, columns: Sequence[Column], summaries: Iterable[Summary]) -> "Grid":
        """A row for each summary."""
        rows = [[cell(summary) for _, cell in columns] for summary in summaries]
        return cls([heading for heading, _ in columns], rows)


#: A paragraph or a table.
Block: TypeAlias = "str | Grid"


class PagePart(NamedTuple):
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A page: what stands before the first part (its title is for HTML only), parts, notes."""

    title: str
    intro: PagePart
    parts: Sequence[PagePart]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The page as Markdown."""
        blocks = [f"# {self.title}", *map(_markdown, self.intro.blocks)]
        for part in self.parts:
            blocks += [f"## {part.title}", *map(_markdown, part.blocks)]
        if self.notes:
            blocks.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(blocks) + "\n"

    def sections(self) -> list[Section]:
        """The page's parts as HTML; the notes end the last one."""
        bodies = [
            (part.title, [_html(block, part.title) for block in part.blocks])
            for part in (self.intro, *self.parts)
        ]
        if self.notes:
            notes = [element("li", rich_text(" ".join(note.split()))) for note in self.notes]
            bodies[-1][1].append(element("ul", notes))
        return [Section(title, body) for title, body in bodies]


def page_header(kind: str, title: str, about: str, state: str = "") -> Safe:
    """What stands on top of a page: what it is of, and what is still missing, if anything."""
    return element(
        "header",
        element("p", f"AutoFGL {kind}", class_="kicker"),
        element("h1", title),
        element("p", about),
        element("p", state, class_="state") if state else None,
        class_="top",
    )


def reproduction_page(experiment: Experiment, sections: Sequence[Section]) -> str:
    """The HTML file of a table or figure."""
    about = f"{experiment.source}. autofgl reproduce {experiment.name}"
    return page(experiment.title, page_header("reproduction", experiment.title, about), sections)


def csv_text(headings: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return text.getvalue()


def json_text(content: Mapping[str, Any]) -> str:
    """A JSON file."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def number(value: float | None, digits: int) -> str:
    """A number, or a dash for none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def mean_of(
    figure: str, digits: int = 2, *, times: float = 1, per: float = 1
) -> Callable[[Summary], str]:
    """A column's cell: the mean of a figure over the seeds, in other units."""

    def cell(summary: Summary) -> str:
        mean = summary.mean(figure)
        return number(None if mean is None else mean * times / per, digits)

    return cell


def label_text(summary: Summary) -> str:
    """What the variant is called."""
    return summary.variant.label


def accuracy_text(summary: Summary) -> str:
    """Mean ± std in percent, and what failed."""
    words = [] if summary.accuracy is None else [summary.mean_and_std]
    if summary.failed:
        seed, reason = next(iter(summary.failed.items()))
        words.append(f"(seed {seed} failed: {reason})" if summary.runs else f"failed: {reason}")
    return " ".join(words) or NOTHING


def seeds_text(summary: Summary) -> str:
    """How many seeds the figures are made of, and of how many if some are missing."""
    return summary.progress if summary.runs else NOTHING


def _markdown(block: Block) -> str:
    if isinstance(block, str):
        return block
    rule = ["---"] * len(block.headings)
    return "\n".join(_markdown_row(row) for row in (block.headings, rule, *block.rows))


def _markdown_row(words: Sequence[str]) -> str:
    safe = (word.replace("|", "\\|").replace("\n", " ") for word in words)
    return f"| {' | '.join(safe)} |"


def _html(block: Block, label: str) -> Content:
    if isinstance(block, str):
        return element("p", rich_text(" ".join(block.splitlines())))
    rows = [[" ".join(cell.splitlines()).strip() for cell in row] for row in block.rows]
    numeric = frozenset(
        at
        for at in range(1, len(block.headings))
        if all(_NUMBER.fullmatch(row[at]) for row in rows if row[at])
    )
    return table(Cells(block.headings, [list(map(rich_text, row)) for row in rows], numeric), label)
