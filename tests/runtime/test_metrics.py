"""Figures from sums; single clients' figures in the history only where the server sees them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.metrics import BestRound, Metrics

METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedgraph": {"evaluate_every": 1},
    "graphfl": {},
    "sfgnn": {},
}


def metrics(accuracy: float, loss: float, nodes: int = 10) -> Metrics:
    return Metrics(0, 0, loss, accuracy, 0, 0, nodes)


def test_metrics_are_ratios_of_sums() -> None:
    first = np.array([2.0, 1, 4, 3.0, 2, 2, 0.0, 0, 0])
    second = np.array([4.0, 3, 4, 1.0, 0, 2, 0.0, 0, 0])
    found = Metrics.of(first + second)
    assert found.train_loss == pytest.approx(6 / 8)
    assert found.train_accuracy == pytest.approx(4 / 8)
    assert found.val_loss == pytest.approx(4 / 4)
    assert found.val_accuracy == pytest.approx(2 / 4)
    assert found.val_nodes == 4


def test_no_nodes_give_zero_and_not_a_division_by_zero() -> None:
    assert Metrics.of(np.zeros(9)) == Metrics(0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(("select", "expected"), [("accuracy", 2), ("loss", 3), ("last", 4)])
def test_the_best_round_by_each_rule(select: str, expected: int) -> None:
    best = BestRound(select)
    rounds = [(0.5, 1.0), (0.7, 0.9), (0.7, 0.8), (0.6, 0.2), (0.1, 2.0)]
    for at, (accuracy, loss) in enumerate(rounds):
        best.update(at, metrics(accuracy, loss))
    assert best.round == expected


def test_patience_counts_rounds_without_a_lower_loss() -> None:
    best = BestRound("accuracy")
    counts = []
    for loss in (1.0, 0.9, 0.95, 0.9, 0.8, 0.8):
        best.update(0, metrics(0.5, loss))
        counts.append(best.since_lower_loss)
    assert counts == [0, 0, 1, 2, 0, 1]


def test_without_validation_nodes_the_last_round_counts() -> None:
    best = BestRound("loss")
    assert best.update(0, metrics(0, 0, nodes=0))
    assert best.update(1, metrics(0, 0, nodes=0))
    assert best.since_lower_loss == 0


@pytest.mark.parametrize("method", METHODS)
def test_the_clients_figures_make_up_the_federations(
    small_clients: list[ClientGraph], tmp_path: Path, method: str
) -> None:
    result = autofgl.run(
        method, small_clients, secure="none", out=tmp_path / "run", rounds=3, **METHODS[method]
    )
    nodes = {graph.name: int(graph.val_mask.sum()) for graph in small_clients}
    rows = [row for row in result.history if "client_val_accuracy" in row]
    assert rows
    for row in rows:
        own = row["client_val_accuracy"]
        assert list(own) == [name for name in nodes if nodes[name]]
        mean = sum(nodes[name] * value for name, value in own.items()) / sum(nodes.values())
        assert row["val_accuracy"] == pytest.approx(mean)
    assert "Validation accuracy of the clients" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("method", METHODS)
def test_a_protected_sum_shows_no_clients_figures(
    small_clients: list[ClientGraph], tmp_path: Path, method: str
) -> None:
    result = autofgl.run(
        method, small_clients, secure="shares", out=tmp_path / "run", rounds=2, **METHODS[method]
    )
    assert not any("client_val_accuracy" in row for row in result.history)
