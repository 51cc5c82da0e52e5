"""What the seeds of a cell or a line have in common: means, deviations, failures."""

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from autofgl.reproduce.batch import Planned
from autofgl.runs.folder import RunFolder


class OverSeeds:
    """Figures over all seeds that are finished.

    Attributes:
        runs: Main figures of each finished run, by seed.
        failed: Why the last try of a seed failed.
        wanted: How many seeds are asked for.
    """

    runs: dict[int, dict[str, Any]]
    failed: dict[int, str]
    wanted: int

    @property
    def accuracy(self) -> float | None:
        """Mean test accuracy in percent."""
        mean = self.mean("test_accuracy")
        return None if mean is None else 100 * mean

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the test accuracy in percent; none for a single seed."""
        deviation = self.deviation("test_accuracy")
        return None if deviation is None else 100 * deviation

    def mean(self, figure: str) -> float | None:
        """Mean of a figure over the finished runs that have it."""
        found = self._found(figure)
        return statistics.mean(found) if found else None

    def deviation(self, figure: str) -> float | None:
        """Sample standard deviation of a figure; none for a single seed."""
        found = self._found(figure)
        return statistics.stdev(found) if len(found) > 1 else None

    def _found(self, figure: str) -> list[float]:
        return [float(run[figure]) for run in self.runs.values() if run.get(figure) is not None]


def collect(
    runs: Iterable[Planned], out: Path, figures: Callable[[RunFolder], dict[str, Any]]
) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Figures of the runs that are finished, and why the others failed, by seed."""
    done, failed = {}, {}
    for run in runs:
        folder = RunFolder(run.folder(out))
        if folder.finished:
            done[run.seed] = figures(folder)
        elif run.failure(out).exists():
            failed[run.seed] = run.failure(out).read_text().strip()
    return done, failed
