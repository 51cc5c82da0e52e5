"""A table as Markdown and as JSON."""

import json
from collections.abc import Sequence

from autofgl.reproduce.by_client import BY_CLIENT
from autofgl.reproduce.grid import NOTHING, grid, number
from autofgl.reproduce.options import Options
from autofgl.reproduce.over_seeds import OverSeeds
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.table import Column, Table
from autofgl.reproduce.tuning_page import times

_HEADINGS = (
    "", "paper", "ours", "difference", "seeds", "paper, M parameters",
    "ours, M parameters", "search, s", "whole run, s",
)  # fmt: skip
_HEADINGS_BY_CLIENT = (
    "", "paper", "ours", "difference", "mean over clients", "all classes", "seeds", "whole run, s",
)  # fmt: skip


def markdown(table: Table, options: Options, cells: Sequence[Summary]) -> str:
    """A section for each dataset, a line for each method."""
    blocks = [
        f"# {table.title}",
        f"Paper: {table.source}. Ours: `autofgl reproduce {table.name}`; budget of each search "
        f"{options.budget}, secure sums {options.secure}. Federated test accuracy in percent, "
        "mean ± sample standard deviation over the seeds; parameters and seconds are means.",
        *(_section(table, column, cells) for column in table.columns),
        times(cells) if table.tuning else "",
        "\n".join(f"- {note}" for note in table.notes),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def as_json(table: Table, options: Options, cells: Sequence[Summary]) -> str:
    """The same with every run's figures; accuracies of single runs are in [0, 1]."""
    whole = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "budget": options.budget,
        "secure": options.secure,
        "cells": [cell.to_dict() for cell in cells],
        "notes": list(table.notes),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def ours(cell: OverSeeds) -> str:
    """Mean ± std in percent, and what failed."""
    found = [] if cell.accuracy is None else [number(cell.accuracy, 1)]
    if cell.spread is not None:
        found.append(f"± {cell.spread:.1f}")
    if cell.failed:
        seed, reason = next(iter(cell.failed.items()))
        found.append(f"(seed {seed} failed: {reason})" if cell.runs else f"failed: {reason}")
    return " ".join(found) or NOTHING


def difference(cell: Summary) -> str:
    """Ours less the paper's, with its sign."""
    return NOTHING if cell.difference is None else f"{cell.difference:+.1f}".replace("-", "−")


def seeds(cell: OverSeeds) -> str:
    """How many seeds the figures are made of, and of how many if some are missing."""
    done = len(cell.runs)
    if not done:
        return NOTHING
    return str(done) if done >= cell.wanted else f"{done} of {cell.wanted}"


def _section(table: Table, column: Column, cells: Sequence[Summary]) -> str:
    line = _line_by_client if table.by_client else _line
    headings: Sequence[str] = _HEADINGS_BY_CLIENT if table.by_client else _HEADINGS
    lines = [line(cell) for cell in cells if cell.column == column]
    heading = (
        f"## {column.label}\n\n"
        f"`{column.dataset}`, {column.clients} clients, partition `{column.partition}`"
        f"{''.join(f', `{key}={value}`' for key, value in column.settings.items())}."
    )
    return f"{heading}\n\n{grid(headings, lines)}"


def _line(cell: Summary) -> list[str]:
    parameters = cell.mean("parameters")
    paper = cell.paper
    return [
        cell.row.label,
        number(paper.accuracy if paper else None, 1),
        ours(cell),
        difference(cell),
        seeds(cell),
        number(paper.parameters if paper else None, 3),
        number(None if parameters is None else parameters / 1e6, 3),
        number(cell.mean("search_s"), 0),
        number(cell.mean("wall_s"), 0),
    ]


def _line_by_client(cell: Summary) -> list[str]:
    means = [cell.mean(key) for key in BY_CLIENT] if cell.runs else [None, None]
    return [
        cell.row.label,
        number(cell.paper.accuracy if cell.paper else None, 1),
        ours(cell),
        difference(cell),
        *(number(None if mean is None else 100 * mean, 1) for mean in means),
        seeds(cell),
        number(cell.mean("wall_s"), 0),
    ]
