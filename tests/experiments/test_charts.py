"""Accuracy against complexity."""

import pytest

from autofgl.experiments.charts import Cost, complexity, complexity_charts
from autofgl.experiments.papers import TABLES


def test_complexity_by_hand() -> None:
    # ½ (10/40 + 2/2), ½ (40/40 + 1/2), ½ (20/40 + 0.5/2)
    costs = {"a": Cost(10, 2), "b": Cost(40, 1), "c": Cost(20, 0.5)}
    assert complexity(costs) == {"a": 0.625, "b": 0.75, "c": 0.375}
    assert complexity({}) == {}


def test_the_papers_complexity_comes_from_its_table() -> None:
    charts = complexity_charts(TABLES["fl-agcns-table3"], [])
    assert [chart.title for chart in charts] == [
        "Cora, the paper", "CiteSeer, the paper", "PubMed, the paper",
    ]  # fmt: skip
    places = {series.name: series.points[0] for series in charts[0].series}
    # Cora: SAGE has the most parameters, 0.184 M, AGNN takes the longest, 0.0820 s
    assert places["GCN"].x == pytest.approx((0.102 / 0.184 + 0.0200 / 0.0820) / 2)
    assert places["FL-AGCNS"].y == pytest.approx(0.829)
