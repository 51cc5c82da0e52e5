"""Drawings with headings, legends and numbers, on a page or in a file of their own."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from autofgl.report.charts import Chart, ChartPoint
from autofgl.report.charts.lines import HEIGHT, WIDTH, line_chart, swatch
from autofgl.report.numbers import NOTHING, Format, is_number, plain
from autofgl.report.page import CHART_STYLE, Content, Safe, element, scroll_region

#: Rows of the table below a chart; of longer series every n-th value is listed.
MOST_ROWS = 40
_BAR_WIDTH = 120
#: In a file with several charts: space between them, height of a title and of a legend's line.
_GAP, _TITLE, _LINE = 24, 30, 24
#: Width of a letter of the legend, and of its swatch with the space around it.
_LETTER, _SWATCH = 8.4, 56


class Cells(NamedTuple):
    """A table's headings and rows; numeric columns are right-aligned."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Content]]
    numeric: frozenset[int] = frozenset()


def chart_figure(chart: Chart) -> Safe | None:
    """A chart with title, legend and a table of its numbers; None if there is no point."""
    drawing = line_chart(chart)
    if drawing is None:
        return None
    return element(
        "figure",
        element("figcaption", chart.title),
        drawing,
        element(
            "ul",
            [element("li", swatch(one.style, one.joined), one.name) for one in chart.shown],
            class_="legend",
        ),
        element("p", chart.note, class_="note") if chart.note else None,
        element("details", element("summary", "Numbers"), table(_numbers(chart), chart.title)),
    )


def chart_grid(charts: Iterable[Chart]) -> Safe | None:
    """The charts that have something to show, side by side where there is room."""
    figures = [figure for figure in map(chart_figure, charts) if figure is not None]
    return element("div", figures, class_="charts") if figures else None


def table(cells: Cells, label: str) -> Safe:
    """A table; its first column heads the rows."""
    head = [_cell("th", at, name, cells, scope="col") for at, name in enumerate(cells.headings)]
    body = [
        element(
            "tr",
            _cell("th", 0, row[0], cells, scope="row"),
            [_cell("td", at, value, cells) for at, value in enumerate(row) if at],
        )
        for row in cells.rows
    ]
    whole = element("table", element("thead", element("tr", head)), element("tbody", body))
    return scroll_region(whole, label)


def table_figure(
    title: str, cells: Cells, note: Safe | None = None, kind: str | None = None
) -> Safe:
    """A table below its title."""
    return element("figure", element("figcaption", title), table(cells, title), note, class_=kind)


def bar_table(
    title: str, bars: Iterable[tuple[str, float]], form: Format = plain, style: int = 0
) -> Safe | None:
    """A row with name, bar and value for each; None without any."""
    shown = [(name, value) for name, value in bars if is_number(value)]
    if not shown:
        return None
    longest = max(abs(value) for _, value in shown) or 1.0
    rows = [(name, bar_cell(value / longest, style), form(value)) for name, value in shown]
    return table_figure(title, Cells(("", "", "value"), rows, frozenset({2})), kind="bars")


def bar_cell(share: float, style: int = 0) -> Safe:
    """A bar for a table's cell, as long as a share of 1."""
    length = max(0.0, min(1.0, abs(share))) * _BAR_WIDTH
    return element(
        "svg",
        element("rect", x=0, y=2, width=_BAR_WIDTH, height=10, class_="track"),
        element("rect", x=0, y=2, width=round(length, 1), height=10, class_=f"bar s{style}"),
        viewbox=f"0 0 {_BAR_WIDTH} 14",
        preserveaspectratio="none",
        class_="barcell",
        aria_hidden="true",
    )


def spark(values: Sequence[float], top: float) -> Safe:
    """Values over time as a filled line for a table's cell; ``top`` is its upper end."""
    width, height = 160, 28
    step = width / max(1, len(values) - 1)
    corners = [
        f"{index * step:.1f},{height - 1 - value / (top or 1) * (height - 2):.1f}"
        for index, value in enumerate(values)
    ]
    points = " ".join([f"0,{height - 1}", *corners, f"{width},{height - 1}"])
    area = element("polygon", points=points, class_="area s0")
    return element("svg", area, viewbox=f"0 0 {width} {height}", class_="spark", aria_hidden="true")


