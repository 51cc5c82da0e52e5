"""What run folders say: figures of every variant in every setting, over its seeds."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from autofgl import api
from autofgl.atomic import write_text
from autofgl.config import check_config, sort_settings
from autofgl.experiments import curves
from autofgl.experiments.curves import TrialTimes, finished_history
from autofgl.experiments.plan import Experiment, Figure, Options, Published, Setting, Table, Variant
from autofgl.methods.baselines import Centralized
from autofgl.runs.export import predict, read_description
from autofgl.runs.folder import RunFolder

#: Main figures of a run.
Figures: TypeAlias = dict[str, Any]

#: What a table by client shows besides.
CLIENT_FIGURES = ("mean_test_accuracy", "all_classes_accuracy")
#: Episodes at the beginning and at the end whose returns are compared.
ENDS = 5


@dataclass(frozen=True)
class Summary:
    """A variant in a setting, over all seeds that are finished."""

    setting: Setting
    variant: Variant
    runs: dict[int, Figures]  #: main figures of each finished run, by seed
    failed: dict[int, str]  #: why the last attempt of a seed failed
    wanted: int  #: how many seeds are asked for

    @property
    def accuracy(self) -> float | None:
        """Mean test accuracy in percent."""
        mean = self.mean("test_accuracy")
        return None if mean is None else 100 * mean

    @property
    def std(self) -> float | None:
        """Its sample standard deviation; none for a single seed."""
        deviation = self.deviation("test_accuracy")
        return None if deviation is None else 100 * deviation

    @property
    def mean_and_std(self) -> str:
        """Both in percent, if there are any."""
        return f"{self.accuracy:.1f}" + ("" if self.std is None else f" ± {self.std:.1f}")

    @property
    def progress(self) -> str:
        """How many seeds are finished, and of how many if some are missing."""
        done = len(self.runs)
        return str(done) if done >= self.wanted else f"{done} of {self.wanted}"

    def mean(self, figure: str) -> float | None:
        """Mean of a figure over the finished runs that have it."""
        values = self._values(figure)
        return statistics.mean(values) if values else None

    def deviation(self, figure: str) -> float | None:
        """Sample standard deviation of a figure; none for a single seed."""
        values = self._values(figure)
        return statistics.stdev(values) if len(values) > 1 else None

    def whisker(self, figure: str) -> tuple[float | None, float | None, float | None]:
        """Mean of a figure, and the ends of its whisker: one standard deviation."""
        mean, std = self.mean(figure), self.deviation(figure) or 0.0
        return (None, None, None) if mean is None else (mean, mean - std, mean + std)

    def folder(self, options: Options, seed: int) -> Path:
        """The run folder of a seed."""
        return options.out / self.setting.name / self.variant.name / f"seed-{seed}"

    def runs_as_json(self) -> dict[str, Any]:
        """Every run, for JSON files."""
        runs = {str(seed): run for seed, run in self.runs.items()}
        return {"runs": runs, "failed": {str(seed): why for seed, why in self.failed.items()}}

    def _values(self, figure: str) -> list[float]:
        return [float(run[figure]) for run in self.runs.values() if run.get(figure) is not None]


def summarize(
    experiment: Experiment,
    setting: Setting,
    variant: Variant,
    options: Options,
    read: Callable[[RunFolder], Figures],
) -> Summary:
    """Figures of the finished runs of a variant in a setting, and why others failed."""
    done, failed = {}, {}
    for run in experiment.begun_runs(setting, variant, options.out):
        folder = RunFolder(run.folder(options.out))
        if folder.finished:
            done[run.seed] = read(folder)
        elif run.failure(options.out).exists():
            failed[run.seed] = run.failure(options.out).read_text().strip()
    return Summary(setting, variant, done, failed, options.seeds_of(experiment, variant))


@dataclass(frozen=True)
class TableCell(Summary):
    """A cell of a table."""

    paper: Published | None = None  #: the paper's figures, if it has any
    trials: Mapping[int, TrialTimes] = field(default_factory=dict)  #: if the table is about them

    @property
    def difference(self) -> float | None:
        """Ours less the paper's accuracy in percentage points."""
        if self.paper is None or self.accuracy is None:
            return None
        return self.accuracy - self.paper.accuracy


#: Accuracy of a test phase at the server.
SERVER_FIGURE = "server_test_accuracy"


def table_cells(table: Table, options: Options) -> list[TableCell]:
    """Read the run folders of a table, column by column."""
    cells = product(table.settings, table.variants)
    return [table_cell(table, column, row, options) for column, row in cells]


def table_cell(table: Table, column: Setting, row: Variant, options: Options) -> TableCell:
    """Read the run folders of one row and column."""
    summary = summarize(table, column, row, options, _table_figures)
    if table.by_client:
        for seed, figures in summary.runs.items():
            figures.update(_client_accuracies(RunFolder(summary.folder(options, seed))))
    trials = {
        seed: TrialTimes.of(finished_history(summary.folder(options, seed)))
        for seed in summary.runs
        if table.tuning
    }
    return TableCell(**vars(summary), paper=table.paper.get((row.name, column.name)), trials=trials)


def _table_figures(folder: RunFolder) -> Figures:
    result = folder.read_result()
    keys = ("test_accuracy", "val_accuracy", "parameters", "wall_s", "stopped_by", "architecture")
    history = finished_history(folder.path)
    ends = (row["wall_s"] for row in history if row.get("phase") == "search")
    return {
        **{key: result[key] for key in keys},
        **{key: result[key] for key in (SERVER_FIGURE,) if key in result},
        "inference_s": result.get("inference_s"),
        "search_s": max(ends, default=None),
    }


