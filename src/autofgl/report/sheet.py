"""Several charts as one SVG file, with their titles and one legend."""

from collections.abc import Sequence

from autofgl.report.chart import Chart
from autofgl.report.lines import HEIGHT, WIDTH, line_chart, swatch
from autofgl.report.markup import Safe, element
from autofgl.report.style import CHART_STYLE

_GAP, _TITLE, _LINE = 24, 30, 24
#: Width of a letter of the legend and of its swatch with the room around it.
_LETTER, _SWATCH = 8.4, 56


def sheet(rows: Sequence[Sequence[Chart]]) -> str:
    """A file with a row of charts for each of ``rows``; those without a point are left out.

    The style of a line is its place among the chart's series, so that one legend serves charts that
    have the same series.
    """
    drawn = [[chart for chart in row if chart.shown] for row in rows]
    drawn = [row for row in drawn if row]
    columns = max((len(row) for row in drawn), default=1)
    width = columns * (WIDTH + _GAP) + _GAP
    top = len(drawn) * (_TITLE + HEIGHT + _GAP)
    legend, height = _legend([chart for row in drawn for chart in row], width, top)
    charts = [
        _placed(chart, _GAP + column * (WIDTH + _GAP), row * (_TITLE + HEIGHT + _GAP))
        for row, line in enumerate(drawn)
        for column, chart in enumerate(line)
    ]
    whole = element(
        "svg",
        element("style", CHART_STYLE),
        element("rect", x=0, y=0, width=width, height=height, class_="paper"),
        charts,
        legend,
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="sheet chart",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def _placed(chart: Chart, x: float, y: float) -> Safe:
    title = element("text", chart.title, x=x, y=y + _TITLE - 8, class_="heading")
    inner = line_chart(chart) or Safe("")
    place = f'<svg x="{x:g}" y="{y + _TITLE:g}" width="{WIDTH}" height="{HEIGHT}"'
    return Safe(title + inner.replace("<svg", place, 1))


def _legend(charts: Sequence[Chart], width: float, top: float) -> tuple[list[Safe], float]:
    """Every name once, in lines that fit; and where the sheet ends."""
    entries = {series.name: series for chart in charts for series in chart.shown}
    parts: list[Safe] = []
    x, y = float(_GAP), top + _LINE
    for name, series in entries.items():
        length = _SWATCH + len(name) * _LETTER
        if x > _GAP and x + length > width - _GAP:
            x, y = float(_GAP), y + _LINE
        mark = swatch(series.style, series.joined)
        place = f'<svg x="{x:g}" y="{y - 12:g}" width="34" height="14"'
        parts.append(Safe(mark.replace("<svg", place, 1)))
        parts.append(element("text", name, x=x + 42, y=y, class_="axis"))
        x += length
    return parts, y + _LINE
