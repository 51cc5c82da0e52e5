"""What a chart shows: series of points with gaps and bands, and marks on the x axis.

:mod:`~autofgl.report.charts.lines` draws it, :mod:`~autofgl.report.charts.figures` adds legend and
numbers, :mod:`~autofgl.report.charts.network` draws networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, repeat
from operator import itemgetter
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
    """A line of a chart, with a gap between segments; single marks where it is not joined.

    Its style, that is dashes, marker and color, is its position among a chart's series.
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
        """A series of all ``(x, y)`` or ``(x, y, low, high)`` that are finite numbers.

        Where the part that points belong to changes, the line has a gap.
        """
        belongs = repeat(None) if parts is None else parts
        numeric = (
            pair for pair in zip(points, belongs, strict=False) if all(map(is_number, pair[0]))
        )
        segments = [
            [ChartPoint(*map(float, values)) for values, _ in group]
            for _, group in groupby(numeric, key=itemgetter(1))
        ]
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
        y_range: Values that must be on the y axis.
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
    marks: Sequence[Mark] = ()
    note: str = ""
    whole_x: bool = True
    log_x: bool = False

    @cached_property
    def shown(self) -> list[Series]:
        """The series that have a point on the axes; a missing one does not change the others."""
        styled = [replace(one, style=position) for position, one in enumerate(self.series)]
        on_axes = [one.positive() for one in styled] if self.log_x else styled
        return [one.thinned() for one in on_axes if one.points]
