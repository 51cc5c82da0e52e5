"""Cells of a table: which runs there are, how each is configured, and what is in their folders."""

from dataclasses import dataclass
from pathlib import Path

from autofgl.config import RunConfig, check_config
from autofgl.reproduce.batch import Planned, check_same, seeds_in
from autofgl.reproduce.options import Options, chosen
from autofgl.reproduce.table import Column, Row, Table


@dataclass(frozen=True)
class Cell(Planned):
    """One run of a table."""

    column: Column
    row: Row
    seed: int

    def __str__(self) -> str:
        return f"{self.column.label}, {self.row.label}, seed {self.seed}"

    def folder(self, out: Path) -> Path:
        """Its run folder."""
        return out / self.column.name / self.row.name / f"seed-{self.seed}"

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
                "secure": options.secure_of(self.row.method),
                "seed": self.seed,
                "budget": options.budget if self.row.kind == "search" else None,
                "settings": {
                    **self.column.settings,
                    **self.row.settings,
                    **self.row.own.get(self.column.name, {}),
                },
            }
        )


def plan(table: Table, options: Options) -> list[Cell]:
    """The runs that are asked for, all with the first seed before any with the second.

    Raises:
        UserError: A row, a column or an option is wrong.
    """
    columns = chosen("dataset of this table", options.columns, table.columns)
    rows = chosen("row of this table", options.rows, table.rows)
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
    return [Cell(column, row, seed) for seed in seeds_in(out / column.name / row.name)]


def check_present(table: Table, options: Options) -> None:
    """Refuse a folder with cells that were not made as is asked now.

    Raises:
        UserError: One was made with another configuration; the message says what differs.
    """
    for column in table.columns:
        for row in table.rows:
            for cell in present(column, row, options.out):
                check_same(cell, options)
