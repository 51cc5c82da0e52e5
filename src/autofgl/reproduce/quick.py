"""Small versions of tables and figures: few minutes, one seed, and they say so."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autofgl.reproduce.figure import Figure, Line
from autofgl.reproduce.table import Row, Table

#: Time for each run of a table.
BUDGET = "30s"
#: Rounds of a training.
_ROUNDS = 100
_FIGURE_ROUNDS = 20
_LEARNING: dict[str, Any] = {"episodes": 4, "episode_rounds": 8, "profile_rounds": 8}
_NOTE = (
    "**Quick version**: {what}. It shows that everything runs and about where the figures lie; it "
    "is no reproduction."
)


def quick_table(table: Table) -> Table:
    """The first dataset with one seed; every run has the budget, fixed networks too."""
    note = _NOTE.format(
        what=f"first dataset only, one seed, at most {BUDGET} and {_ROUNDS} rounds for each run"
    )
    return replace(
        table,
        columns=table.columns[:1],
        rows=tuple(map(_quick_row, table.rows)),
        notes=(note, *table.notes),
    )


def quick_figure(figure: Figure) -> Figure:
    """The first dataset with one seed and few rounds; a policy is learnt in few episodes."""
    first = figure.panels[0].group
    note = _NOTE.format(
        what=f"first dataset only, one seed, {_FIGURE_ROUNDS} rounds, policies learnt in "
        f"{_LEARNING['episodes']} episodes of {_LEARNING['episode_rounds']} rounds"
    )
    return replace(
        figure,
        panels=[panel for panel in figure.panels if panel.group == first],
        lines=tuple(map(_quick_line, figure.lines)),
        rounds=min(figure.rounds, _FIGURE_ROUNDS),
        seeds=1,
        notes=(note, *figure.notes),
    )


def _quick_row(row: Row) -> Row:
    return replace(row, kind="search", seeds=1, settings=_fewer(row.settings, _ROUNDS))


def _quick_line(line: Line) -> Line:
    settings = _fewer(line.settings, _FIGURE_ROUNDS) if "rounds" in line.settings else line.settings
    if "episodes" in line.settings:
        settings = {**settings, **_LEARNING}
    uses = None if line.uses is None else _quick_line(line.uses)
    return replace(line, settings=settings, uses=uses)


def _fewer(settings: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The same with at most so many rounds."""
    return {**settings, "rounds": min(int(settings.get("rounds", most)), most)}
