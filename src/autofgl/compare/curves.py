"""What each method had at every time and after every byte: mean over seeds, with a band."""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from autofgl.compare.standing import EntrySummary
from autofgl.report.charts import Series
from autofgl.report.numbers import is_number
from autofgl.reproduce.options import Options
from autofgl.runs.folder import RunFolder, read_history

#: Places on the x axis.
_PLACES = 80

Steps = tuple[tuple[float, float], ...]


def anytime(summary: EntrySummary, options: Options, x: str) -> Series:
    """Best validation accuracy so far: mean over the finished seeds, band from least to greatest.

    Args:
        summary: The entry.
        options: Where the runs are.
        x: ``wall_s``, ``bytes`` or ``round``.
    """
    folders = [options.out / summary.entry.name / f"seed-{seed}" for seed in summary.runs]
    curves = [steps for folder in folders if (steps := best_so_far(folder, x))]
    if not curves:
        return Series(summary.entry.label, [])
    begin = max(steps[0][0] for steps in curves)
    end = max(steps[-1][0] for steps in curves)
    points = []
    for place in _places(begin, end):
        values = [_at(steps, place) for steps in curves]
        points.append((place, sum(values) / len(values), min(values), max(values)))
    return Series.of(summary.entry.label, points)


@lru_cache(maxsize=1024)
def best_so_far(folder: Path, x: str) -> Steps:
    """Where the best validation accuracy of a run rose, and its end."""
    found: list[tuple[float, float]] = []
    best, place = -math.inf, 0.0
    for row in read_history(RunFolder(folder).history):
        at, accuracy = _position(row, x), row.get("val_accuracy")
        if not is_number(at):
            continue
        place = at
        if is_number(accuracy) and accuracy > best:
            best = accuracy
            found.append((at, accuracy))
    return (*found, (place, best)) if found else ()


def _position(row: dict[str, object], x: str) -> object:
    if x != "bytes":
        return row.get(x)
    ways = (row.get(key) for key in ("bytes_up", "bytes_down", "bytes_peer"))
    return sum(value for value in ways if is_number(value))


def _places(begin: float, end: float) -> list[float]:
    """Places with equal factors between them, as the axis is logarithmic."""
    if begin <= 0 or end <= begin:
        return [end]
    factor = (end / begin) ** (1 / (_PLACES - 1))
    return [begin * factor**index for index in range(_PLACES - 1)] + [end]


def _at(steps: Sequence[tuple[float, float]], place: float) -> float:
    value = steps[0][1]
    for at, accuracy in steps:
        if at > place:
            break
        value = accuracy
    return value
