"""The charts of a figure: what is drawn on its page and in ``figure.svg``."""

from collections.abc import Sequence
from typing import TypeAlias

from autofgl.report.charts import Chart, Series
from autofgl.report.numbers import Format, count, percent, plain, seconds
from autofgl.reproduce.curves import Episode, Point, mean_curve
from autofgl.reproduce.figure import Figure, Panel
from autofgl.reproduce.measures import LineSummary

Lines: TypeAlias = Sequence[LineSummary]
#: Charts in rows, as they stand in a file.
Rows: TypeAlias = list[list[Chart]]

_FORMS: dict[str, Format] = {
    "seconds": seconds,
    "target_seconds": seconds,
    "cost": count,
    "target_cost": count,
    "test_accuracy": percent,
    "episode": count,
}
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
_SPREAD = "Mean over seeds; the band, or whisker, is one standard deviation."


def figure_files(figure: Figure, lines: Lines) -> dict[str, Rows]:
    """The charts of each file; none if nothing is finished."""
    done = [line for line in lines if line.runs]
    if not done:
        return {}
    match figure.chart:
        case "accuracy":
            return {
                "figure.svg": _curves(figure, done, "seconds", "test_accuracy"),
                "figure-cost.svg": _curves(figure, done, "cost", "test_accuracy"),
            }
        case "returns":
            return {"figure.svg": _curves(figure, done, "episode", "discounted_return")}
        case "levels":
            return {"figure.svg": [_over_levels(figure, done)]}
        case "target":
            keys: tuple[str, ...] = ("target_seconds", "target_cost")
        case "final":
            keys = ("test_accuracy", "seconds", "cost")
    return {"figure.svg": [_marks(figure, done, key) for key in keys]}


def _curves(figure: Figure, lines: Lines, x: str, y: str) -> Rows:
    """A row for each dataset, its panels beside each other."""
    return [
        [_curve(figure, panel, lines, x, y) for panel in panels]
        for panels in _groups(lines).values()
    ]


def _curve(figure: Figure, panel: Panel, lines: Lines, x: str, y: str) -> Chart:
    series = []
    for way in figure.lines:
        own = [line for line in lines if line.line.name == way.name and line.panel == panel]
        points = [point for line in own for point in mean_curve(_of(line, x), x, y)]
        band = [(p.x, p.y, p.y - p.spread, p.y + p.spread) for p in points]
        series.append(Series.of(way.label, band))
    return Chart(
        f"{panel.label}: {_LABELS[y]}",
        _LABELS[x],
        series,
        _FORMS.get(y, plain),
        _FORMS.get(x, plain),
        whole_x=x == "episode",
        log_x=x == "cost",  # samplers differ by orders of magnitude
        note=_SPREAD,
    )


def _of(line: LineSummary, x: str) -> list[Sequence[Point | Episode]]:
    return [*line.learnings.values()] if x == "episode" else [*line.trainings.values()]


def _marks(figure: Figure, lines: Lines, key: str) -> list[Chart]:
    """A chart for each dataset: a place for each panel, a mark for each way to train."""
    charts = []
    for group, panels in _groups(lines).items():
        levels = [panel.level for panel in panels]
        series = []
        for at, way in enumerate(figure.lines):
            shift = (at - (len(figure.lines) - 1) / 2) * 0.12
            points = [
                (place + shift, *_mean(line, key))
                for place, panel in enumerate(panels)
                for line in lines
                if line.line.name == way.name and line.panel == panel
            ]
            series.append(Series.of(way.label, points, joined=False))
        charts.append(_by_level(f"{group}: {_LABELS[key]}", levels, series, _FORMS[key]))
    return charts


def _by_level(title: str, levels: Sequence[str], series: Sequence[Series], form: Format) -> Chart:
    """A chart whose x axis has names."""

    def name(place: float) -> str:
        return levels[round(place)] if 0 <= round(place) < len(levels) else ""

    return Chart(title, "level", series, form, name, note=_SPREAD)


def _over_levels(figure: Figure, lines: Lines) -> list[Chart]:
    """Test accuracy over the level of the panels, which is a number here."""
    charts = []
    for group in _groups(lines):
        series = [
            Series.of(
                way.label,
                [
                    (float(line.panel.level), *_mean(line, "test_accuracy"))
                    for line in lines
                    if line.line.name == way.name and line.panel.group == group
                ],
            )
            for way in figure.lines
        ]
        title = f"{group}: {_LABELS['test_accuracy']}"
        charts.append(
            Chart(title, figure.axis, series, percent, plain, whole_x=False, note=_SPREAD)
        )
    return charts


def _mean(line: LineSummary, key: str) -> tuple[float | None, float | None, float | None]:
    """Mean, and the ends of its whisker."""
    mean, spread = line.mean(key), line.deviation(key) or 0.0
    return (None, None, None) if mean is None else (mean, mean - spread, mean + spread)


def _groups(lines: Lines) -> dict[str, list[Panel]]:
    """The panels that have something to show, by dataset."""
    groups: dict[str, list[Panel]] = {}
    for line in lines:
        panels = groups.setdefault(line.panel.group, [])
        if line.panel not in panels:
            panels.append(line.panel)
    return groups