def class_counts(counts: object) -> Content:
    """A column for each class, as high as its number of nodes, for a table's cell."""
    numbers = [value for value in counts if is_number(value)] if isinstance(counts, list) else []
    if not numbers or not max(numbers):
        return NOTHING
    step = max(3.0, min(9.0, 140 / len(numbers)))
    columns = [
        element(
            "rect",
            x=round(at * step, 1),
            y=round(24 - 22 * value / max(numbers), 1),
            width=round(step - 1, 1),
            height=round(22 * value / max(numbers), 1),
            class_="bar s0",
        )
        for at, value in enumerate(numbers)
    ]
    label = ", ".join(f"class {at}: {plain(value)}" for at, value in enumerate(numbers))
    width = round(len(numbers) * step)
    size = {"viewbox": f"0 0 {width} 25", "width": str(width), "height": "25"}
    return element("svg", element("title", label), columns, **size, role="img", aria_label=label)


def _cell(tag: str, at: int, value: Content, cells: Cells, scope: str | None = None) -> Safe:
    return element(tag, value, scope=scope, class_="number" if at in cells.numeric else None)


def _numbers(chart: Chart) -> Cells:
    """The values of all series along the x axis, thinned out."""
    shown = chart.shown
    by_x = [{point.x: point for point in series.points} for series in shown]
    xs = sorted({x for points in by_x for x in points})
    kept = sorted({*xs[:: -(-len(xs) // MOST_ROWS)], xs[-1]})
    rows = [
        [chart.x_format(x), *(_number_cell(points.get(x), chart.y_format) for points in by_x)]
        for x in kept
    ]
    headings = (chart.x_label, *(series.name for series in shown))
    return Cells(headings, rows, frozenset(range(1, len(headings))))


def _number_cell(point: ChartPoint | None, form: Format) -> str:
    if point is None:
        return NOTHING
    band = [form(end) for end in (point.low, point.high) if end is not None]
    return f"{form(point.y)} ({' to '.join(band)})" if band else form(point.y)


def charts_svg(rows: Sequence[Sequence[Chart]]) -> str:
    """A file with a row of charts for each of ``rows``; those without a point are left out.

    The style of a line is its position among the chart's series, so that one legend serves charts
    that have the same series.
    """
    panels = list(filter(None, ([chart for chart in row if chart.shown] for row in rows)))
    columns = max((len(row) for row in panels), default=1)
    width = columns * (WIDTH + _GAP) + _GAP
    top = len(panels) * (_TITLE + HEIGHT + _GAP)
    legend, height = _shared_legend([chart for row in panels for chart in row], width, top)
    charts = [
        _panel(chart, _GAP + column * (WIDTH + _GAP), row * (_TITLE + HEIGHT + _GAP))
        for row, line in enumerate(panels)
        for column, chart in enumerate(line)
    ]
    whole = element(
        "svg",
        element("style", CHART_STYLE),
        element("rect", x=0, y=0, width=width, height=height, class_="paper"),
        [*charts, *legend],
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="panels chart",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def _panel(chart: Chart, x: float, y: float) -> Safe:
    title = element("text", chart.title, x=x, y=y + _TITLE - 8, class_="heading")
    inner = line_chart(chart) or Safe("")
    start = f'<svg x="{x:g}" y="{y + _TITLE:g}" width="{WIDTH}" height="{HEIGHT}"'
    return Safe(title + inner.replace("<svg", start, 1))


def _shared_legend(charts: Sequence[Chart], width: float, top: float) -> tuple[list[Safe], float]:
    """Every name once, in lines that fit; and where the drawing ends."""
    entries = {series.name: series for chart in charts for series in chart.shown}
    parts: list[Safe] = []
    x, y = float(_GAP), top + _LINE
    for name, series in entries.items():
        length = _SWATCH + len(name) * _LETTER
        if x > _GAP and x + length > width - _GAP:
            x, y = float(_GAP), y + _LINE
        mark = swatch(series.style, series.joined)
        start = f'<svg x="{x:g}" y="{y - 12:g}" width="34" height="14"'
        parts.append(Safe(mark.replace("<svg", start, 1)))
        parts.append(element("text", name, x=x + 42, y=y, class_="axis"))
        x += length
    return parts, y + _LINE
