"""Cells of a table: which runs there are, how each is configured, and what is in their folders."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from autofgl.config import RunConfig, check_config, sort_settings
from autofgl.errors import UserError, unknown_name
from autofgl.methods.catalog import find_method
from autofgl.reproduce.table import Column, Row, Table
from autofgl.runs.folder import RunFolder

Named = TypeVar("Named", Row, Column)


@dataclass(frozen=True)
class Options:
    """What the user asks for.

    Attributes:
        out: Folder of the table.
        columns: Names of the columns to run; none: all.
        rows: Names of the rows to run; none: all.
        seeds: How many seeds; none: each row's own number.
        budget: Time budget of each search.
        secure: How sums are protected.
        data_root: Folder with raw datasets.
    """

    out: Path
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    seeds: int | None = None
    budget: str = "10m"
    secure: str = "none"
    data_root: str | None = None

    def seeds_of(self, row: Row) -> int:
        """With how many seeds a row is run."""
        return row.seeds if self.seeds is None else self.seeds


@dataclass(frozen=True)
class Cell:
    """One run of a table."""

    column: Column
    row: Row
    seed: int

    def __str__(self) -> str:
        return f"{self.column.label}, {self.row.label}, seed {self.seed}"

    def folder(self, out: Path) -> Path:
        """Its run folder."""
        return out / self.column.name / self.row.name / f"seed-{self.seed}"

    def failure(self, out: Path) -> Path:
        """Where the reason stands why its last try failed; beside the run folder."""
        return self.folder(out).with_name(f"seed-{self.seed}.failed.txt")

    def config(self, options: Options) -> RunConfig:
        """The configuration that ``autofgl run`` would have.

        Raises:
            UserError: An option is wrong.
        """
        return check_config(
            {
                "method": self.row.method,
                "dataset": self.column.dataset,
                "data_root": options.data_root,
                "clients": self.column.clients,
                "partition": self.row.partition or self.column.partition,
                "secure": options.secure,
                "seed": self.seed,
                "budget": options.budget if self.row.kind == "search" else None,
                "settings": dict(self.row.settings),
            }
        )


def plan(table: Table, options: Options) -> list[Cell]:
    """The runs that are asked for, all with the first seed before any with the second.

    Raises:
        UserError: A row, a column or an option is wrong.
    """
    columns = _chosen("dataset of this table", options.columns, table.columns)
    rows = _chosen("row of this table", options.rows, table.rows)
    if options.seeds is not None and options.seeds < 1:
        raise UserError(f"--seeds {options.seeds}: there must be one at least")
    cells = [
        Cell(column, row, seed)
        for seed in range(max(options.seeds_of(row) for row in rows))
        for column in columns
        for row in rows
        if seed < options.seeds_of(row)
    ]
    for cell in cells:
        cell.config(options)
    return cells


def present(column: Column, row: Row, out: Path) -> list[Cell]:
    """The cells of a row and a column that were begun, or failed, by seed."""
    places = (out / column.name / row.name).glob("seed-*")
    found = (re.fullmatch(r"seed-(\d+)(\.failed\.txt)?", place.name) for place in places)
    return [Cell(column, row, seed) for seed in sorted({int(hit[1]) for hit in found if hit})]


def check_present(table: Table, options: Options) -> None:
    """Refuse a folder with cells that were not made as is asked now.

    Raises:
        UserError: One was made with another configuration; the message says what differs.
    """
    for column in table.columns:
        for row in table.rows:
            for cell in present(column, row, options.out):
                _check_same(cell, options)


def _check_same(cell: Cell, options: Options) -> None:
    folder = RunFolder(cell.folder(options.out))
    if not folder.config.exists():
        return
    asked = _facts(cell.config(options))
    try:
        made = _facts(check_config(folder.read_config()))
    except UserError as error:
        raise UserError(f"{folder.path} cannot be used, choose another --out: {error}") from error
    differing = [key for key in asked | made if asked.get(key) != made.get(key)]
    if differing:
        what = ", ".join(f"{key} {made.get(key)} (now {asked.get(key)})" for key in differing[:3])
        raise UserError(f"{folder.path} was made with {what}: choose another --out")


def _facts(config: RunConfig) -> dict[str, Any]:
    """What decides a run, defaults included: the place of the raw files does not."""
    layers = sort_settings(config, find_method(config.method).Settings)
    main = ("method", "dataset", "clients", "partition", "secure", "seed")
    return {
        **{key: getattr(config, key) for key in main},
        "budget": None if config.budget_s is None else f"{config.budget_s:g}s",
        **layers.dump(config),
    }


def _chosen(kind: str, names: Iterable[str], choices: Iterable[Named]) -> list[Named]:
    """The choices of these names, in their own order; all of them if there are no names."""
    by_name = {choice.name: choice for choice in choices}
    wanted = [name.lower() for name in names]
    for name in wanted:
        if name not in by_name:
            raise unknown_name(kind, name, by_name)
    return [choice for name, choice in by_name.items() if not wanted or name in wanted]
