"""Federated figures from sums that clients hand in.

A client's metrics are one vector of sums, so that federated values are ratios of summed vectors
and the server needs no client's own figures (METHODS, common setting: each client weighs by its
number of training, validation or test nodes, and one with none weighs nothing).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: Loss sum, correct predictions and node count for each of the three masks, ``[9]``.
MetricSums: TypeAlias = npt.NDArray[np.float64]

SPLITS = ("train", "val", "test")
SIZE = 3 * len(SPLITS)


@dataclass(frozen=True)
class Metrics:
    """Mean loss and accuracy on each mask; zero where there are no nodes."""

    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float
    test_loss: float
    test_accuracy: float
    val_nodes: int

    @classmethod
    def of(cls, sums: MetricSums) -> "Metrics":
        """Metrics from a vector of sums, ``[9]``."""
        loss, correct, count = np.asarray(sums, np.float64).reshape(len(SPLITS), 3).T
        nodes = np.maximum(count, 1.0)
        losses, accuracies = (loss / nodes).tolist(), (correct / nodes).tolist()
        return cls(
            train_loss=losses[0],
            train_accuracy=accuracies[0],
            val_loss=losses[1],
            val_accuracy=accuracies[1],
            test_loss=losses[2],
            test_accuracy=accuracies[2],
            val_nodes=round(float(count[1])),
        )

    def row(self) -> dict[str, float]:
        """The columns of the history."""
        columns = asdict(self)
        del columns["val_nodes"]
        return columns


def scale_down(sums: MetricSums, totals: Sequence[int]) -> MetricSums:
    """Sums over the federation's node counts ``[3]``: small numbers, fit for any secure sum."""
    return (sums.reshape(len(SPLITS), 3) / _divisors(totals)).reshape(-1)


def scale_up(scaled: MetricSums, totals: Sequence[int]) -> MetricSums:
    """Undo :func:`scale_down` after summing; counts become whole numbers again."""
    sums = scaled.reshape(len(SPLITS), 3) * _divisors(totals)
    sums[:, 1:] = np.rint(sums[:, 1:])
    return sums.reshape(-1)


def client_accuracies(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """``client_val_accuracy`` for the history, of clients that have validation nodes.

    Args:
        parts: What each client contributed to a sum, with its scaled sums under ``metrics``; those
            of further kinds, after the first, are left out. Empty where the server sees sums alone.
    """
    accuracies = {}
    for name, vectors in parts.items():
        _, correct, count = vectors["metrics"][:SIZE].reshape(len(SPLITS), 3)[SPLITS.index("val")]
        if count > 0:
            accuracies[name] = float(correct / count)
    return {"client_val_accuracy": accuracies} if accuracies else {}


def _divisors(totals: Sequence[int]) -> MetricSums:
    return np.maximum(np.asarray(totals, np.float64), 1.0)[:, None]


@dataclass
class BestRound:
    """Remembers the best round so far, by validation.

    Attributes:
        select: ``accuracy`` (the loss breaks ties), ``loss`` or ``last``.
        round: The best round, -1 before the first.
        since_lower_loss: Rounds since the validation loss was lowest, for patience.
    """

    select: str
    round: int = -1
    accuracy: float = -1.0
    loss: float = float("inf")
    lowest_loss: float = float("inf")
    since_lower_loss: int = 0

    def update(self, at: int, metrics: Metrics) -> bool:
        """Take in a round's metrics; true if it is the best so far."""
        self._count_patience(metrics)
        if not self._better(metrics):
            return False
        self.round, self.accuracy, self.loss = at, metrics.val_accuracy, metrics.val_loss
        return True

    def _better(self, metrics: Metrics) -> bool:
        if self.select == "last" or not metrics.val_nodes:
            return True
        if self.select == "loss":
            return metrics.val_loss < self.loss
        return (metrics.val_accuracy, -metrics.val_loss) > (self.accuracy, -self.loss)

    def _count_patience(self, metrics: Metrics) -> None:
        lower = metrics.val_loss < self.lowest_loss or not metrics.val_nodes
        self.since_lower_loss = 0 if lower else self.since_lower_loss + 1
        self.lowest_loss = min(self.lowest_loss, metrics.val_loss)
