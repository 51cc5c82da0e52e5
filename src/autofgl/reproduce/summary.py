"""What the run folders of a table say: figures of every cell, over its seeds."""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from autofgl.reproduce.by_client import BY_CLIENT, by_client
from autofgl.reproduce.cells import present
from autofgl.reproduce.options import Options
from autofgl.reproduce.over_seeds import OverSeeds, collect
from autofgl.reproduce.table import Column, Published, Row, Table
from autofgl.reproduce.tuning_time import Searched, searched
from autofgl.runs.folder import RunFolder, read_history


@dataclass(frozen=True)
class Summary(OverSeeds):
    """A row and a column, over all seeds that are finished.

    Attributes:
        row: The method.
        column: The dataset.
        paper: The paper's figures, if it has any.
        runs: Main figures of each finished run, by seed.
        failed: Why the last try of a seed failed.
        wanted: How many seeds are asked for.
        searches: Trials and times of each finished run, where the table is about them.
    """

    row: Row
    column: Column
    paper: Published | None
    runs: dict[int, dict[str, Any]]
    failed: dict[int, str]
    wanted: int
    searches: dict[int, Searched] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """Ours less the paper's accuracy in percentage points."""
        if self.paper is None or self.accuracy is None:
            return None
        return self.accuracy - self.paper.accuracy

    def to_dict(self) -> dict[str, Any]:
        """For ``table.json``."""
        return {
            "row": self.row.name,
            "column": self.column.name,
            "paper": None if self.paper is None else self.paper._asdict(),
            "accuracy": self.accuracy,
            "std": self.spread,
            "difference": self.difference,
            "parameters": self.mean("parameters"),
            "wall_s": self.mean("wall_s"),
            "search_s": self.mean("search_s"),
            "seeds_wanted": self.wanted,
            **{
                key: self.mean(key)
                for key in BY_CLIENT
                if any(key in r for r in self.runs.values())
            },
            "runs": {str(seed): run for seed, run in self.runs.items()},
            "failed": {str(seed): reason for seed, reason in self.failed.items()},
        }


def summarise(table: Table, options: Options) -> list[Summary]:
    """Read the run folders of a table, column by column."""
    return [
        summarise_cell(table, column, row, options)
        for column in table.columns
        for row in table.rows
    ]


def summarise_cell(table: Table, column: Column, row: Row, options: Options) -> Summary:
    """Read the run folders of one row and column."""
    cells = present(column, row, options.out)
    read = _figures_by_client if table.by_client else _main_figures
    runs, failed = collect(cells, options.out, read)
    paper = table.paper.get((row.name, column.name))
    searches = {}
    if table.tuning:
        places = {cell.seed: RunFolder(cell.folder(options.out)) for cell in cells}
        searches = {seed: searched(read_history(places[seed].history)) for seed in runs}
    return Summary(row, column, paper, runs, failed, options.seeds_of(row), searches)


def _figures_by_client(folder: RunFolder) -> dict[str, Any]:
    return {**_main_figures(folder), **by_client(folder)}


def _main_figures(folder: RunFolder) -> dict[str, Any]:
    result = folder.read_result()
    keys = ("test_accuracy", "val_accuracy", "parameters", "wall_s", "stopped_by", "architecture")
    return {
        **{key: result[key] for key in keys},
        "inference_s": result.get("inference_s"),
        "search_s": _search_seconds(folder.history),
    }


@lru_cache(maxsize=1024)
def _search_seconds(history: Path) -> float | None:
    """When the last round of the search phase was over; a finished run's history stays as it is."""
    ends = (row["wall_s"] for row in read_history(history) if row.get("phase") == "search")
    return max(ends, default=None)
