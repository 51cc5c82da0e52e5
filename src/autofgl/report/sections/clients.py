"""Sizes, labels and accuracies of the clients, and what each has chosen for itself."""

from collections.abc import Sequence
from typing import Any

from autofgl.report.charts.figures import Cells, bar_cell, table, table_figure
from autofgl.report.numbers import NOTHING, is_number, percent, plain, text
from autofgl.report.page import Content, Safe, element
from autofgl.report.record import Row, RunRecord, pairs

_SIZES = ("nodes", "edges", "cut_edges", "train", "val", "test")
_ACCURACIES = ("val_accuracy", "test_accuracy", "unadapted_test_accuracy")
#: More clients than this are folded away.
_MANY = 12


def clients_section(run: RunRecord) -> Content:
    """Sizes, labels and accuracies of the clients."""
    rows = list(run.clients.values())
    if not rows:
        return None
    accuracies = [row["test_accuracy"] for row in rows if is_number(row.get("test_accuracy"))]
    secure = run.finished and run.config.get("secure") not in (None, "none")
    summary = "The sums were secure: only a client itself knows its accuracy." if secure else ""
    if accuracies:
        lowest, highest = percent(min(accuracies)), percent(max(accuracies))
        summary = f"Test accuracy from {lowest} to {highest} over {len(accuracies)} clients."
    whole: Content = [table(_cells(rows), "Clients"), _choices(rows)]
    if len(rows) > _MANY:
        whole = element("details", element("summary", f"All {len(rows)} clients"), whole)
    return [element("p", summary) if summary else None, whole]


def _cells(rows: Sequence[Row]) -> Cells:
    sizes = [key for key in _SIZES if any(is_number(row.get(key)) for row in rows)]
    accuracies = [key for key in _ACCURACIES if any(is_number(row.get(key)) for row in rows)]
    labels = any(isinstance(row.get("labels"), list) for row in rows)
    headings = ["client", *(key.replace("_", " ") for key in sizes)]
    headings += ["nodes by class"] * labels
    for key in accuracies:
        headings += [key.replace("_", " ").replace("val ", "validation "), ""]
    shown = {"name", "labels", "unlabelled", *_SIZES, *_ACCURACIES}
    entries = ((key, row[key]) for row in rows for key in row if key not in shown)
    others = list(dict.fromkeys(key for key, value in entries if not isinstance(value, dict)))
    headings += [key.replace("_", " ") for key in others]
    cells: list[list[Content]] = []
    for row in rows:
        cell: list[Content] = [str(row["name"]), *(text(row.get(key)) for key in sizes)]
        if labels:
            cell.append(_labels(row.get("labels")))
        for value in map(row.get, accuracies):
            cell += [percent(value), bar_cell(value)] if is_number(value) else [NOTHING, ""]
        cells.append([*cell, *(text(row.get(key)) for key in others)])
    return Cells(headings, cells, frozenset(range(1, len(sizes) + 1)))


def _choices(rows: Sequence[Row]) -> Safe | None:
    """What each client has chosen for itself: mappings of its row, a column for each key."""
    chosen: dict[str, Row] = {str(row["name"]): {} for row in rows}
    for row in rows:
        for value in row.values():
            chosen[str(row["name"])] |= pairs(value) if isinstance(value, dict) else {}
    keys = list(dict.fromkeys(key for values in chosen.values() for key in values))
    if not keys:
        return None
    cells = [[name, *(text(values.get(key)) for key in keys)] for name, values in chosen.items()]
    headings = ["client", *(key.replace("_", " ") for key in keys)]
    return table_figure("What each client has chosen", Cells(headings, cells))


def _labels(counts: Any) -> Content:
    """A column for each class, as high as its number of nodes."""
    numbers = [value for value in counts if is_number(value)] if isinstance(counts, list) else []
    if not numbers or not max(numbers):
        return NOTHING
    step = max(3.0, min(9.0, 140 / len(numbers)))
    columns = [
        element(
            "rect",
            x=round(at * step, 1),
            y=round(24 - 22 * value / max(numbers), 1),
            width=round(step - 1, 1),
            height=round(22 * value / max(numbers), 1),
            class_="bar s0",
        )
        for at, value in enumerate(numbers)
    ]
    label = ", ".join(f"class {at}: {plain(value)}" for at, value in enumerate(numbers))
    width = round(len(numbers) * step)
    size = {"viewbox": f"0 0 {width} 25", "width": str(width), "height": "25"}
    return element("svg", element("title", label), columns, **size, role="img", aria_label=label)
