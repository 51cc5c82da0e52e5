"""Axes, formats, drawings and colours."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.nn.found import FoundSpec
from autofgl.nn.models.spec import FAMILIES, ModelSpec
from autofgl.report import numbers
from autofgl.report.architecture import draw_network, standalone
from autofgl.report.chart import MOST_POINTS, Chart, Mark, Series
from autofgl.report.figures import chart_figure
from autofgl.report.lines import DASHES, STYLES, line_chart, marker
from autofgl.report.markup import Safe, element, slug
from autofgl.report.sheet import sheet
from autofgl.report.style import NETWORK_STYLE, STYLE


def test_text_is_escaped_and_markup_is_not() -> None:
    assert (
        element("p", "<b>", Safe("<i>"), class_='"x"')
        == '<p class="&quot;x&quot;">&lt;b&gt;<i></p>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("details", None, open=True, id=None) == "<details open></details>"
    assert slug("Who learnt what?") == "who-learnt-what"


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (numbers.percent, 0.818, "81.8 %"),
        (numbers.percent, 0.5, "50 %"),
        (numbers.bytes_, 44_689_816, "44.7 MB"),
        (numbers.bytes_, 0, "0 B"),
        (numbers.seconds, 0.00035, "350 µs"),
        (numbers.seconds, 0, "0 s"),
        (numbers.seconds, 11.706, "11.7 s"),
        (numbers.seconds, 600, "10 min"),
        (numbers.seconds, 580, "9.7 min"),
        (numbers.seconds, 3600 * 26.5, "26 h 30 min"),
        (numbers.count, 92_231, "92.2 k"),
        (numbers.count, 8101, "8,101"),
        (numbers.plain, 1.9457542, "1.946"),
        (numbers.plain, 12_345.6, "12,346"),
        (numbers.plain, 0.00001, "1e-05"),
        (numbers.text, [1, None, True], "1, –, yes"),
    ],
)
def test_numbers_as_a_person_reads_them(form: numbers.Format, value: float, expected: str) -> None:
    assert form(value) == expected


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.booleans())
def test_ticks_hold_the_values_between_them(one: float, other: float, whole: bool) -> None:
    low, high = sorted((one, other))
    if high - low < 1e-6 * max(1.0, abs(low), abs(high)):
        high = low
    found = numbers.ticks(low, high, 6, whole)
    room = 1e-6 * max(1.0, abs(low), abs(high))
    assert 2 <= len(found) <= 6
    assert found[0] <= low + room
    assert found[-1] >= high - room
    steps = [after - before for before, after in pairwise(found)]
    assert max(steps) - min(steps) <= 1e-6 * max(1.0, max(map(abs, found)))


def test_ticks_by_hand() -> None:
    assert numbers.ticks(0.1, 0.83) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert numbers.ticks(1, 3, whole=True) == [1, 2, 3]
    assert numbers.log_ticks(0.9, 110) == [1, 2, 5, 10, 20, 50, 100]
    assert numbers.log_ticks(1, 1e6) == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]


def places(svg: str, name: str = "polyline") -> list[tuple[float, float]]:
    found = re.search(rf'<{name} points="([^"]*)" class="line', svg)
    assert found
    pairs = (pair.split(",") for pair in found[1].split())
    return [(float(x), float(y)) for x, y in pairs]


def test_a_line_is_where_its_numbers_are() -> None:
    svg = line_chart(Chart("t", "x", [Series.of("a", [(0, 0.0), (5, 0.5), (10, 1.0)])]))
    (x0, y0), (x1, y1), (x2, y2) = places(str(svg))
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2


def test_equal_factors_have_equal_distances() -> None:
    chart = Chart(
        "t", "x", [Series.of("a", [(0, 1.0), (1, 1.0), (10, 2.0), (100, 3.0)])], log_x=True
    )
    xs = [x for x, _ in places(str(line_chart(chart)))]
    assert len(xs) == 3
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_what_is_no_number_is_left_out_and_parts_are_not_joined() -> None:
    points = [(1, 0.1), (2, None), (3, float("nan")), (4, 0.4), (5, True), ("6", 1.0)]
    series = Series.of("a", points, parts=[0, 0, 0, 1, 1, 1])
    assert [[point.x for point in segment] for segment in series.segments] == [[1], [4]]
    assert line_chart(Chart("t", "x", [Series.of("a", [])])) is None


def test_long_series_are_thinned_but_end_where_they_ended() -> None:
    series = Series.of("a", [(at, at) for at in range(10_001)]).thinned()
    assert len(series.points) <= MOST_POINTS + 1
    assert series.points[-1].x == 10_000


def test_lines_differ_without_colour() -> None:
    assert len(set(DASHES)) == STYLES
    shapes = {re.sub(r" s\d", "", marker(0, 0, style)) for style in range(2 * STYLES)}
    assert len(shapes) == 2 * STYLES


def test_a_figure_has_words_and_numbers() -> None:
    band = Series.of("mean", [(1, 0.5, 0.4, 0.6), (2, 0.7, 0.6, 0.9)])
    chart = Chart("Accuracy", "round", [band], numbers.percent, marks=[Mark(1, "a"), Mark(2, "b")])
    figure = str(chart_figure(chart))
    assert 'aria-label="Accuracy over round: mean from 50 % to 70 %."' in figure
    assert '<td class="number">70 % (60 % to 90 %)</td>' in figure
    assert 'class="band s0"' in figure


def test_a_sheet_has_titles_and_one_legend() -> None:
    charts = [
        Chart(f"Title {at}", "round", [Series.of("a", [(1, 1), (2, at)]), Series.of("b", [(1, 2)])])
        for at in range(3)
    ]
    empty = Chart("Nothing", "round", [Series.of("c", [])])
    root = ElementTree.fromstring(sheet([charts[:2], [charts[2], empty]]).split("\n", 1)[1])
    words = [text for text in root.itertext() if text.strip()]
    assert [word for word in words if word.startswith("Title")] == ["Title 0", "Title 1", "Title 2"]
    assert (words.count("a"), words.count("b"), words.count("c")) == (1, 1, 0)
    assert "Nothing" not in words


def test_a_found_network_is_drawn_as_it_is_connected() -> None:
    spec = FoundSpec("sigmoid | gcn<0 gat<1 sage<0 | relu", in_features=5, classes=3)
    svg = draw_network(spec)
    assert svg.count('class="edge"') == 1 + 3 + 3 + 2  # linear, layers, mean of 3, linear, classes
    assert "gat (layer 2) reads gcn (layer 1)" in svg
    assert "sage (layer 3) reads linear (64 wide, sigmoid)" in svg
    assert "mean (of 3 outputs) reads gcn (layer 1) and gat (layer 2) and sage (layer 3)" in svg
    leaves = draw_network(FoundSpec(spec.genotype, 5, 3, fusion="leaves"))
    assert "mean (of 2 outputs) reads gat (layer 2) and sage (layer 3)" in leaves
    assert "linear (3 wide, relu) reads linear (64 wide, relu)" in draw_network(
        FoundSpec("relu | - | relu", 5, 3)
    )
    assert standalone(svg, NETWORK_STYLE).count("<svg xmlns=") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_fixed_networks_are_drawn(family: str) -> None:
    svg = draw_network(ModelSpec(family, in_features=5, classes=3, layers=3))
    assert family in svg
    boxes = {"sgc": 3, "appnp": 6, "agnn": 7, "gatedgraph": 5, "sfgnn": 9}
    assert svg.count('class="box') == boxes.get(family, 5)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def variables(style: str) -> list[dict[str, str]]:
    """Colours in light and in dark."""
    light, dark = style.split("prefers-color-scheme: dark")
    first, second = (dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in (light, dark))
    return [first, {**first, **second}]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(mode: int) -> None:
    colours = variables(STYLE)[mode]
    for text in ("text", "soft", "link"):
        for ground in ("page", "card"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["warn"], colours["warn-page"]) >= 4.5
    for style in range(STYLES):
        assert contrast(colours[f"s{style}"], colours["card"]) >= 3.0, style
    boxes = variables(NETWORK_STYLE)[mode]
    for ground in ("layer", "stage", "data"):
        assert contrast(boxes["box-text"], boxes[f"box-{ground}"]) >= 4.5, ground
    assert contrast(boxes["box-edge"], colours["card"]) >= 3.0


def test_letters_are_large_enough() -> None:
    """A chart of 400 units is 340 pixels wide at least: 14 units are 11.9 pixels there."""
    in_charts = re.search(r"\.chart text \{ font-size: (\d+)px", STYLE)
    assert in_charts
    assert int(in_charts[1]) * 340 / 400 >= 11.5
    for size in re.findall(r"font-size: ([\d.]+)rem", STYLE):
        assert float(size) * 16 >= 14
