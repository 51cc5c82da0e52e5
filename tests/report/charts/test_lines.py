"""Axes and lines."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.report.charts import Chart, Series
from autofgl.report.charts.lines import DASHES, STYLES, line_chart, log_ticks, marker, ticks


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.booleans())
def test_ticks_hold_the_values_between_them(one: float, other: float, whole: bool) -> None:
    low, high = sorted((one, other))
    if high - low < 1e-6 * max(1.0, abs(low), abs(high)):
        high = low
    result = ticks(low, high, 6, whole)
    room = 1e-6 * max(1.0, abs(low), abs(high))
    assert 2 <= len(result) <= 6
    assert result[0] <= low + room
    assert result[-1] >= high - room
    steps = [after - before for before, after in pairwise(result)]
    assert max(steps) - min(steps) <= 1e-6 * max(1.0, max(map(abs, result)))


def test_ticks_by_hand() -> None:
    assert ticks(0.1, 0.83) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(1, 3, whole=True) == [1, 2, 3]
    assert log_ticks(0.9, 110) == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(1, 1e6) == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]


def positions(svg: str, name: str = "polyline") -> list[tuple[float, float]]:
    result = re.search(rf'<{name} points="([^"]*)" class="line', svg)
    assert result
    pairs = (pair.split(",") for pair in result[1].split())
    return [(float(x), float(y)) for x, y in pairs]


def test_a_line_is_where_its_numbers_are() -> None:
    svg = line_chart(Chart("t", "x", [Series.of("a", [(0, 0.0), (5, 0.5), (10, 1.0)])]))
    (x0, y0), (x1, y1), (x2, y2) = positions(str(svg))
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2


def test_equal_factors_have_equal_distances() -> None:
    chart = Chart(
        "t", "x", [Series.of("a", [(0, 1.0), (1, 1.0), (10, 2.0), (100, 3.0)])], log_x=True
    )
    xs = [x for x, _ in positions(str(line_chart(chart)))]
    assert len(xs) == 3
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_lines_differ_without_color() -> None:
    assert len(set(DASHES)) == STYLES
    shapes = {re.sub(r" s\d", "", marker(0, 0, style)) for style in range(2 * STYLES)}
    assert len(shapes) == 2 * STYLES
