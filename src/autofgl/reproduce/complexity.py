"""Accuracy against complexity (FL-AGCNS, Fig. 4).

The complexity of a network is the mean of its parameters and its inference time, each as a share of
the largest in the table. The paper's points come from its Table 3.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autofgl.report.charts import Chart, Series
from autofgl.report.numbers import percent, plain
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.table import Column, Published, Row, Table


class Cost(NamedTuple):
    """Parameters and inference time, in whatever unit."""

    parameters: float
    seconds: float


def complexity(costs: Mapping[str, Cost]) -> dict[str, float]:
    """½ (Params / max Params + Time / max Time), by name."""
    if not costs:
        return {}
    most = Cost(*(max(cost[at] for cost in costs.values()) for at in (0, 1)))
    return {
        name: (cost.parameters / most.parameters + cost.seconds / most.seconds) / 2
        for name, cost in costs.items()
    }


def charts(table: Table, cells: Sequence[Summary]) -> list[Chart]:
    """Two for each dataset: the paper's, if it tells its times, and ours."""
    drawn = []
    for column in table.columns:
        own = {cell.row.name: cell for cell in cells if cell.column == column}
        paper = {row.name: _paper(table, row, column) for row in table.rows}
        ours = {row.name: _ours(own.get(row.name)) for row in table.rows}
        drawn.append(_scatter(f"{column.label}, the paper", table, paper))
        drawn.append(_scatter(f"{column.label}, ours", table, ours))
    return [chart for chart in drawn if len(chart.shown) > 1]


class _Point(NamedTuple):
    cost: Cost
    accuracy: float


def _paper(table: Table, row: Row, column: Column) -> _Point | None:
    published, seconds = (told.get((row.name, column.name)) for told in (table.paper, table.times))
    if not isinstance(published, Published) or not isinstance(seconds, float):
        return None
    if not published.parameters:
        return None
    return _Point(Cost(published.parameters, seconds), published.accuracy / 100)


def _ours(cell: Summary | None) -> _Point | None:
    if cell is None:
        return None
    keys = ("parameters", "inference_s", "test_accuracy")
    parameters, seconds, accuracy = (cell.mean(key) for key in keys)
    if not parameters or not seconds or accuracy is None:
        return None
    return _Point(Cost(parameters, seconds), accuracy)


def _scatter(title: str, table: Table, points: Mapping[str, _Point | None]) -> Chart:
    """A mark for each row, the same in every chart."""
    known = {name: point for name, point in points.items() if point is not None}
    places = complexity({name: point.cost for name, point in known.items()})
    series = [
        Series.of(
            row.label,
            [(places[row.name], known[row.name].accuracy)] if row.name in known else [],
            joined=False,
        )
        for row in table.rows
    ]
    note = "Up and to the left is better."
    return Chart(title, "complexity", series, percent, plain, whole_x=False, note=note)
