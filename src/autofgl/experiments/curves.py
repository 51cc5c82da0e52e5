"""From the histories of runs to the numbers of figures, tables and comparisons.

Seconds and cost of a FedGraph run are those of training: what evaluation takes is in neither.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from autofgl.report.numbers import is_number
from autofgl.runs.folder import RunFolder, read_history

#: Rows of ``history.jsonl``.
History: TypeAlias = Sequence[dict[str, Any]]
#: Places and values of a curve that stays at a value until the next one.
Steps: TypeAlias = tuple[tuple[float, float], ...]

#: Evaluations that a smoothed accuracy is the mean of.
WINDOW = 3
#: How far below the best accuracy that every run reaches the common target lies.
MARGIN = 0.01
#: Runs that end further below the best one do not count for the common target.
LAG = 0.1
#: Places on the x axis of a comparison.
_PLACES = 80


class TrainingPoint(NamedTuple):
    """A training after a round that was evaluated: seconds and cost of all rounds so far, federated
    accuracies in [0, 1], and the loss of this round's mini-batches.
    """

    round: int
    seconds: float
    cost: float
    test_accuracy: float
    val_accuracy: float
    train_loss: float


class Episode(NamedTuple):
    """The learning of a policy after an episode: its discounted return, accuracy λ of its last
    round, and what all rounds so far took, those of profiling included.
    """

    episode: int
    discounted_return: float
    accuracy: float
    seconds: float
    cost: float


class Generation(NamedTuple):
    """A population of a search after a generation: the least of its federated losses, and their
    median.
    """

    generation: int
    best_loss: float
    median_loss: float


class RoundPoint(NamedTuple):
    """Federated test accuracy of a round."""

    round: int
    test_accuracy: float


class Effort(NamedTuple):
    """What some rounds took."""

    rounds: int
    seconds: float
    cost: float


class MeanPoint(NamedTuple):
    """A point of the mean over seeds, and the sample standard deviation of y there."""

    x: float
    y: float
    std: float


@lru_cache(maxsize=1024)
def finished_history(folder: Path) -> list[dict[str, Any]]:
    """The history of a finished run, which stays as it is."""
    run = RunFolder(folder)
    run.check_pages()
    return read_history(run.history)


def mean_curve(seeds: Iterable[Sequence[Any]], x: str, y: str) -> list[MeanPoint]:
    """The mean of several seeds' curves, point by point, as far as all of them go."""
    curve = []
    for points in zip(*seeds, strict=False):
        xs, ys = ([float(getattr(point, axis)) for point in points] for axis in (x, y))
        std = statistics.stdev(ys) if len(ys) > 1 else 0.0
        curve.append(MeanPoint(statistics.mean(xs), statistics.mean(ys), std))
    return curve


def training_curve(history: History) -> list[TrainingPoint]:
    """The evaluated rounds of the training; what a policy's learning took does not count."""
    points = []
    seconds = cost = 0.0
    for number, row in enumerate(_rows(history, "train"), 1):
        seconds += row["train_s"]
        cost += row["cost"]
        if row["test_accuracy"] is not None:
            accuracies = row["test_accuracy"], row["val_accuracy"]
            points.append(TrainingPoint(number, seconds, cost, *accuracies, row["train_loss"]))
    return points


def learning_curve(history: History) -> list[Episode]:
    """The end of every episode that was completed or is the last."""
    points: dict[int, Episode] = {}
    seconds = cost = 0.0
    for row in _rows(history, "profile", "episode"):
        seconds += row["train_s"]
        cost += row["cost"]
        if row["phase"] == "episode":
            number = row["episode"]
            points[number] = Episode(number, row["return"], row["accuracy"], seconds, cost)
    return list(points.values())


def search_curve(history: History) -> list[Generation]:
    """The generations of a search over shared weights, those of its warm-up among them."""
    rows = _rows(history, "search")
    return [Generation(row["generation"], row["best_fll"], row["median_fll"]) for row in rows]


def round_curve(history: History) -> list[RoundPoint]:
    """The rounds of any method that were evaluated."""
    rows = (row for row in history if is_number(row.get("test_accuracy")))
    return [RoundPoint(row["round"], row["test_accuracy"]) for row in rows]


def total_effort(history: History, *phases: str) -> Effort:
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

    def mean_step(*keys: str) -> float:
        step = sum(after.get(k, 0) - before.get(k, 0) for before, after in steps for k in keys)
        return float(step / len(steps))

    return mean_step("bytes_up", "bytes_down"), mean_step("bytes_peer")


