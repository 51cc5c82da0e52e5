"""Charts with legends and numbers."""

from xml.etree import ElementTree

from autofgl.report.charts import Chart, Mark, Series
from autofgl.report.charts.figures import chart_figure, charts_svg
from autofgl.report.numbers import percent


def test_a_figure_has_words_and_numbers() -> None:
    band = Series.of("mean", [(1, 0.5, 0.4, 0.6), (2, 0.7, 0.6, 0.9)])
    chart = Chart("Accuracy", "round", [band], percent, marks=[Mark(1, "a"), Mark(2, "b")])
    figure = str(chart_figure(chart))
    assert 'aria-label="Accuracy over round: mean from 50 % to 70 %."' in figure
    assert '<td class="number">70 % (60 % to 90 %)</td>' in figure
    assert 'class="band s0"' in figure


def test_a_file_has_titles_and_one_legend() -> None:
    charts = [
        Chart(f"Title {at}", "round", [Series.of("a", [(1, 1), (2, at)]), Series.of("b", [(1, 2)])])
        for at in range(3)
    ]
    empty = Chart("Nothing", "round", [Series.of("c", [])])
    root = ElementTree.fromstring(charts_svg([charts[:2], [charts[2], empty]]).split("\n", 1)[1])
    words = [text for text in root.itertext() if text.strip()]
    assert [word for word in words if word.startswith("Title")] == ["Title 0", "Title 1", "Title 2"]
    assert (words.count("a"), words.count("b"), words.count("c")) == (1, 1, 0)
    assert "Nothing" not in words
