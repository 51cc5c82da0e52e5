"""What a chart shows: series of points with gaps and bands, and marks on the x axis.

:mod:`~autofgl.report.charts.lines` draws it, :mod:`~autofgl.report.charts.figures` adds legend and
numbers, :mod:`~autofgl.report.charts.network` draws networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

from autofgl.report.numbers import Format, is_number, plain

#: More points of a series than this are thinned out: no screen shows them.
MOST_POINTS = 400


class ChartPoint(NamedTuple):
    """A point, and how far its band goes."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Attributes:
        name: Its name in the legend.
        segments: Points that are joined; between segments the line has a gap.
        joined: Whether there is a line at all, rather than single marks.
        style: Dashes, marker and color; in a chart the position among its series.
    """

    name: str
    segments: Sequence[Sequence[ChartPoint]]
    joined: bool = True
    style: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        points: Iterable[tuple[Any, ...]],
        parts: Iterable[Any] | None = None,
        joined: bool = True,
    ) -> Series:
        """A series of all points that are numbers.

        Args:
            name: Its name.
            points: ``(x, y)`` or ``(x, y, low, high)``; those without finite numbers are left out.
            parts: The part each point belongs to; where it changes, the line has a gap.
            joined: Whether points are joined by a line.
        """
        segments: list[list[ChartPoint]] = []
        last: Any = object()
        belongs = repeat(None) if parts is None else parts
        for values, part in zip(points, belongs, strict=False):
            if not all(map(is_number, values)):
                continue
            if part != last or not segments:
                segments.append([])
                last = part
            segments[-1].append(ChartPoint(*map(float, values)))
        return cls(name, segments, joined)

    @cached_property
    def points(self) -> list[ChartPoint]:
        """All points, in their order."""
        return [point for segment in self.segments for point in segment]

    def positive(self) -> Series:
        """The same without the points that have no logarithm."""
        kept = [[point for point in segment if point.x > 0] for segment in self.segments]
        return replace(self, segments=[segment for segment in kept if segment])

    def thinned(self) -> Series:
        """The same with at most about :data:`MOST_POINTS` points; ends of segments stay."""
        step = -(-len(self.points) // MOST_POINTS)
        if step <= 1:
            return self
        kept = [[*segment[:-1:step], segment[-1]] for segment in self.segments if segment]
        return replace(self, segments=kept)


class Mark(NamedTuple):
    """A position on the x axis that has a name, such as the beginning of a phase."""

    x: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A chart with lines.

    Attributes:
        title: What it shows.
        x_label: What is on the x axis.
        series: Its lines.
        y_format: How values are written.
        x_format: How positions on the x axis are written.
        y_range: Values that must be on the y axis.
        marks: Positions on the x axis with a name.
        note: A sentence below it.
        whole_x: Whether the x axis counts something.
        log_x: Whether equal distances on the x axis are equal factors; points at 0 are left out.
    """

    title: str
    x_label: str
    series: Sequence[Series]
    y_format: Format = plain
    x_format: Format = plain
    y_range: Sequence[float] = ()
    marks: Sequence[Mark] = field(default_factory=tuple)
    note: str = ""
    whole_x: bool = True
    log_x: bool = False

    @cached_property
    def shown(self) -> list[Series]:
        """The series that have a point on the axes; a missing one does not change the others."""
        styled = [replace(one, style=position) for position, one in enumerate(self.series)]
        on_axes = [one.positive() for one in styled] if self.log_x else styled
        return [one.thinned() for one in on_axes if one.points]


class Bar(NamedTuple):
    """A bar: its name, its value, and half the length of its whisker."""

    name: str
    value: float
    spread: float | None = None
