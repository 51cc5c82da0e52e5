"""Drawings with their headings, legends and numbers, as they stand on a page."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from autofgl.report.chart import Bar, Chart, Series
from autofgl.report.lines import STYLES, line_chart, swatch
from autofgl.report.markup import Content, Safe, element
from autofgl.report.numbers import NOTHING, Format, is_number, plain

#: Rows of the table below a chart; of longer series every n-th value is told.
MOST_ROWS = 40
_BAR_WIDTH = 120


class Cells(NamedTuple):
    """A table's heading and rows; columns that are numbers stand to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Content]]
    numeric: frozenset[int] = frozenset()


def chart_figure(chart: Chart) -> Safe | None:
    """A chart with title, legend and a table of its numbers; none if there is no point."""
    drawing = line_chart(chart)
    if drawing is None:
        return None
    return element(
        "figure",
        element("figcaption", chart.title),
        drawing,
        _legend(chart.shown),
        element("p", chart.note, class_="note") if chart.note else None,
        element("details", element("summary", "Numbers"), table(_numbers(chart), chart.title)),
    )


def chart_grid(charts: Iterable[Chart]) -> Safe | None:
    """The charts that have something to show, side by side where there is room."""
    drawn = [figure for figure in map(chart_figure, charts) if figure is not None]
    return element("div", drawn, class_="charts") if drawn else None


def table(cells: Cells, label: str) -> Safe:
    """A table that scrolls by itself where it is too wide, with the keyboard too."""
    head = element(
        "tr",
        [
            element("th", heading, scope="col", class_="number" if at in cells.numeric else None)
            for at, heading in enumerate(cells.headings)
        ],
    )
    body = [
        element(
            "tr",
            [
                element(
                    "td" if at else "th",
                    cell,
                    scope=None if at else "row",
                    class_="number" if at in cells.numeric else None,
                )
                for at, cell in enumerate(row)
            ],
        )
        for row in cells.rows
    ]
    whole = element("table", element("thead", head), element("tbody", body))
    return element("div", whole, class_="scroll", role="region", aria_label=label, tabindex=0)


def bar_table(title: str, bars: Sequence[Bar], form: Format = plain, style: int = 0) -> Safe | None:
    """A row with name, bar and value for each; none without any."""
    known = [bar for bar in bars if is_number(bar.value)]
    if not known:
        return None
    longest = max(abs(bar.value) for bar in known) or 1.0
    rows = [(bar.name, bar_cell(bar.value / longest, style), _value(bar, form)) for bar in known]
    cells = Cells(("", "", "value"), rows, frozenset({2}))
    return element("figure", element("figcaption", title), table(cells, title), class_="bars")


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


def spark(values: Sequence[float], top: float, style: int = 0) -> Safe:
    """Values over time as a filled line for a table's cell; ``top`` is its upper end."""
    width, height = 160, 28
    step = width / max(1, len(values) - 1)
    places = [
        f"{index * step:.1f},{height - 1 - value / (top or 1) * (height - 2):.1f}"
        for index, value in enumerate(values)
    ]
    return element(
        "svg",
        element(
            "polygon",
            points=" ".join([f"0,{height - 1}", *places, f"{width},{height - 1}"]),
            class_=f"area s{style % STYLES}",
        ),
        viewbox=f"0 0 {width} {height}",
        class_="spark",
        aria_hidden="true",
    )


def _value(bar: Bar, form: Format) -> str:
    return form(bar.value) + (f" ± {form(bar.spread)}" if bar.spread is not None else "")


def _legend(shown: Sequence[Series]) -> Safe:
    entries = [element("li", swatch(series.style, series.joined), series.name) for series in shown]
    return element("ul", entries, class_="legend")


def _numbers(chart: Chart) -> Cells:
    """The values of all series at the places of the x axis, thinned out."""
    shown = chart.shown
    by_place = [{point.x: point for point in series.points} for series in shown]
    places = sorted({x for points in by_place for x in points})
    step = -(-len(places) // MOST_ROWS)
    kept = places[::step]
    if places[-1] != kept[-1]:
        kept.append(places[-1])
    rows: list[list[Content]] = []
    for x in kept:
        row: list[Content] = [chart.x_format(x)]
        for points in by_place:
            point = points.get(x)
            if point is None:
                row.append(NOTHING)
            elif point.low is None or point.high is None:
                row.append(chart.y_format(point.y))
            else:
                ends = f"{chart.y_format(point.low)} to {chart.y_format(point.high)}"
                row.append(f"{chart.y_format(point.y)} ({ends})")
        rows.append(row)
    headings = (chart.x_label, *(series.name for series in shown))
    return Cells(headings, rows, frozenset(range(1, len(headings))))
