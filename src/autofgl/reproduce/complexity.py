"""Accuracy against complexity (FL-AGCNS, Fig. 4).

The complexity of a network is the mean of its parameters and its inference time, each as a share of
the largest in the table. The paper's points come from its Table 3.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autofgl.report.chart import Chart, Series
from autofgl.report.numbers import percent, plain
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.table import Column, Table


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
    found = []
    for column in table.columns:
        own = [cell for cell in cells if cell.column == column]
        found += [_paper(table, column), _ours(column, own)]
    return [chart for chart in found if len(chart.series) > 1]


def _paper(table: Table, column: Column) -> Chart:
    known = {
        row.name: (table.paper[row.name, column.name], table.times[row.name, column.name])
        for row in table.rows
        if (row.name, column.name) in table.paper and (row.name, column.name) in table.times
    }
    costs = {
        name: Cost(paper.parameters, seconds)
        for name, (paper, seconds) in known.items()
        if paper.parameters
    }
    accuracies = {name: known[name][0].accuracy / 100 for name in costs}
    return _chart(f"{column.label}, the paper", table, costs, accuracies)


def _ours(column: Column, cells: Sequence[Summary]) -> Chart:
    costs, accuracies, labels = {}, {}, {}
    for cell in cells:
        parameters, seconds = cell.mean("parameters"), cell.mean("inference_s")
        accuracy = cell.mean("test_accuracy")
        if parameters and seconds and accuracy is not None:
            costs[cell.row.name] = Cost(parameters, seconds)
            accuracies[cell.row.name] = accuracy
            labels[cell.row.name] = cell.row.label
    return _scatter(f"{column.label}, ours", costs, accuracies, labels)


def _chart(
    title: str, table: Table, costs: Mapping[str, Cost], accuracies: Mapping[str, float]
) -> Chart:
    return _scatter(title, costs, accuracies, {row.name: row.label for row in table.rows})


def _scatter(
    title: str,
    costs: Mapping[str, Cost],
    accuracies: Mapping[str, float],
    labels: Mapping[str, str],
) -> Chart:
    series = [
        Series.of(labels[name], [(value, accuracies[name])], joined=False)
        for name, value in complexity(costs).items()
    ]
    return Chart(
        title,
        "complexity",
        series,
        percent,
        plain,
        whole_x=False,
        note="Up and to the left is better.",
    )
