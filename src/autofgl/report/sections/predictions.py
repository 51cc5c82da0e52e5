"""How good the predictions of a run are: all figures, by class and client, confusion matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

from autofgl.report.charts.figures import Cells, bar_cell, table, table_figure
from autofgl.report.numbers import NOTHING, count, is_number, percent, plain
from autofgl.report.page import Content, element
from autofgl.report.record import RunRecord, only_dicts

#: Figures of a split, and what they are called.
_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "auroc": "AUROC",
    "average_precision": "average precision",
    "calibration_error": "calibration error",
}
_SPLITS = {"val": "validation", "test": "test"}
#: What is shown of every client.
_OF_CLIENTS = ("balanced_accuracy", "macro_f1", "auroc", "average_precision")
#: Confusion matrices of more classes are not shown.
_MOST_CLASSES = 16


def predictions_section(run: RunRecord) -> Content:
    """Figures of validation and test nodes; recall by class, confusion matrix, and clients."""
    splits = {split: _figures(run.result.get("metrics"), split) for split in _SPLITS}
    if not any(splits.values()):
        return None
    objective = str(run.result.get("objective", "accuracy"))
    about = f"Rounds and searches were judged by {_NAMES.get(objective, objective)}."
    tables = [_all_figures(splits, objective), _by_class(splits["test"]), _of_clients(run)]
    return [
        element("p", about),
        element("div", tables, class_="charts"),
        _confusion(splits["test"].get("confusion")),
    ]


def objective_figures(run: RunRecord) -> dict[str, float]:
    """What the run was judged by, of test and validation nodes, unless that is accuracy."""
    objective = str(run.result.get("objective", "accuracy"))
    if objective == "accuracy" or objective not in _NAMES:
        return {}
    figures = {
        f"{_SPLITS[split]} {_NAMES[objective]}": _figures(run.result.get("metrics"), split)
        for split in ("test", "val")
    }
    return {name: one[objective] for name, one in figures.items() if is_number(one.get(objective))}


def _figures(metrics: Any, split: str) -> Mapping[str, Any]:
    figures = metrics.get(split) if isinstance(metrics, dict) else None
    return figures if isinstance(figures, dict) else {}


def _all_figures(splits: Mapping[str, Mapping[str, Any]], objective: str) -> Content:
    rows = []
    for key, name in _NAMES.items():
        values = [splits[split].get(key) for split in _SPLITS]
        if any(map(is_number, values)):
            title = element("strong", name) if key == objective else name
            rows.append([title, *(plain(one) if is_number(one) else NOTHING for one in values)])
    cells = Cells(("figure", *_SPLITS.values()), rows, frozenset({1, 2}))
    return table_figure("Figures of all clients together", cells) if rows else None


def _by_class(figures: Mapping[str, Any]) -> Content:
    rows: list[Sequence[Content]] = []
    for name, one in enumerate(only_dicts(figures.get("classes"))):
        shares = [one.get(key) for key in ("recall", "precision")]
        words = [percent(share) if is_number(share) else NOTHING for share in shares]
        bar = bar_cell(shares[0]) if is_number(shares[0]) else ""
        nodes = one.get("nodes")
        rows.append([str(name), count(nodes) if is_number(nodes) else NOTHING, *words, bar])
    headings = ("class", "test nodes", "recall", "precision", "")
    cells = Cells(headings, rows, frozenset({1, 2, 3}))
    return table_figure("Test nodes by class", cells) if rows else None


def _confusion(confusion: Any) -> Content:
    if not isinstance(confusion, list) or not 0 < len(confusion) <= _MOST_CLASSES:
        return None
    if not all(isinstance(row, list) and all(map(is_number, row)) for row in confusion):
        return None
    headings = ("class", *(f"as {name}" for name in range(len(confusion[0]))))
    rows = [[str(name), *map(count, row)] for name, row in enumerate(confusion)]
    cells = Cells(headings, rows, frozenset(range(1, len(headings))))
    summary = element("summary", "Confusion matrix of the test nodes")
    note = element("p", "Rows are classes, columns what they were taken for.", class_="note")
    return element("details", summary, note, table(cells, "Confusion matrix"))


def _of_clients(run: RunRecord) -> Content:
    """Test figures of each client, where the server sees them."""
    figures = {name: _figures(row.get("metrics"), "test") for name, row in run.clients.items()}
    keys = [key for key in _OF_CLIENTS if any(is_number(own.get(key)) for own in figures.values())]
    rows = [
        [name, *(plain(own[key]) if is_number(own.get(key)) else NOTHING for key in keys)]
        for name, own in figures.items()
    ]
    headings = ("client", *(_NAMES[key] for key in keys))
    cells = Cells(headings, rows, frozenset(range(1, len(headings))))
    return table_figure("Test nodes by client", cells) if keys else None
