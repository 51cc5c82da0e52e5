import numpy as np
import pytest

from autofgl.methods.metrics import BestRound, Metrics


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