def running_mean(values: Sequence[float]) -> list[float]:
    """The mean of each value and the up to ``WINDOW - 1`` before it."""
    windows = (values[max(0, end - WINDOW) : end] for end in range(1, len(values) + 1))
    return [sum(window) / len(window) for window in windows]


def common_target(curves: Iterable[Sequence[TrainingPoint]]) -> float | None:
    """A test accuracy that most curves reach: the lowest of their best smoothed accuracies, less
    a margin. Curves that stay far below the others do not count, as in FedGraph's section 5.2,
    where FastGCN misses the target. None without a curve.
    """
    best = [max(_smoothed(curve)) for curve in curves if curve]
    near = [accuracy for accuracy in best if accuracy >= max(best) - LAG]
    return min(near) - MARGIN if near else None


def first_reaching(curve: Sequence[TrainingPoint], target: float) -> TrainingPoint | None:
    """The first point whose smoothed test accuracy is at least the target."""
    points = zip(curve, _smoothed(curve), strict=True)
    return next((point for point, accuracy in points if accuracy >= target), None)


@dataclass(frozen=True)
class TrialTimes:
    """How long a search for hyperparameters took: after each trial the best validation accuracy,
    None while no trial had one, and the seconds of all trials and proposals so far.
    """

    scores: tuple[float | None, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, history: History) -> "TrialTimes":
        """The trials in the history of an ``asfgnn`` run."""
        ends = [row for row in history if "trial_ended" in row]
        seconds = tuple(float(row["wall_s"]) for row in ends)
        return cls(tuple(row["best_score"] for row in ends), seconds)

    @property
    def best(self) -> float | None:
        """The best validation accuracy of all."""
        return self.scores[-1] if self.scores else None

    @property
    def seconds_per_trial(self) -> float:
        """Mean over all trials."""
        return self.seconds[-1] / len(self.seconds)

    def until(self, target: float) -> tuple[int, float] | None:
        """Trials and seconds until a validation accuracy was reached."""
        for number, (score, seconds) in enumerate(zip(self.scores, self.seconds, strict=True), 1):
            if score is not None and score >= target:
                return number, seconds
        return None


def mean_best_so_far(folders: Iterable[Path], x: str) -> list[tuple[float, float, float, float]]:
    """Best validation accuracy so far over ``wall_s``, ``bytes`` or ``round``: place, mean over the
    runs, least and greatest of them.
    """
    curves = [steps for folder in folders if (steps := best_so_far(folder, x))]
    if not curves:
        return []
    begin = max(steps[0][0] for steps in curves)
    end = max(steps[-1][0] for steps in curves)
    points = []
    for place in _log_places(begin, end):
        values = [_value_at(steps, place) for steps in curves]
        points.append((place, sum(values) / len(values), min(values), max(values)))
    return points


def best_so_far(folder: Path, x: str) -> Steps:
    """Where the best validation accuracy of a run rose, and its end."""
    steps: list[tuple[float, float]] = []
    best, place = -math.inf, 0.0
    for row in finished_history(folder):
        at, accuracy = row.get(x), row.get("val_accuracy")
        if x == "bytes":
            ways = (row.get(key) for key in ("bytes_up", "bytes_down", "bytes_peer"))
            at = sum(value for value in ways if is_number(value))
        if not is_number(at):
            continue
        place = at
        if is_number(accuracy) and accuracy > best:
            best = accuracy
            steps.append((at, accuracy))
    return (*steps, (place, best)) if steps else ()


def _log_places(begin: float, end: float) -> list[float]:
    """Places with equal factors between them, as the axis is logarithmic."""
    if begin <= 0 or end <= begin:
        return [end]
    factor = (end / begin) ** (1 / (_PLACES - 1))
    return [begin * factor**index for index in range(_PLACES - 1)] + [end]


def _value_at(steps: Steps, place: float) -> float:
    reached = (accuracy for at, accuracy in reversed(steps) if at <= place)
    return next(reached, steps[0][1])


def _smoothed(curve: Sequence[TrainingPoint]) -> list[float]:
    return running_mean([point.test_accuracy for point in curve])


def _rows(history: History, *phases: str) -> list[dict[str, Any]]:
    return [row for row in history if row["phase"] in phases]
