"""A figure as a page: what ``summary.md`` says, and the charts."""

from collections.abc import Callable, Sequence

from autofgl.report.chart import Bar, Chart, Series
from autofgl.report.figures import bar_table, chart_grid
from autofgl.report.markdown import sections
from autofgl.report.markup import Content, element
from autofgl.report.numbers import Format, count, percent, plain, seconds
from autofgl.report.page import page
from autofgl.report.section import Section
from autofgl.reproduce.curves import Episode, Point
from autofgl.reproduce.figure import Figure, Panel
from autofgl.reproduce.measures import LineSummary
from autofgl.reproduce.plot import mean_curve
from autofgl.reproduce.table_files import header

Lines = Sequence[LineSummary]

_FORMS: dict[str, Format] = {
    "seconds": seconds,
    "target_seconds": seconds,
    "cost": count,
    "target_cost": count,
    "test_accuracy": percent,
}
_NAMES = {
    "seconds": "time of training",
    "cost": "cost (sampled edges × width)",
    "target_seconds": "time to the target",
    "target_cost": "cost to the target",
    "test_accuracy": "test accuracy",
    "episode": "episode",
    "discounted_return": "discounted return",
}


def as_html(figure: Figure, lines: Lines, summary: str) -> str:
    """The page.

    Args:
        figure: What is shown.
        lines: Its lines.
        summary: What ``summary.md`` says.
    """
    title, parts = sections(summary, intro="The paper's claim")
    drawn = [line for line in lines if line.runs]
    body = _DRAWN[str(figure.chart)](figure, drawn) if drawn else None
    if body:
        parts.insert(1, Section("Charts", body))
    return page(title, header(title, f"{figure.source}. autofgl reproduce {figure.name}"), parts)


def _accuracy(figure: Figure, lines: Lines) -> Content:
    return chart_grid(
        _curve(figure, panel, lines, x, "test_accuracy")
        for panel in _panels(lines)
        for x in ("seconds", "cost")
    )


def _returns(figure: Figure, lines: Lines) -> Content:
    return chart_grid(
        _curve(figure, panel, lines, "episode", "discounted_return") for panel in _panels(lines)
    )


def _curve(figure: Figure, panel: Panel, lines: Lines, x: str, y: str) -> Chart:
    """Mean over seeds, and a band of one standard deviation."""
    series = []
    for way in figure.lines:
        for line in lines:
            if line.line.name == way.name and line.panel == panel:
                points = mean_curve(_curves(line, x), x, y)
                band = [(p.x, p.y, p.y - p.spread, p.y + p.spread) for p in points]
                series.append(Series.of(way.label, band))
    return Chart(
        f"{panel.label}: {_NAMES[y]} over {_NAMES[x]}",
        _NAMES[x],
        series,
        _FORMS.get(y, plain),
        _FORMS.get(x, count),
        whole_x=x == "episode",
        note="Mean over seeds; the band is one standard deviation.",
    )


def _curves(line: LineSummary, x: str) -> list[Sequence[Point | Episode]]:
    return [*line.learnings.values()] if x == "episode" else [*line.trainings.values()]


def _bars(*keys: str) -> Callable[[Figure, Lines], Content]:
    """Bars of each quantity, those of a dataset together."""

    def drawn(figure: Figure, lines: Lines) -> Content:
        tables = []
        for group in dict.fromkeys(line.panel.group for line in lines):
            own = [line for line in lines if line.panel.group == group]
            for key in keys:
                bars = [
                    Bar(f"{line.line.label}, {line.panel.level}", mean, line.deviation(key))
                    for line in own
                    if (mean := line.mean(key)) is not None
                ]
                tables.append(bar_table(f"{group}: {_NAMES[key]}", bars, _FORMS[key]))
        del figure
        return element("div", tables, class_="charts")

    return drawn


def _levels(figure: Figure, lines: Lines) -> Content:
    """Test accuracy over the level of the panels, which is a number."""
    charts = []
    for group in dict.fromkeys(line.panel.group for line in lines):
        series = []
        for way in figure.lines:
            own = [line for line in lines if line.line == way and line.panel.group == group]
            points = []
            for line in own:
                mean, spread = line.mean("test_accuracy"), line.deviation("test_accuracy") or 0.0
                if mean is not None:
                    points.append((float(line.panel.level), mean, mean - spread, mean + spread))
            series.append(Series.of(way.label, points))
        charts.append(
            Chart(
                group, str(getattr(figure, "axis", "level")), series, percent, plain, whole_x=False
            )
        )
    return chart_grid(charts)


def _panels(lines: Lines) -> list[Panel]:
    return list({line.panel.name: line.panel for line in lines}.values())


_DRAWN: dict[str, Callable[[Figure, Lines], Content]] = {
    "accuracy": _accuracy,
    "returns": _returns,
    "target": _bars("target_seconds", "target_cost"),
    "final": _bars("test_accuracy", "seconds", "cost"),
    "levels": _levels,
}
