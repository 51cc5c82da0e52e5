"""A chart with lines as SVG.

Drawn for a width of 400: on a phone its letters keep their size, and two fit side by side on a
desktop. Lines differ by color, dashes and markers; colors are those of the page.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autofgl.report.charts import Chart, ChartPoint, Mark, Series
from autofgl.report.page import Safe, element

WIDTH, HEIGHT = 400, 250
_TOP, _RIGHT, _BOTTOM = 22, 12, 44
#: Width of a letter of 14 units, to leave room for labels.
_LETTER = 8.2

#: Dashes of the series by their position; colors and these repeat after as many.
DASHES = (None, "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2", "1 4", "14 3 4 3")
STYLES = len(DASHES)
#: About how many markers stand on a line.
_MARKERS = 6


@dataclass(frozen=True)
class ChartAxes:
    """From values to positions."""

    span: tuple[float, float]
    xs: Sequence[float]
    ys: Sequence[float]
    left: float
    log_x: bool = False

    def x(self, value: float) -> float:
        """Position of a value on the x axis, which ends with the data."""
        scale = math.log if self.log_x else float
        return _position(scale(value), [*map(scale, self.span)], self.left, WIDTH - _RIGHT)

    def y(self, value: float) -> float:
        """Position of a value on the y axis."""
        return _position(value, self.ys, HEIGHT - _BOTTOM, _TOP)

    def corners(self, points: Iterable[tuple[float, float]]) -> str:
        """Points as SVG lists them."""
        return " ".join(f"{_number(self.x(x))},{_number(self.y(y))}" for x, y in points)


def line_chart(chart: Chart) -> Safe | None:
    """The drawing alone; none if there is no point."""
    shown = chart.shown
    if not shown:
        return None
    axes = _axes(chart, shown)
    return element(
        "svg",
        _grid(chart, axes),
        _marks(chart.marks, axes),
        [_bands(series, axes) for series in shown if series.joined],
        [_line(series, axes) for series in shown if series.joined],
        [_single_marks(series, axes) for series in shown if not series.joined],
        class_="chart",
        viewbox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=describe_chart(chart),
    )


def swatch(style: int, joined: bool = True) -> Safe:
    """A piece of a line with its marker, for a legend."""
    kind, dashes = f"line s{style % STYLES}", DASHES[style % STYLES]
    line = element("line", x1=0, y1=7, x2=34, y2=7, class_=kind, stroke_dasharray=dashes)
    return element(
        "svg",
        line if joined else None,
        marker(17, 7, style),
        class_="swatch",
        viewbox="0 0 34 14",
        aria_hidden="true",
    )


def marker(x: float, y: float, style: int) -> Safe:
    """A small shape around a position, another one for each style; then the same ones hollow."""
    name = f"dot s{style % STYLES}{' hollow' if style // STYLES % 2 else ''}"
    style %= STYLES
    if style == 0:
        return element("circle", cx=_number(x), cy=_number(y), r=3.2, class_=name)
    shapes = (
        ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        ((0, -4), (4, 3), (-4, 3)),
        ((0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0)),
        ((0, 4), (4, -3), (-4, -3)),
        ((-4, 0), (4, 0), (0, 0), (0, -4), (0, 4), (0, 0)),
        ((-3.5, -3.5), (3.5, 3.5), (0, 0), (3.5, -3.5), (-3.5, 3.5), (0, 0)),
        ((-4, -1.5), (4, -1.5), (4, 1.5), (-4, 1.5)),
    )
    corners = (f"{_number(x + dx)},{_number(y + dy)}" for dx, dy in shapes[style - 1])
    return element("polygon", points=" ".join(corners), class_=name)


def describe_chart(chart: Chart) -> str:
    """What a chart shows, for those who cannot see it."""
    parts = []
    for series in chart.shown:
        first, last = (chart.y_format(series.points[at].y) for at in (0, -1))
        values = f"from {first} to {last}" if len(series.points) > 1 else last
        parts.append(f"{series.name} {values}")
    return f"{chart.title} over {chart.x_label}: {'; '.join(parts)}."


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Round numbers from the last one not above ``low`` to the first one not below ``high``.

    If they are the same, room is made around them. There are at most ``most``, which is 3 at least;
    only integers if ``whole``.
    """
    if high <= low:
        room = abs(low) * 0.1 or 1.0
        low, high = (low, low + 1) if whole else (low - room, high + room)
    rough = max((high - low) / (most - 1), 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 2.5, 5, 10, 20, 25, 50):
        step = factor * power
        if whole and (step < 1 or step != round(step)):
            continue
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            break
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(index * step, digits) for index in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Powers of ten between two positive numbers, and 2 and 5 times them where they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for folds in ((1, 2, 5), (1,)):
        candidates = [fold * 10.0**power for power in range(first, last + 1) for fold in folds]
        inside = [tick for tick in candidates if low * 0.999 <= tick <= high * 1.001]
        if len(inside) <= most:
            break
    return inside[:: -(-len(inside) // most)] if inside else [low]


def _axes(chart: Chart, shown: Sequence[Series]) -> ChartAxes:
    points = [point for series in shown for point in series.points]
    xs = [point.x for point in points]
    ys = [y for point in points for y in point[1:] if y is not None]
    ys += chart.y_range
    y_ticks = ticks(min(ys), max(ys))
    left = 10 + max(len(chart.y_format(tick)) for tick in y_ticks) * _LETTER
    if chart.log_x:
        span = (min(xs) * 0.9, max(xs) * 1.1)
        return ChartAxes(span, log_ticks(*span), y_ticks, left, log_x=True)
    x_ticks = ticks(min(xs), max(xs), most=7, whole=chart.whole_x)
    span = (min(xs), max(xs)) if max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    if not all(series.joined for series in shown):  # room on both sides of single marks
        room = (span[1] - span[0]) * 0.04
        span = (span[0] - room, span[1] + room)
    inside = [tick for tick in x_ticks if span[0] <= tick <= span[1]]
    return ChartAxes(span, inside or x_ticks[:1], y_ticks, left)


def _grid(chart: Chart, axes: ChartAxes) -> Safe:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for tick in axes.ys:
        y = axes.y(tick)
        parts.append(_straight((axes.left, y), (right, y), "grid"))
        parts.append(_label(chart.y_format(tick), axes.left - 6, y + 5, "end"))
    free = 0.0
    for tick in axes.xs:  # the labels that have room beside each other
        words = chart.x_format(tick)
        half = len(words) * _LETTER / 2
        x = min(axes.x(tick), WIDTH - half)
        if x - half >= free:
            parts.append(_label(words, x, bottom + 18, "middle"))
            free = x + half + _LETTER
    middle = (axes.left + right) / 2
    parts.append(_label(chart.x_label, middle, HEIGHT - 6, "middle", "axis"))
    base = _straight((axes.left, bottom), (right, bottom), "baseline")
    return element("g", parts, base, aria_hidden="true")


def _marks(marks: Sequence[Mark], axes: ChartAxes) -> list[Safe]:
    """A line where each phase begins, and its name where there is room."""
    parts: list[Safe] = []
    free = axes.left - 4
    ends = [*(mark.x for mark in marks[1:]), axes.span[1]]
    for mark, end in zip(marks, ends, strict=False):
        if mark.x > axes.span[1] or end <= axes.span[0]:
            continue
        x = axes.x(max(mark.x, axes.span[0]))
        if mark.x > axes.span[0]:
            parts.append(_straight((x, _TOP), (x, HEIGHT - _BOTTOM), "mark"))
        length = len(mark.label) * _LETTER
        start = min(x + 4, WIDTH - length)
        if start >= free:
            parts.append(_label(mark.label, start, 14, "start", "axis"))
            free = start + length
    return parts


def _bands(series: Series, axes: ChartAxes) -> list[Safe]:
    bands = []
    for segment in series.segments:
        upper = [(point.x, point.high) for point in segment if point.high is not None]
        lower = [(point.x, point.low) for point in segment if point.low is not None]
        if len(upper) > 1:
            corners = axes.corners([*upper, *reversed(lower)])
            kind = f"band s{series.style % STYLES}"
            bands.append(element("polygon", points=corners, class_=kind))
    return bands


def _line(series: Series, axes: ChartAxes) -> Safe:
    style = series.style % STYLES
    lines = [
        element(
            "polyline",
            points=axes.corners((point.x, point.y) for point in segment),
            class_=f"line s{style}",
            stroke_dasharray=DASHES[style],
        )
        for segment in series.segments
        if len(segment) > 1
    ]
    return element("g", lines, _markers(_marked(series), axes, series.style))


def _single_marks(series: Series, axes: ChartAxes) -> Safe:
    """Markers, and a whisker from the lower to the upper end of each one's band."""
    whiskers = []
    for point in series.points:
        if point.low is not None and point.high is not None:
            x = axes.x(point.x)
            ends = (x, axes.y(point.low)), (x, axes.y(point.high))
            whiskers.append(_straight(*ends, f"line s{series.style % STYLES}"))
    return element("g", whiskers, _markers(series.points, axes, series.style))


def _markers(points: Sequence[ChartPoint], axes: ChartAxes, style: int) -> list[Safe]:
    return [marker(axes.x(point.x), axes.y(point.y), style) for point in points]


def _marked(series: Series) -> list[ChartPoint]:
    """Points of a line with a marker: some, the last and single ones included."""
    points = series.points
    if len(points) <= _MARKERS:
        return points
    step = len(points) / _MARKERS
    some = [points[int(step * index)] for index in range(_MARKERS)]
    alone = [segment[0] for segment in series.segments if len(segment) == 1]
    return [*some, *alone[:60], points[-1]]


def _straight(start: tuple[float, float], end: tuple[float, float], kind: str) -> Safe:
    (x1, y1), (x2, y2) = (map(_number, point) for point in (start, end))
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _label(text: str, x: float, y: float, anchor: str, kind: str = "tick") -> Safe:
    return element("text", text, x=_number(x), y=_number(y), text_anchor=anchor, class_=kind)


def _position(value: float, ends: Sequence[float], start: float, end: float) -> float:
    return start + (value - ends[0]) / (ends[-1] - ends[0]) * (end - start)


def _number(value: float) -> str:
    """A position with a tenth of a unit, which is finer than a screen."""
    return f"{value:.1f}".removesuffix(".0")
