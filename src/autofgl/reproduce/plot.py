"""A figure as SVG, with matplotlib (extra ``plots``)."""

import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autofgl.reproduce.curves import Episode, Point
from autofgl.reproduce.figure import Chart, Figure, Panel
from autofgl.reproduce.measures import LineSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lines = Sequence[LineSummary]

#: What is on the axes.
_LABELS = {
    "seconds": "seconds of training",
    "cost": "cost (sampled edges × width)",
    "test_accuracy": "test accuracy",
    "target_seconds": "seconds to the target",
    "target_cost": "cost to the target",
    "episode": "episode",
    "discounted_return": "discounted return",
}
#: x and y of each file with curves.
_CURVES: dict[Chart, dict[str, tuple[str, str]]] = {
    "accuracy": {
        "figure.svg": ("seconds", "test_accuracy"),
        "figure-cost.svg": ("cost", "test_accuracy"),
    },
    "returns": {"figure.svg": ("episode", "discounted_return")},
}
#: Rows of bars in ``figure.svg``.
_BARS: dict[Chart, tuple[str, ...]] = {
    "target": ("target_seconds", "target_cost"),
    "final": ("test_accuracy", "seconds", "cost"),
}


class MeanPoint(NamedTuple):
    """A point of the mean over seeds, and the sample standard deviation of y there."""

    x: float
    y: float
    spread: float


def draw(figure: Figure, lines: Lines, out: Path) -> list[Path]:
    """Draw what is finished.

    Returns:
        The files; none if nothing is finished.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib import rc_context

    lines = [line for line in lines if line.runs]
    if not lines:
        return []
    # The same figure, the same bytes; letters remain letters.
    with rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):
        if figure.chart == "levels":
            _levels(figure, lines, out / "figure.svg")
            return [out / "figure.svg"]
        if figure.chart in _BARS:
            _bars(figure, lines, out / "figure.svg")
            return [out / "figure.svg"]
        for name, (x, y) in _CURVES[figure.chart].items():
            _curves(figure, lines, x, y, out / name)
        return [out / name for name in _CURVES[figure.chart]]


def mean_curve(seeds: Sequence[Sequence[Point | Episode]], x: str, y: str) -> list[MeanPoint]:
    """The mean of several seeds' curves, point by point, as far as all of them go."""
    found = []
    for points in zip(*seeds, strict=False):
        ys = [float(getattr(point, y)) for point in points]
        spread = statistics.stdev(ys) if len(ys) > 1 else 0.0
        mean_x = statistics.mean(float(getattr(point, x)) for point in points)
        found.append(MeanPoint(mean_x, statistics.mean(ys), spread))
    return found


def _curves(figure: Figure, lines: Lines, x: str, y: str, path: Path) -> None:
    """A column for each dataset, its panels below each other."""
    groups = _groups(lines)
    canvas, axes = _grid(max(map(len, groups.values())), len(groups))
    for column, panels in enumerate(groups.values()):
        for row, panel in enumerate(panels):
            own = [line for line in lines if line.panel == panel]
            _curve_panel(axes[row][column], figure, own, x, y)
            axes[row][column].set(title=panel.label, xlabel=_LABELS[x], ylabel=_LABELS[y])
            if x == "cost":  # samplers differ by orders of magnitude
                axes[row][column].set_xscale("log")
    _finish(canvas, axes, figure, path)


def _curve_panel(axes: "Axes", figure: Figure, lines: Lines, x: str, y: str) -> None:
    for line in lines:
        curves: list[Sequence[Point | Episode]] = (
            [*line.learnings.values()] if x == "episode" else [*line.trainings.values()]
        )
        points = mean_curve(curves, x, y)
        xs, ys, spreads = zip(*points, strict=True)
        color = f"C{figure.lines.index(line.line)}"
        axes.plot(xs, ys, label=line.line.label, color=color)
        low = [value - spread for value, spread in zip(ys, spreads, strict=True)]
        high = [value + spread for value, spread in zip(ys, spreads, strict=True)]
        axes.fill_between(xs, low, high, color=color, alpha=0.2, linewidth=0)


def _levels(figure: Figure, lines: Lines, path: Path) -> None:
    """A column for each dataset, a curve over the levels for each line."""
    groups = _groups(lines)
    canvas, axes = _grid(1, len(groups))
    for column, group in enumerate(groups):
        place = axes[0][column]
        for index, way in enumerate(figure.lines):
            own = [line for line in lines if line.line == way and line.panel.group == group]
            xs = [float(line.panel.level) for line in own]
            means = [line.mean("test_accuracy") or 0.0 for line in own]
            spreads = [line.deviation("test_accuracy") or 0.0 for line in own]
            place.errorbar(
                xs, means, yerr=spreads, label=way.label, color=f"C{index}", marker="o", capsize=3
            )
        place.set(title=group, xlabel=figure.axis, ylabel=_LABELS["test_accuracy"])
    _finish(canvas, axes, figure, path)


def _bars(figure: Figure, lines: Lines, path: Path) -> None:
    """A column for each dataset, a row for each quantity, a group of bars for each panel."""
    groups, keys = _groups(lines), _BARS[figure.chart]
    canvas, axes = _grid(len(keys), len(groups))
    for column, (group, panels) in enumerate(groups.items()):
        for row, key in enumerate(keys):
            _bar_panel(axes[row][column], figure, panels, lines, key)
            axes[row][column].set(title=group, ylabel=_LABELS[key])
    _finish(canvas, axes, figure, path)


def _bar_panel(
    axes: "Axes", figure: Figure, panels: Sequence[Panel], lines: Lines, key: str
) -> None:
    width = 0.8 / len(figure.lines)
    for index, way in enumerate(figure.lines):
        own = {line.panel.name: line for line in lines if line.line == way}
        found = [(at, own[panel.name]) for at, panel in enumerate(panels) if panel.name in own]
        places = [at + (index - (len(figure.lines) - 1) / 2) * width for at, _ in found]
        if not found:
            continue
        means = [line.mean(key) or 0.0 for _, line in found]
        spreads = [line.deviation(key) or 0.0 for _, line in found]
        axes.bar(places, means, width, yerr=spreads, label=way.label, color=f"C{index}")
    axes.set_xticks(range(len(panels)), [panel.level for panel in panels])


def _groups(lines: Lines) -> dict[str, list[Panel]]:
    """The panels that have something to show, by dataset."""
    groups: dict[str, list[Panel]] = {}
    for line in lines:
        panels = groups.setdefault(line.panel.group, [])
        if line.panel not in panels:
            panels.append(line.panel)
    return groups


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    """A canvas and its axes; no window and no global state."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    return canvas, canvas.subplots(rows, columns, squeeze=False)


def _finish(canvas: Any, axes: Any, figure: Figure, path: Path) -> None:
    """One legend below all, and the file."""
    shown: dict[str, Any] = {}
    for place in axes.flat:
        if place.has_data():
            place.grid(alpha=0.3)
            handles, labels = place.get_legend_handles_labels()
            shown |= dict(zip(labels, handles, strict=True))
        else:
            place.set_axis_off()
    columns = axes.shape[1]  # neither legend nor title is wider than the drawing
    abreast = min(len(shown), 2 * columns)
    canvas.legend(shown.values(), shown, loc="outside lower center", ncols=abreast)
    canvas.suptitle(textwrap.fill(figure.title, 42 * columns))
    canvas.savefig(path, format="svg", metadata={"Date": None})
