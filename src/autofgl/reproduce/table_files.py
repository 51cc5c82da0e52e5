"""A table as CSV and as a page."""

import csv
import io
from collections.abc import Sequence

from autofgl.report.charts import Chart
from autofgl.report.charts.figures import chart_grid
from autofgl.report.markdown import markdown_sections
from autofgl.report.page import Safe, Section, element, page
from autofgl.reproduce.complexity import charts as complexity_charts
from autofgl.reproduce.found import found_architectures
from autofgl.reproduce.options import Options
from autofgl.reproduce.render import markdown
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.table import Table

_KEYS = ("parameters", "inference_s", "search_s", "wall_s")


def as_csv(cells: Sequence[Summary]) -> str:
    """A row for each cell; accuracies in percent."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("dataset", "row", "paper", "ours", "std", "difference", "seeds", *_KEYS))
    for cell in cells:
        paper = cell.paper.accuracy if cell.paper else None
        figures = (paper, _rounded(cell.accuracy), _rounded(cell.spread), _rounded(cell.difference))
        costs = (cell.mean(key) for key in _KEYS)
        writer.writerow((cell.column.name, cell.row.name, *figures, len(cell.runs), *costs))
    return text.getvalue()


def as_html(table: Table, options: Options, cells: Sequence[Summary]) -> str:
    """The same as ``table.md``, with what was found drawn, and accuracy against complexity."""
    title, parts = markdown_sections(markdown(table, options, cells))
    found = found_architectures(cells)
    if found is not None:
        parts.append(found)
    plots: Sequence[Chart] = complexity_charts(table, cells) if table.times else ()
    grid = chart_grid(plots)
    if grid is not None:
        parts.append(Section("Accuracy against complexity", [_formula(), grid]))
    return page(title, header(title, f"{table.source}. autofgl reproduce {table.name}"), parts)


def header(title: str, source: str) -> Safe:
    """What stands on top of a reproduced table or figure."""
    return element(
        "header",
        element("p", "AutoFGL reproduction", class_="kicker"),
        element("h1", title),
        element("p", source),
        class_="top",
    )


def _formula() -> Safe:
    return element(
        "p",
        "Complexity: mean of parameters and inference time, each as a share of the largest among "
        "the networks of the plot (Fig. 4 of the paper). The paper's times are those of its "
        "Table 3, ours those of one client on one core.",
        class_="note",
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
