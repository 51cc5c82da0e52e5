"""From the history of a FedGraph run to the numbers of a figure.

Seconds and cost are those of training: what evaluation takes is in neither.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

#: Rows of ``history.jsonl``.
History: TypeAlias = Sequence[dict[str, Any]]

#: Evaluations that a smoothed accuracy is the mean of.
WINDOW = 3
#: How far below the best accuracy that every run reaches the common target lies.
MARGIN = 0.01
#: Runs that end further below the best one do not count for the common target.
LAG = 0.1


@dataclass(frozen=True)
class Point:
    """Where a training stands after a round that was evaluated.

    Attributes:
        round: Rounds of the training so far.
        seconds, cost: What they took.
        test_accuracy, val_accuracy: Federated accuracies in [0, 1].
        train_loss: Loss of this round's mini-batches.
    """

    round: int
    seconds: float
    cost: float
    test_accuracy: float
    val_accuracy: float
    train_loss: float


@dataclass(frozen=True)
class Episode:
    """Where the learning of a policy stands after an episode.

    Attributes:
        episode: Its number, from 1.
        discounted_return: Its discounted return.
        accuracy: Accuracy λ of its last round.
        seconds, cost: What all rounds so far took, those of profiling included.
    """

    episode: int
    discounted_return: float
    accuracy: float
    seconds: float
    cost: float


class Effort(NamedTuple):
    """What some rounds took."""

    rounds: int
    seconds: float
    cost: float


class MeanPoint(NamedTuple):
    """A point of the mean over seeds, and the sample standard deviation of y there."""

    x: float
    y: float
    spread: float


def mean_curve(seeds: Sequence[Sequence[Point | Episode]], x: str, y: str) -> list[MeanPoint]:
    """The mean of several seeds' curves, point by point, as far as all of them go."""
    found = []
    for points in zip(*seeds, strict=False):
        ys = [float(getattr(point, y)) for point in points]
        spread = statistics.stdev(ys) if len(ys) > 1 else 0.0
        mean_x = statistics.mean(float(getattr(point, x)) for point in points)
        found.append(MeanPoint(mean_x, statistics.mean(ys), spread))
    return found


def training_curve(history: History) -> list[Point]:
    """The evaluated rounds of the training; what was learnt before it does not count."""
    points = []
    seconds = cost = 0.0
    for number, row in enumerate(_rows(history, "train"), 1):
        seconds += row["train_s"]
        cost += row["cost"]
        if row["test_accuracy"] is not None:
            accuracies = row["test_accuracy"], row["val_accuracy"]
            points.append(Point(number, seconds, cost, *accuracies, row["train_loss"]))
    return points


def learning_curve(history: History) -> list[Episode]:
    """The end of every episode that was completed or is the last."""
    learning = _rows(history, "profile", "episode")
    points: dict[int, Episode] = {}
    seconds = cost = 0.0
    for row in learning:
        seconds += row["train_s"]
        cost += row["cost"]
        if row["phase"] == "episode":
            number = row["episode"]
            points[number] = Episode(number, row["return"], row["accuracy"], seconds, cost)
    return list(points.values())


def effort(history: History, *phases: str) -> Effort:
    """What all rounds of these phases took."""
    rows = _rows(history, *phases)
    return Effort(len(rows), sum(row["train_s"] for row in rows), sum(row["cost"] for row in rows))


def round_bytes(history: History) -> tuple[float | None, float | None]:
    """Bytes of a round of the training: to and from the server, and between clients.

    The mean over rounds without an evaluation, which is traffic too; over all where every round has
    one. None for a training of one round.
    """
    pairs = list(pairwise(_rows(history, "train")))
    steps = [pair for pair in pairs if pair[1]["test_accuracy"] is None] or pairs
    if not steps:
        return None, None
    server = sum(_server(after) - _server(before) for before, after in steps)
    peer = sum(after.get("bytes_peer", 0) - before.get("bytes_peer", 0) for before, after in steps)
    return server / len(steps), peer / len(steps)


def smoothed(values: Sequence[float]) -> list[float]:
    """The mean of each value and the up to ``WINDOW - 1`` before it."""
    windows = (values[max(0, end - WINDOW) : end] for end in range(1, len(values) + 1))
    return [sum(window) / len(window) for window in windows]


def common_target(curves: Iterable[Sequence[Point]]) -> float | None:
    """A test accuracy that most curves reach: the lowest of their best smoothed accuracies, less
    a margin. Curves that stay far below the others do not count, as in FedGraph's section 5.2,
    where FastGCN misses the target. None without a curve.
    """
    best = [max(_accuracies(curve)) for curve in curves if curve]
    near = [accuracy for accuracy in best if accuracy >= max(best) - LAG]
    return min(near) - MARGIN if near else None


def reached(curve: Sequence[Point], target: float) -> Point | None:
    """The first point whose smoothed test accuracy is at least the target."""
    points = zip(curve, _accuracies(curve), strict=True)
    return next((point for point, accuracy in points if accuracy >= target), None)


def _accuracies(curve: Sequence[Point]) -> list[float]:
    return smoothed([point.test_accuracy for point in curve])


def _rows(history: History, *phases: str) -> list[dict[str, Any]]:
    return [row for row in history if row["phase"] in phases]


def _server(row: dict[str, Any]) -> int:
    return int(row["bytes_up"] + row["bytes_down"])
