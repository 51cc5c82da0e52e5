"""A paper's table, paper beside ours: ``table.md``, ``table.html``, ``table.csv``, ``table.json``.

Every seed of a cell is an ordinary run folder, ``OUT/<column>/<row>/seed-<n>``; the files are made
anew from the folders after every run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from autofgl.experiments import pages
from autofgl.experiments.charts import best_architectures, complexity_charts, round_charts
from autofgl.experiments.curves import TrialTimes
from autofgl.experiments.pages import Column, Document, Grid, PagePart, mean_of
from autofgl.experiments.plan import Options, Run, Setting, Table
from autofgl.experiments.runner import Pages
from autofgl.experiments.summary import (
    CLIENT_FIGURES,
    SERVER_FIGURE,
    TableCell,
    table_cell,
    table_cells,
)
from autofgl.report.charts.figures import chart_grid
from autofgl.report.numbers import NOTHING
from autofgl.report.page import Section, element
from autofgl.runs.folder import Result

_COSTS = ("parameters", "inference_s", "search_s", "wall_s")
_COMPLEXITY = (
    "Complexity: mean of parameters and inference time, each as a share of the largest among "
    "the networks of the plot (Fig. 4 of the paper). The paper's times are those of its "
    "Table 3, ours those of one client on one core."
)

#: Values in ASFGNN's grid (section 5.1.4): dropout, L2, K and learning rate of a client; width.
OWN_VALUES, WIDTHS = 2 * 5 * 5 * 4, 4
#: Sets in the full grid: the same values for both clients, or each client its own.
COMMON_GRID, JOINT_GRID = OWN_VALUES * WIDTHS, OWN_VALUES**2 * WIDTHS
#: What a row of ASFGNN's Table 7 searches: its name on the page, and the sets of the full grid.
_SEARCHES = {"bayes": ("common", COMMON_GRID), "own": ("each client's own", JOINT_GRID)}
_TUNING_HEADINGS = (
    "", "hyperparameters", "small grid: trials, s, best M", "bayes: trials, s to the same M",
    "speedup, measured", "full grid: h", "speedup", "paper",
)  # fmt: skip
_TUNING_PAPER = {
    "cora": "6.67 h / 0.39 h = 17.1×",
    "citeseer": "40.85 h / 0.42 h = 97.3×",
    "pubmed": "427.67 h / 4.17 h = 102.6×",
}
_TUNING_INTRO = (
    "M is the validation accuracy that all searches maximize, the mean over clients. The grid is "
    "the small one of the notes, run to its end; Bayesian optimization runs until it has reached "
    "the grid's best M. The full grid, of the same values for both clients or of each client's "
    "own, would take its number of sets × the seconds of a trial of the small grid; the speedup is "
    "that over the seconds of Bayesian optimization. Means over the seeds."
)


@dataclass(frozen=True)
class TablePages(Pages):
    """The files of a table."""

    experiment: Table

    def files(self) -> dict[str, str]:
        """Of all cells, whatever was asked for."""
        table, options = self.experiment, self.options
        return table_files(table, options, table_cells(table, options))

    def describe(self, run: Run, result: Result) -> str:
        """Its accuracy, and how the cell stands."""
        cell = table_cell(self.experiment, run.setting, run.variant, self.options)
        paper = f", paper {cell.paper.accuracy:.1f}" if cell.paper else ""
        return (
            f"test accuracy {100 * result.test_accuracy:.1f} in {result.figures['wall_s']:.1f} s; "
            f"so far {pages.accuracy_text(cell)}, seeds {pages.seeds_text(cell)}{paper}"
        )

    def ending(self, files: dict[str, str]) -> str:
        """The table."""
        html = self.options.out / "table.html"
        return f"\n{files['table.md']}\nwritten to {html}, table.md and table.csv beside it"


def table_files(table: Table, options: Options, cells: Sequence[TableCell]) -> dict[str, str]:
    """Names and contents of a table's files."""
    document = _document(table, options, cells)
    content = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "budget": options.budget,
        "secure": options.secure,
        "cells": [_cell_json(cell) for cell in cells],
        "notes": list(table.notes),
    }
    headings = ("dataset", "row", "paper", "ours", "std", "difference", "seeds", *_COSTS)
    return {
        "table.json": pages.json_text(content),
        "table.md": document.markdown(),
        "table.csv": pages.csv_text(headings, map(_csv_row, cells)),
        "table.html": pages.reproduction_page(table, _sections(table, options, document, cells)),
    }


