"""What trials are compared by, and what the history has of them."""

import numpy as np
import pytest

from autofgl.runtime.trials import fitness, told_of_trial


def test_of_equal_accuracies_the_lower_loss_is_better() -> None:
    losses, scores = np.array([0.9, 0.5, 0.7]), np.array([0.8, 0.8, 0.7])
    found = fitness(losses, scores, "accuracy")
    assert np.argsort(found).tolist() == [1, 0, 2]
    assert found == pytest.approx(1 - scores, abs=1e-5)
    assert fitness(0.5, 0.8, "loss") == 0.5


def test_the_history_has_nothing_of_test_nodes() -> None:
    row = {"round": 7, "val_loss": 0.5, "val_accuracy": 0.8, "test_accuracy": 0.7, "test_loss": 1}
    assert told_of_trial(row) == {"val_loss": 0.5, "val_accuracy": 0.8, "test_accuracy": None}
