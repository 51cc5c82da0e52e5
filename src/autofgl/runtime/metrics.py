"""Federated figures from sums that clients hand in.

A client's metrics are one vector of sums, so that federated values are ratios of summed vectors
and the server needs no client's own figures (METHODS, common setting: each client weighs by its
number of training, validation or test nodes, and one with none weighs nothing).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: Loss sum, correct predictions and node count for each of the three masks, ``[9]``.
MetricSums: TypeAlias = npt.NDArray[np.float64]

SPLITS = ("train", "val", "test")
SIZE = 3 * len(SPLITS)


@dataclass(frozen=True)
class Metrics:
    """Mean loss and accuracy on each mask; zero where there are no nodes.

    ``objective`` is what is compared on validation nodes, ``val_objective`` its value unless it is
    the accuracy.
    """

    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float
    test_loss: float
    test_accuracy: float
    val_nodes: int
    objective: str = "accuracy"
    val_objective: float = 0.0

    @classmethod
    def of(cls, sums: MetricSums) -> "Metrics":
        """Metrics from a vector of sums, ``[9]``."""
        loss, correct, count = np.asarray(sums, np.float64).reshape(len(SPLITS), 3).T
        nodes = np.maximum(count, 1.0)
        names = [f"{split}_{figure}" for split in SPLITS for figure in ("loss", "accuracy")]
        values = np.stack([loss / nodes, correct / nodes], axis=1).ravel().tolist()
        figures: dict[str, Any] = dict(zip(names, values, strict=True))
        return cls(**figures, val_nodes=round(float(count[1])))

    @property
    def score(self) -> float:
        """What rounds, trials and networks compete by on validation nodes: the more, the better."""
        return self.val_accuracy if self.objective == "accuracy" else self.val_objective

    def judged_by(self, objective: str, value: float) -> "Metrics":
        """The same, compared by another figure than accuracy."""
        return replace(self, objective=objective, val_objective=value)

    def row(self) -> dict[str, float]:
        """The columns of the history."""
        columns = asdict(self)
        for key in ("val_nodes", "objective", "val_objective"):
            del columns[key]
        judged = self.objective != "accuracy"
        return {**columns, f"val_{self.objective}": self.val_objective} if judged else columns


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
            accuracies[name] = float(correct) / float(count)
    return {"client_val_accuracy": accuracies} if accuracies else {}


def train_losses(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Mean training loss of each client that has training nodes; ``parts`` as above."""
    losses = {}
    for name, vectors in parts.items():
        loss, _, count = vectors["metrics"][:SIZE].reshape(len(SPLITS), 3)[SPLITS.index("train")]
        if count > 0:
            losses[name] = float(loss) / float(count)
    return losses


@dataclass
class BestRound:
    """Remembers the best round so far, by validation, and counts those without a lower loss."""

    select: str  # objective, accuracy (the loss breaks ties of both), loss or last
    round: int = -1
    accuracy: float = -1.0
    loss: float = float("inf")
    lowest_loss: float = float("inf")
    since_lower_loss: int = 0
    score: float = -1.0

    def figure(self, kind: str) -> float:
        """The best round's ``accuracy``, or the objective."""
        return self.accuracy if kind == "accuracy" else self.score

    def update(self, at: int, metrics: Metrics) -> bool:
        """Take in a round's metrics; true if it is the best so far."""
        accuracy, loss = metrics.val_accuracy, metrics.val_loss
        lower = loss < self.lowest_loss or not metrics.val_nodes
        self.since_lower_loss = 0 if lower else self.since_lower_loss + 1
        self.lowest_loss = min(self.lowest_loss, loss)
        if self.select == "accuracy":
            better = (accuracy, -loss) > (self.accuracy, -self.loss)
        elif self.select == "objective":
            better = (metrics.score, -loss) > (self.score, -self.loss)
        else:
            better = self.select == "last" or loss < self.loss
        if better or not metrics.val_nodes:
            self.round, self.accuracy, self.loss = at, accuracy, loss
            self.score = metrics.score
        return better or not metrics.val_nodes
