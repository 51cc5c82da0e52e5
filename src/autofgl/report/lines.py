"""A chart with lines as SVG.

Drawn for a width of 400: on a phone its letters keep their size, and two stand side by side on a
desk. Lines differ by colour, dashes and markers; colours are those of the page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autofgl.report.chart import Chart, Mark, Point, Series
from autofgl.report.markup import Safe, element, join
from autofgl.report.numbers import log_ticks, ticks

WIDTH, HEIGHT = 400, 250
_TOP, _RIGHT, _BOTTOM = 22, 12, 44
#: Width of a letter of 14 units, to leave room for labels.
_LETTER = 8.2

#: Dashes of the series by their place; colours and these repeat after as many.
DASHES = (None, "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2", "1 4", "14 3 4 3")
STYLES = len(DASHES)
#: Share of the x axis that is left free on both sides of single marks.
_ROOM = 0.04
#: About how many markers stand on a line.
_MARKERS = 6


@dataclass(frozen=True)
class Frame:
    """From values to places."""

    span: tuple[float, float]
    xs: Sequence[float]
    ys: Sequence[float]
    left: float
    log_x: bool = False

    def x(self, value: float) -> float:
        """Place of a value on the x axis, which ends with the data."""
        if self.log_x:
            ends = (math.log(self.span[0]), math.log(self.span[1]))
            return _place(math.log(value), ends, self.left, WIDTH - _RIGHT)
        return _place(value, self.span, self.left, WIDTH - _RIGHT)

    def y(self, value: float) -> float:
        """Place of a value on the y axis."""
        return _place(value, self.ys, HEIGHT - _BOTTOM, _TOP)


def line_chart(chart: Chart) -> Safe | None:
    """The drawing alone; none if there is no point."""
    shown = chart.shown
    if not shown:
        return None
    frame = _frame(chart, shown)
    return element(
        "svg",
        _grid(chart, frame),
        _marks(chart.marks, frame),
        [_band(series, frame, series.style) for series in shown],
        [_line(series, frame, series.style) for series in shown if series.joined],
        [_line(series, frame, series.style) for series in shown if not series.joined],
        class_="chart",
        viewbox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=in_words(chart),
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
    """A small shape around a place, another one for each style; after as many, hollow ones."""
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


def in_words(chart: Chart) -> str:
    """What a chart shows, for those who cannot see it."""
    told = []
    for series in chart.shown:
        first, last = series.points[0], series.points[-1]
        told.append(
            f"{series.name} from {chart.y_format(first.y)} to {chart.y_format(last.y)}"
            if len(series.points) > 1
            else f"{series.name} {chart.y_format(last.y)}"
        )
    return f"{chart.title} over {chart.x_label}: {'; '.join(told)}."


def _frame(chart: Chart, shown: Sequence[Series]) -> Frame:
    points = [point for series in shown for point in series.points]
    xs = [point.x for point in points]
    ys = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
    ys += chart.y_range
    y_ticks = ticks(min(ys), max(ys), most=6)
    widest = max(len(chart.y_format(tick)) for tick in y_ticks)
    left = 10 + widest * _LETTER
    if chart.log_x:
        span = (min(xs) * 0.9, max(xs) * 1.1)
        return Frame(span, log_ticks(*span), y_ticks, left, log_x=True)
    x_ticks = ticks(min(xs), max(xs), most=7, whole=chart.whole_x)
    span = (min(xs), max(xs)) if max(xs) > min(xs) else (x_ticks[0], x_ticks[-1])
    if not all(series.joined for series in shown):
        room = (span[1] - span[0]) * _ROOM
        span = (span[0] - room, span[1] + room)
    inside = [tick for tick in x_ticks if span[0] <= tick <= span[1]]
    return Frame(span, inside or x_ticks[:1], y_ticks, left)


def _grid(chart: Chart, frame: Frame) -> Safe:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for tick in frame.ys:
        y = _number(frame.y(tick))
        parts.append(element("line", x1=_number(frame.left), y1=y, x2=right, y2=y, class_="grid"))
        parts.append(_label(chart.y_format(tick), frame.left - 6, frame.y(tick) + 5, "end"))
    parts += [_label(words, x, bottom + 18, "middle") for words, x in _fitting(chart, frame)]
    middle = (frame.left + right) / 2
    parts.append(_label(chart.x_label, middle, HEIGHT - 6, "middle", "axis"))
    base = element(
        "line", x1=_number(frame.left), y1=bottom, x2=right, y2=bottom, class_="baseline"
    )
    return element("g", parts, base, aria_hidden="true")


def _fitting(chart: Chart, frame: Frame) -> list[tuple[str, float]]:
    """The labels of the x axis that have room beside each other, and where they stand."""
    kept: list[tuple[str, float]] = []
    free = 0.0
    for tick in frame.xs:
        words = chart.x_format(tick)
        half = len(words) * _LETTER / 2
        x = min(frame.x(tick), WIDTH - half)
        if x - half >= free:
            kept.append((words, x))
            free = x + half + _LETTER
    return kept


def _marks(marks: Sequence[Mark], frame: Frame) -> list[Safe]:
    """A line where each phase begins, and its name where there is room."""
    parts: list[Safe] = []
    free = frame.left - 4
    ends = [*(mark.x for mark in marks[1:]), frame.span[1]]
    for mark, end in zip(marks, ends, strict=False):
        if mark.x > frame.span[1] or end <= frame.span[0]:
            continue
        x = frame.x(max(mark.x, frame.span[0]))
        if mark.x > frame.span[0]:
            ends_at = HEIGHT - _BOTTOM
            at = _number(x)
            parts.append(element("line", x1=at, y1=_TOP, x2=at, y2=ends_at, class_="mark"))
        length = len(mark.label) * _LETTER
        start = min(x + 4, WIDTH - length)
        if start >= free:
            parts.append(_label(mark.label, start, 14, "start", "axis"))
            free = start + length
    return parts


def _band(series: Series, frame: Frame, style: int) -> Safe:
    if not series.joined:
        return Safe("")
    return join([_band_of(segment, frame, style) for segment in series.segments])


def _band_of(segment: Sequence[Point], frame: Frame, style: int) -> Safe:
    wide = [point for point in segment if point.low is not None and point.high is not None]
    if len(wide) < 2:
        return Safe("")
    upper = [(point.x, point.high or 0.0) for point in wide]
    lower = [(point.x, point.low or 0.0) for point in reversed(wide)]
    places = " ".join(f"{_number(frame.x(x))},{_number(frame.y(y))}" for x, y in upper + lower)
    return element("polygon", points=places, class_=f"band s{style % STYLES}")


def _line(series: Series, frame: Frame, style: int) -> Safe:
    parts = []
    for segment in series.segments:
        if series.joined and len(segment) > 1:
            places = (f"{_number(frame.x(p.x))},{_number(frame.y(p.y))}" for p in segment)
            parts.append(
                element(
                    "polyline",
                    points=" ".join(places),
                    class_=f"line s{style % STYLES}",
                    stroke_dasharray=DASHES[style % STYLES],
                )
            )
    if not series.joined:
        parts += [_whisker(point, frame, style) for point in series.points]
    for point in _marked(series):
        parts.append(marker(frame.x(point.x), frame.y(point.y), style))
    return element("g", parts)


def _whisker(point: Point, frame: Frame, style: int) -> Safe:
    """From the lower to the upper end of a single point's band."""
    if point.low is None or point.high is None:
        return Safe("")
    x, low, high = map(_number, (frame.x(point.x), frame.y(point.low), frame.y(point.high)))
    return element("line", x1=x, y1=low, x2=x, y2=high, class_=f"line s{style % STYLES}")


def _marked(series: Series) -> list[Point]:
    """Points with a marker: all without a line, else some, the last and single ones included."""
    points = series.points
    if not series.joined or len(points) <= _MARKERS:
        return points
    step = len(points) / _MARKERS
    some = [points[int(step * index)] for index in range(_MARKERS)]
    alone = [segment[0] for segment in series.segments if len(segment) == 1]
    return [*some, *alone[:60], points[-1]]


def _label(text: str, x: float, y: float, anchor: str, kind: str = "tick") -> Safe:
    return element("text", text, x=_number(x), y=_number(y), text_anchor=anchor, class_=kind)


def _place(value: float, ends: Sequence[float], start: float, end: float) -> float:
    return start + (value - ends[0]) / (ends[-1] - ends[0]) * (end - start)


def _number(value: float) -> str:
    """A place with a tenth of a unit, which is finer than a screen."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")
