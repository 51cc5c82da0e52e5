"""Series of points."""

from autofgl.report.charts import MOST_POINTS, Chart, Series
from autofgl.report.charts.lines import line_chart


def test_other_values_are_left_out_and_parts_are_not_joined() -> None:
    points = [(1, 0.1), (2, None), (3, float("nan")), (4, 0.4), (5, True), ("6", 1.0)]
    series = Series.of("a", points, parts=[0, 0, 0, 1, 1, 1])
    assert [[point.x for point in segment] for segment in series.segments] == [[1], [4]]
    assert line_chart(Chart("t", "x", [Series.of("a", [])])) is None


def test_long_series_are_thinned_but_end_where_they_ended() -> None:
    series = Series.of("a", [(at, at) for at in range(10_001)]).thinned()
    assert len(series.points) <= MOST_POINTS + 1
    assert series.points[-1].x == 10_000
