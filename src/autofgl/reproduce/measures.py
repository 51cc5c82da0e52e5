"""What the run folders of a figure say: figures of every line in every panel, over its seeds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from autofgl.reproduce import curves
from autofgl.reproduce.curves import Episode, Point
from autofgl.reproduce.figure import Figure, Line, Panel
from autofgl.reproduce.figure_runs import present
from autofgl.reproduce.options import Options
from autofgl.reproduce.over_seeds import OverSeeds, collect
from autofgl.runs.folder import RunFolder, read_history

#: Episodes at the beginning and at the end whose returns are compared.
ENDS = 5


@dataclass(frozen=True)
class LineSummary(OverSeeds):
    """A line in a panel, over all seeds that are finished.

    Attributes:
        panel: The federation.
        line: The way to train.
        runs: Main figures of each finished run, by seed.
        failed: Why the last try of a seed failed.
        wanted: How many seeds are asked for.
        trainings: Test accuracy over time of each finished run.
        learnings: Return over episodes of each finished run.
        target: Accuracy that the time to a target is measured by.
    """

    panel: Panel
    line: Line
    runs: dict[int, dict[str, Any]]
    failed: dict[int, str]
    wanted: int
    trainings: dict[int, list[Point]]
    learnings: dict[int, list[Episode]]
    target: float | None = None

    @property
    def keys(self) -> list[str]:
        """Names of the figures."""
        return list(next(iter(self.runs.values()), ()))

    def to_dict(self) -> dict[str, Any]:
        """For ``figure.json``."""
        return {
            "panel": self.panel.name,
            "line": self.line.name,
            "target": self.target,
            "seeds_wanted": self.wanted,
            "mean": {key: self.mean(key) for key in self.keys},
            "std": {key: self.deviation(key) for key in self.keys},
            "runs": {str(seed): run for seed, run in self.runs.items()},
            "failed": {str(seed): reason for seed, reason in self.failed.items()},
        }


def summarise(figure: Figure, options: Options) -> list[LineSummary]:
    """Read the run folders of a figure's lines, panel by panel.

    The target is common to all lines of a panel; where panels of a dataset are set beside each
    other (``target`` and ``final``), to all of these.
    """
    wanted = options.seeds_of(figure)
    figures = _final if figure.chart == "levels" else _trained
    found = [
        _read(figure, panel, line, options.out, wanted, figures)
        for panel in figure.panels
        for line in figure.lines
    ]
    if figure.chart == "levels":
        return found
    together = figure.chart in ("target", "final")
    targets = {
        panel.name: _target(
            line
            for line in found
            if line.panel == panel or (together and line.panel.group == panel.group)
        )
        for panel in figure.panels
    }
    return [_to_target(line, targets[line.panel.name]) for line in found]


def summarise_learning(figure: Figure, options: Options) -> list[LineSummary]:
    """Read the folders of the runs that learn a policy: those that lines use, or lines of their
    own.
    """
    returns = figure.chart == "returns"
    wanted = options.seeds_of(figure) if returns else 1
    return [
        _read(figure, panel, line, options.out, wanted, _learnt)
        for panel in figure.panels
        for line in (figure.lines if returns else figure.learnt)
    ]


def _read(
    figure: Figure,
    panel: Panel,
    line: Line,
    out: Path,
    wanted: int,
    figures: Callable[[RunFolder], dict[str, Any]],
) -> LineSummary:
    runs, failed = collect(present(figure, panel, line, out), out, figures)
    if figure.chart == "levels":
        return LineSummary(panel, line, runs, failed, wanted, {}, {})
    places = {seed: out / panel.name / line.name / f"seed-{seed}" for seed in runs}
    histories = {seed: _history(RunFolder(place).history) for seed, place in places.items()}
    trainings = {seed: curves.training_curve(history) for seed, history in histories.items()}
    learnings = {seed: curves.learning_curve(history) for seed, history in histories.items()}
    return LineSummary(panel, line, runs, failed, wanted, trainings, learnings)


def _final(folder: RunFolder) -> dict[str, Any]:
    """Figures of a finished run of any method."""
    result = folder.read_result()
    return {key: result[key] for key in ("test_accuracy", "val_accuracy", "wall_s")}


def _trained(folder: RunFolder) -> dict[str, Any]:
    """Main figures of a training."""
    result, history = folder.read_result(), _history(folder.history)
    effort = curves.effort(history, "train")
    server, peer = curves.round_bytes(history)
    return {
        **{key: result[key] for key in ("test_accuracy", "val_accuracy", "wall_s")},
        **effort._asdict(),
        "server_bytes_per_round": server,
        "peer_bytes_per_round": peer,
    }


def _learnt(folder: RunFolder) -> dict[str, Any]:
    """Main figures of a policy's learning."""
    history = _history(folder.history)
    returns = [episode.discounted_return for episode in curves.learning_curve(history)]
    return {
        "wall_s": folder.read_result()["wall_s"],
        **curves.effort(history, "profile", "episode")._asdict(),
        "episodes": len(returns),
        "first_return": _mean(returns[:ENDS]),
        "last_return": _mean(returns[-ENDS:]),
        "best_return": max(returns),
    }


def _target(lines: Iterable[LineSummary]) -> float | None:
    return curves.common_target(curve for line in lines for curve in line.trainings.values())


def _to_target(line: LineSummary, target: float | None) -> LineSummary:
    """The same with the effort until the target."""
    runs = {}
    for seed, run in line.runs.items():
        point = None if target is None else curves.reached(line.trainings[seed], target)
        runs[seed] = {
            **run,
            "target_seconds": None if point is None else point.seconds,
            "target_cost": None if point is None else point.cost,
        }
    return replace(line, runs=runs, target=target)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


@lru_cache(maxsize=1024)
def _history(path: Path) -> list[dict[str, Any]]:
    """A finished run's history stays as it is."""
    return read_history(path)