def _client_accuracies(folder: RunFolder) -> Figures:
    """Two more accuracies of a finished run whose clients hold different classes, in [0, 1].

    A client that holds three of seven classes has an easier task than the federation as a whole:
    its network need not know the others. ``mean_test_accuracy`` is the mean of the clients' own
    accuracies. ``all_classes_accuracy`` is that of every client's network on the test nodes of all
    clients, in the uncut graph; it is computed once and kept in the folder.
    """
    result, kept = folder.read_result(), folder.path / "all-classes.json"
    try:
        all_classes = json.loads(kept.read_text())
    except (OSError, ValueError):
        all_classes = _all_classes_accuracy(folder)
        write_text(kept, json.dumps(all_classes) + "\n")
    own = [row["test_accuracy"] for row in result["per_client"] if row.get("test")]
    mean = result.get("mean_test_accuracy", statistics.mean(own) if own else None)
    accuracies = (None if mean is None else float(mean), all_classes)
    return dict(zip(CLIENT_FIGURES, accuracies, strict=True))


def _all_classes_accuracy(folder: RunFolder) -> float | None:
    """Mean over the networks of a run; none if they stayed with their clients."""
    names: list[str] = read_description(folder.path)["models"]
    if not names:
        return None
    config = check_config(folder.read_config())
    [whole] = Centralized.arrange(api.load_clients(config, sort_settings(config)))
    right = [predict(folder.path, whole, name).label == whole.y for name in names]
    return statistics.mean(float(np.mean(hits[whole.test_mask])) for hits in right)


@dataclass(frozen=True)
class FigureLine(Summary):
    """A line in a panel of a figure."""

    #: Of each finished run: its evaluated rounds, or the episodes where the figure is of returns,
    #: or the generations where it is of losses.
    curves: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    target: float | None = None  #: accuracy that the time to a target is measured by


def figure_lines(figure: Figure, options: Options) -> list[FigureLine]:
    """Read the run folders of a figure's lines, panel by panel.

    The target is common to all lines of a panel; where panels of a dataset are set beside each
    other (``target`` and ``final``), to all of these.
    """
    if figure.chart == "returns":
        return _read_lines(figure, figure.variants, options, _learning_figures)
    if figure.chart == "losses":
        return _read_lines(figure, figure.variants, options, _search_figures)
    if figure.chart == "levels":
        return _read_lines(figure, figure.variants, options, _final_figures)
    lines = _read_lines(figure, figure.variants, options, _training_figures)
    together = figure.chart in ("target", "final")
    targets = {
        panel.name: curves.common_target(
            curve
            for line in lines
            if line.setting == panel or (together and line.setting.group == panel.group)
            for curve in line.curves.values()
        )
        for panel in figure.settings
    }
    return [_with_target(line, targets[line.setting.name]) for line in lines]


def policy_lines(figure: Figure, options: Options) -> list[FigureLine]:
    """Read the folders of the runs that learn a policy which lines use."""
    lines = _read_lines(figure, figure.policies, options, _learning_figures)
    return [replace(line, wanted=1) for line in lines]


def _read_lines(
    figure: Figure,
    variants: Iterable[Variant],
    options: Options,
    read: Callable[[RunFolder], Figures],
) -> list[FigureLine]:
    others: Mapping[str, Callable[[curves.History], Sequence[Any]]]
    others = {"returns": curves.learning_curve, "losses": curves.search_curve}
    curve_of = others.get(figure.chart, curves.training_curve)
    lines = []
    for panel, variant in product(figure.settings, variants):
        line = summarize(figure, panel, variant, options, read)
        points = {
            seed: curve_of(finished_history(line.folder(options, seed)))
            for seed in line.runs
            if figure.chart != "levels"
        }
        lines.append(FigureLine(**vars(line), curves=points))
    return lines


def _with_target(line: FigureLine, target: float | None) -> FigureLine:
    """The same with the effort until the target."""
    runs = {}
    for seed, run in line.runs.items():
        point = None if target is None else curves.first_reaching(line.curves[seed], target)
        effort = (None, None) if point is None else (point.seconds, point.cost)
        runs[seed] = {**run, "target_seconds": effort[0], "target_cost": effort[1]}
    return replace(line, runs=runs, target=target)


def _final_figures(folder: RunFolder) -> Figures:
    """Figures of a finished run of any method."""
    result = folder.read_result()
    return {key: result[key] for key in ("test_accuracy", "val_accuracy", "wall_s")}


def _training_figures(folder: RunFolder) -> Figures:
    history = finished_history(folder.path)
    server, peer = curves.round_bytes(history)
    sent = {"server_bytes_per_round": server, "peer_bytes_per_round": peer}
    return {**_final_figures(folder), **curves.total_effort(history, "train")._asdict(), **sent}


def _search_figures(folder: RunFolder) -> Figures:
    """Figures of the generations of a search, and of what it ends with."""
    last = curves.search_curve(finished_history(folder.path))[-1]
    return {**_final_figures(folder), **last._asdict()}


def _learning_figures(folder: RunFolder) -> Figures:
    """Figures of a policy's learning."""
    history = finished_history(folder.path)
    returns = [episode.discounted_return for episode in curves.learning_curve(history)]
    return {
        "wall_s": folder.read_result()["wall_s"],
        **curves.total_effort(history, "profile", "episode")._asdict(),
        "episodes": len(returns),
        "first_return": sum(returns[:ENDS]) / len(returns[:ENDS]),
        "last_return": sum(returns[-ENDS:]) / len(returns[-ENDS:]),
        "best_return": max(returns),
    }