def _cell_json(cell: TableCell) -> dict[str, Any]:
    """A cell's figures; accuracies of single runs are in [0, 1]."""
    paper = cell.paper
    by_client = [key for key in CLIENT_FIGURES if any(key in run for run in cell.runs.values())]
    return {
        "row": cell.variant.name,
        "column": cell.setting.name,
        "paper": paper and {"accuracy": paper.accuracy, "parameters": paper.parameters},
        "accuracy": cell.accuracy,
        "std": cell.std,
        "difference": cell.difference,
        "parameters": cell.mean("parameters"),
        "wall_s": cell.mean("wall_s"),
        "search_s": cell.mean("search_s"),
        "seeds_wanted": cell.wanted,
        **{key: cell.mean(key) for key in by_client},
        **({SERVER_FIGURE: server} if (server := cell.mean(SERVER_FIGURE)) is not None else {}),
        **cell.runs_as_json(),
    }


def _csv_row(cell: TableCell) -> list[Any]:
    """Accuracies in percent."""
    ours = (cell.accuracy, cell.std, cell.difference)
    return [
        cell.setting.name,
        cell.variant.name,
        cell.paper.accuracy if cell.paper else None,
        *(None if value is None else round(value, 3) for value in ours),
        len(cell.runs),
        *(cell.mean(key) for key in _COSTS),
    ]


def _document(table: Table, options: Options, cells: Sequence[TableCell]) -> Document:
    """A part for each dataset, a line for each method."""
    intro = (
        f"Paper: {table.source}. Ours: `autofgl reproduce {table.name}`; budget of each search "
        f"{options.budget}, secure sums {options.secure}. Federated test accuracy in percent, "
        "mean ± sample standard deviation over the seeds; parameters and seconds are means."
    )
    parts = [_column_part(table, column, cells) for column in table.settings]
    if table.tuning and (times := tuning_times(cells)):
        parts.append(PagePart("Time", (_TUNING_INTRO, times)))
    return Document(table.title, PagePart("In short", (intro,)), parts, table.notes)


def _sections(
    table: Table, options: Options, document: Document, cells: Sequence[TableCell]
) -> list[Section]:
    """The document, best architectures, accuracy against complexity and by round."""
    architectures = best_architectures(cells)
    sections = [*document.sections(), *([architectures] if architectures else [])]
    timed = any(published.seconds for published in table.paper.values())
    charts = chart_grid(complexity_charts(table, cells)) if timed else None
    if charts is not None:
        note = element("p", _COMPLEXITY, class_="note")
        sections.append(Section("Accuracy against complexity", [note, charts]))
    rounds = chart_grid(round_charts(table, options, cells)) if table.by_round else None
    if rounds is not None:
        sections.append(Section("Accuracy by round", rounds))
    return sections


def _column_part(table: Table, column: Setting, cells: Sequence[TableCell]) -> PagePart:
    shared = "".join(f", `{key}={value}`" for key, value in column.shared.items())
    about = f"`{column.dataset}`, {column.clients} clients, partition `{column.partition}`{shared}."
    own = [cell for cell in cells if cell.setting == column]
    columns = _COLUMNS_BY_CLIENT if table.by_client else _COLUMNS
    if any(SERVER_FIGURE in run for cell in own for run in cell.runs.values()):
        columns = _COLUMNS_BY_TEST_PHASE
    return PagePart(column.label, (about, Grid.of(columns, own)))


