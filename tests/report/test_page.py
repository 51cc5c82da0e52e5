"""Markup, and colors that can be read."""

import re

import pytest

from autofgl.report.charts.lines import STYLES
from autofgl.report.page import NETWORK_STYLE, STYLE, Safe, element, rich_text, slug


def test_text_is_escaped_and_markup_is_not() -> None:
    assert (
        element("p", "<b>", Safe("<i>"), class_='"x"')
        == '<p class="&quot;x&quot;">&lt;b&gt;<i></p>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("details", None, open=True, id=None) == "<details open></details>"
    assert slug("Who learns what?") == "who-learns-what"


def test_text_with_code_in_it() -> None:
    assert element("p", rich_text("a <b> **c** `d`")) == (
        "<p>a &lt;b&gt; <strong>c</strong> <code>d</code></p>"
    )


def luminance(color: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def variables(style: str) -> list[dict[str, str]]:
    """Colors in light and in dark."""
    light, dark = style.split("prefers-color-scheme: dark")
    first, second = (dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in (light, dark))
    return [first, {**first, **second}]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colors_can_be_read(mode: int) -> None:
    colors = variables(STYLE)[mode]
    for text in ("text", "soft", "link"):
        for ground in ("page", "card"):
            assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
    assert contrast(colors["warn"], colors["warn-page"]) >= 4.5
    for style in range(STYLES):
        assert contrast(colors[f"s{style}"], colors["card"]) >= 3.0, style
    boxes = variables(NETWORK_STYLE)[mode]
    for ground in ("layer", "stage", "data"):
        assert contrast(boxes["box-text"], boxes[f"box-{ground}"]) >= 4.5, ground
    assert contrast(boxes["box-edge"], colors["card"]) >= 3.0


def test_letters_are_large_enough() -> None:
    """A chart of 400 units is 340 pixels wide at least: 14 units are 11.9 pixels there."""
    in_charts = re.search(r"\.chart text \{ font-size: (\d+)px", STYLE)
    assert in_charts
    assert int(in_charts[1]) * 340 / 400 >= 11.5
    for size in re.findall(r"font-size: ([\d.]+)rem", STYLE):
        assert float(size) * 16 >= 14
