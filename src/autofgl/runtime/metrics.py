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
        names = [f"{split}_{figure}" for split in SPLITS for figure in ("loss", "accuracy")]
        values = np.stack([loss / nodes, correct / nodes], axis=1).ravel().tolist()
        return cls(**dict(zip(names, values, strict=True)), val_nodes=round(float(count[1])))

    def row(self) -> dict[str, float]:
        """The columns of the history."""
        columns = asdict(self)
        del columns["val_nodes"]
        return columns


def scale_down(sums: MetricSums, totals: Sequence[int]) -> MetricSums:
    """Sums over the federation's node counts ``[3]``: small numbers, fit for any secure sum."""
    return (sums.reshape(len(SPLITS), 3) / np.maximum(totals, 1.0)[:, None]).reshape(-1)


def scale_up(scaled: MetricSums, totals: Sequence[int]) -> MetricSums:
    """Undo :func:`scale_down` after summing; counts become whole numbers again."""
    sums = scaled.reshape(len(SPLITS), 3) * np.maximum(totals, 1.0)[:, None]
    sums[:, 1:] = np.rint(sums[:, 1:])
    return sums.reshape(-1)


def client_accuracies(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """``client_val_accuracy`` for the history, of clients that have validation nodes.

    ``parts`` are what each client contributed, with its scaled sums (of the first kind first) under
    ``metrics``; there are none where the server sees sums alone.
    """
    accuracies = {}
    for name, vectors in parts.items():
        _, correct, count = vectors["metrics"][:SIZE].reshape(len(SPLITS), 3)[SPLITS.index("val")]
        if count > 0:
            accuracies[name] = float(correct / count)
    return {"client_val_accuracy": accuracies} if accuracies else {}


def train_losses(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Mean training loss of each client that has training nodes; ``parts`` as above."""
    losses = {}
    for name, vectors in parts.items():
        loss, _, count = vectors["metrics"][:SIZE].reshape(len(SPLITS), 3)[SPLITS.index("train")]
        if count > 0:
            losses[name] = float(loss / count)
    return losses


@dataclass
class BestRound:
    """Remembers the best round so far, by validation, and counts those without a lower loss."""

    select: str  # accuracy (the loss breaks ties), loss or last
    round: int = -1
    accuracy: float = -1.0
    loss: float = float("inf")
    lowest_loss: float = float("inf")
    since_lower_loss: int = 0

    def update(self, at: int, metrics: Metrics) -> bool:
        """Take in a round's metrics; true if it is the best so far."""
        accuracy, loss = metrics.val_accuracy, metrics.val_loss
        lower = loss < self.lowest_loss or not metrics.val_nodes
        self.since_lower_loss = 0 if lower else self.since_lower_loss + 1
        self.lowest_loss = min(self.lowest_loss, loss)
        if self.select == "accuracy":
            better = (accuracy, -loss) > (self.accuracy, -self.loss)
        else:
            better = self.select == "last" or loss < self.loss
        if better or not metrics.val_nodes:
            self.round, self.accuracy, self.loss = at, accuracy, loss
        return better or not metrics.val_nodes
