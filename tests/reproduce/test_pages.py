"""Tables and figures as pages and CSV, in whole and in quick versions."""

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from checker import check_page
from tiny import make_table, run

from autofgl.config import sort_settings
from autofgl.methods.catalog import find_method
from autofgl.report.markdown import markdown_sections
from autofgl.report.page import element, page
from autofgl.reproduce.cells import plan
from autofgl.reproduce.complexity import Cost, charts, complexity
from autofgl.reproduce.contents import VIEWS
from autofgl.reproduce.figure_html import as_html as figure_html
from autofgl.reproduce.figure_runs import plan as plan_figure
from autofgl.reproduce.figures import FIGURES
from autofgl.reproduce.options import Options
from autofgl.reproduce.quick import quick_figure, quick_table
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.table import Published
from autofgl.reproduce.table_files import as_html
from autofgl.reproduce.tables import TABLES


def cell(row: int, accuracy: float, **figures: Any) -> Summary:
    table = make_table()
    paper = table.paper.get((table.rows[row].name, "two"))
    run = {"test_accuracy": accuracy, "val_accuracy": accuracy, "architecture": "gcn, 2 layers"}
    return Summary(table.rows[row], table.columns[0], paper, {0: {**run, **figures}}, {}, 1)


def test_complexity_by_hand() -> None:
    # ½ (10/40 + 2/2), ½ (40/40 + 1/2), ½ (20/40 + 0.5/2)
    costs = {"a": Cost(10, 2), "b": Cost(40, 1), "c": Cost(20, 0.5)}
    assert complexity(costs) == {"a": 0.625, "b": 0.75, "c": 0.375}
    assert complexity({}) == {}


def test_the_papers_complexity_comes_from_its_table() -> None:
    drawn = charts(TABLES["fl-agcns-table3"], [])
    assert [chart.title for chart in drawn] == [
        "Cora, the paper", "CiteSeer, the paper", "PubMed, the paper",
    ]  # fmt: skip
    places = {series.name: series.points[0] for series in drawn[0].series}
    # Cora: SAGE has the most parameters, 0.184 M, AGNN takes the longest, 0.0820 s
    assert places["GCN"].x == pytest.approx((0.102 / 0.184 + 0.0200 / 0.0820) / 2)
    assert places["FL-AGCNS"].y == pytest.approx(0.829)


def test_a_page_draws_what_was_found_and_the_complexity() -> None:
    table = make_table(times={("gcn", "two"): 0.02, ("quick", "two"): 0.04})
    table = replace(table, paper={**table.paper, ("quick", "two"): Published(80.0, 0.2)})
    cells = [
        cell(0, 0.8, parameters=10, inference_s=1.0, architecture="relu | gcn<0 gat<1 | tanh"),
        cell(1, 0.7, parameters=20, inference_s=0.5),
    ]
    page = check_page(as_html(table, Options(Path("x")), cells))
    assert {VIEWS[name].part for name in ("fl-agcns-fig3", "fl-agcns-fig4")} <= set(page.ids)
    assert any("gat (layer 2) reads gcn (layer 1)" in label for label in page.labels)
    assert "Two, the paper" in page.text
    assert "Two, ours" in page.text


def test_a_table_leaves_a_page_and_a_csv(tmp_path: Path) -> None:
    run(make_table(), tmp_path / "out", columns=("two",), rows=("gcn",), seeds=1)
    page = check_page((tmp_path / "out/table.html").read_text())
    assert "difference" in page.text
    rows = list(csv.DictReader((tmp_path / "out/table.csv").read_text().splitlines()))
    assert len(rows) == 4
    gcn = next(row for row in rows if (row["row"], row["dataset"]) == ("gcn", "two"))
    assert float(gcn["difference"]) == pytest.approx(float(gcn["ours"]) - 81.3, abs=1e-3)


def test_our_markdown_as_html() -> None:
    text = (
        "# A title\n\nSome **bold** and `a<b`.\n\n## Part\n\n"
        "| name | value |\n| --- | --- |\n| x \\| y | −1.5 ± 0.2 |\n\n- one\n- two <i>\n"
    )
    title, parts = markdown_sections(text)
    assert title == "A title"
    assert [part.title for part in parts] == ["In short", "Part"]
    html = page(title, element("header"), parts)
    assert "<p>Some <strong>bold</strong> and <code>a&lt;b</code>.</p>" in html
    assert '<td class="number">−1.5 ± 0.2</td>' in html
    assert "x | y" in html
    assert "<li>two &lt;i&gt;</li>" in html
    check_page(html)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_quick_version(name: str, tmp_path: Path) -> None:
    options = Options(tmp_path, budget="30s")
    cells = plan(quick_table(TABLES[name]), options)
    assert {cell.column.name for cell in cells} == {TABLES[name].columns[0].name}
    assert {cell.seed for cell in cells} == {0}
    for one in cells:
        config = one.config(options)
        layers = sort_settings(config, find_method(config.method).Settings)
        assert config.budget == "30s"
        assert layers.method.rounds <= 100
    assert "Quick version" in quick_table(TABLES[name]).notes[0]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_quick_version_and_a_page(name: str, tmp_path: Path) -> None:
    figure = quick_figure(FIGURES[name])
    runs = plan_figure(figure, Options(tmp_path))
    whole = plan_figure(FIGURES[name], Options(tmp_path))
    assert len(runs) < len(whole)
    for one in runs:
        config = one.config(Options(tmp_path))
        assert config.settings["rounds"] <= 20
        assert config.settings.get("episodes", 0) <= 4
    check_page(figure_html(figure, [], "# T\n\n**The paper's claim:** that.\n"))