def _difference(cell: TableCell) -> str:
    """With its sign."""
    return NOTHING if cell.difference is None else f"{cell.difference:+.1f}".replace("-", "−")


_ACCURACIES: tuple[Column, ...] = (
    ("", pages.label_text),
    ("paper", lambda cell: pages.number(cell.paper and cell.paper.accuracy, 1)),
    ("ours", pages.accuracy_text),
    ("difference", _difference),
)
_COLUMNS: tuple[Column, ...] = (
    *_ACCURACIES,
    ("seeds", pages.seeds_text),
    ("paper, M parameters", lambda cell: pages.number(cell.paper and cell.paper.parameters, 3)),
    ("ours, M parameters", mean_of("parameters", 3, per=1e6)),
    ("search, s", mean_of("search_s", 0)),
    ("whole run, s", mean_of("wall_s", 0)),
)
_COLUMNS_BY_CLIENT: tuple[Column, ...] = (
    *_ACCURACIES,
    ("mean over clients", mean_of("mean_test_accuracy", 1, times=100)),
    ("all classes", mean_of("all_classes_accuracy", 1, times=100)),
    ("seeds", pages.seeds_text),
    ("whole run, s", mean_of("wall_s", 0)),
)


_COLUMNS_BY_TEST_PHASE: tuple[Column, ...] = (
    *_ACCURACIES,
    ("server test", mean_of(SERVER_FIGURE, 1, times=100)),
    ("seeds", pages.seeds_text),
    ("whole run, s", mean_of("wall_s", 0)),
)


def tuning_times(cells: Sequence[TableCell]) -> Grid | None:
    """Bayesian optimization against grid search by time, with the arithmetic (ASFGNN, Table 7): a
    line for each dataset and search that were run.
    """
    trials = {(cell.setting.name, cell.variant.name): cell.trials for cell in cells}
    labels = {cell.setting.name: cell.setting.label for cell in cells}
    rows = [
        [label, what, *_speedups(grids, searches, sets), _TUNING_PAPER.get(name, NOTHING)]
        for name, label in labels.items()
        for row, (what, sets) in _SEARCHES.items()
        if (grids := trials.get((name, "grid"))) and (searches := trials.get((name, row)))
        if grids.keys() & searches.keys()
    ]
    return Grid(_TUNING_HEADINGS, rows) if rows else None


def _speedups(
    grids: Mapping[int, TrialTimes], searches: Mapping[int, TrialTimes], sets: int
) -> list[str]:
    """Grid, search, and the speedups of a line, as means over the seeds that reached the grid's M.

    The grid's own figures are of all seeds that both were run with.
    """
    common = [(own, searches[seed]) for seed, own in grids.items() if seed in searches]
    pairs = [
        reached
        for own, search in common
        if own.best is not None and (reached := search.until(own.best)) is not None
    ]
    trials = mean(len(own.seconds) for own, _ in common)
    seconds = mean(own.seconds[-1] for own, _ in common)
    each = mean(own.seconds_per_trial for own, _ in common)
    best = mean(own.best or 0.0 for own, _ in common)
    small = f"{trials:.0f}, {seconds:.0f} s, {100 * best:.1f}"
    whole = f"{sets:,} × {each:.1f} s = {sets * each / 3600:.1f} h"
    if not pairs:
        most = max(len(search.seconds) for _, search in common)
        return [small, f"not reached in {most}", NOTHING, whole, NOTHING]
    bayes_trials, bayes_s = (mean(reached[i] for reached in pairs) for i in (0, 1))
    missed = len(common) - len(pairs)
    note = f" (not reached with {missed} more of {len(common)} seeds)" if missed else ""
    return [
        small,
        f"{bayes_trials:.1f}, {bayes_s:.0f} s{note}",
        f"{seconds:.0f} / {bayes_s:.0f} = {seconds / bayes_s:.1f}×",
        whole,
        f"{sets * each / bayes_s:.0f}×",
    ]
