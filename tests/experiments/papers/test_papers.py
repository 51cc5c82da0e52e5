"""All tables and figures: the command that runs them, and their quick versions."""

import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "report"))
from checker import check_page

import autofgl.experiments.papers
from autofgl.cli import main
from autofgl.config import sort_settings
from autofgl.experiments.figures import FigurePages
from autofgl.experiments.papers import (
    FIGURES,
    QUICK_BUDGET,
    STATIC,
    TABLES,
    VIEWS,
    quick_figure,
    quick_table,
)
from autofgl.experiments.plan import Options, plan


def test_everything_in_the_files_is_there() -> None:
    folder = Path(autofgl.experiments.papers.__file__).parent
    written = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(folder.glob("*.yaml"))]
    assert [paper["name"] for paper in written] == ["asfgnn", "fedgraph", "fl-agcns", "ga"]
    read = {"tables": TABLES, "figures": FIGURES, "views": VIEWS, "static": STATIC}
    assert {key for paper in written for key in paper} == {"name", "paper", "common", *read}
    sizes = {key: sum(len(paper.get(key, ())) for paper in written) for key in read}
    assert sizes == {key: len(content) for key, content in read.items()}
    assert sizes == {"tables": 13, "figures": 10, "views": 7, "static": 5}


def test_settings_are_combined_with_parts() -> None:
    [low, *_] = FIGURES["fedgraph-fig9"].settings
    assert (low.name, low.label, low.group, low.level) == ("cora-low", "Cora, low", "cora", "low")
    assert (low.shared["batch"], low.shared["overlap_spread"]) == (256, 0.1)
    [first, *_] = TABLES["asfgnn-table6"].settings
    assert (first.name, first.label, first.group) == ("cora-1.0", "Cora, α = 1.0", "")
    own = TABLES["asfgnn-table6"].variants[1].own
    assert own["cora-0.9"] == own["cora-0.6"] != own["cora-1.0"]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_quick_version(name: str, tmp_path: Path) -> None:
    options = Options(tmp_path, budget="30s")
    runs = plan(quick_table(TABLES[name]), options)
    assert {run.setting.name for run in runs} == {TABLES[name].settings[0].name}
    assert {run.seed for run in runs} == {0}
    for one in runs:
        config = one.config(options)
        layers = sort_settings(config)
        assert config.budget == "30s"
        assert layers.method.rounds <= 100
    assert "Quick version" in quick_table(TABLES[name]).notes[0]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_quick_version_and_a_page(name: str, tmp_path: Path) -> None:
    figure = quick_figure(FIGURES[name])
    runs = plan(figure, Options(tmp_path))
    whole = plan(FIGURES[name], Options(tmp_path))
    assert len(runs) < len(whole)
    for one in runs:
        config = one.config(Options(tmp_path))
        assert config.settings["rounds"] <= 20
        assert config.settings.get("episodes", 0) <= 4
        assert config.settings.get("generations", 0) <= 6
    check_page(FigurePages(figure, Options(tmp_path)).files()["figure.html"])


def call(*words: str) -> object:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return stopped.value.code


def test_the_command_lists_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", "list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*TABLES, *VIEWS))
    assert "FL-AGCNS, Table 2" in shown
    assert call("reproduce", "--help") == 0
    assert "Example: autofgl reproduce" in capsys.readouterr().out


def test_the_command_hands_its_words_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        "autofgl.experiments.runner.run_experiment",
        lambda pages, console: asked.append((pages.experiment, pages.options)),
    )
    words = ["--datasets", "cora", "pubmed", "--rows", "gcn", "gat", "--seeds", "2"]
    more = ["--budget", "90s", "--secure", "shares", "--data-root", "raw", "--out", "here"]
    assert call("reproduce", "fl-agcns-table3", *words, *more) == 0
    assert call("reproduce", "fl-agcns-table5") == 0
    third, fifth = TABLES["fl-agcns-table3"], TABLES["fl-agcns-table5"]
    columns, rows = ("cora", "pubmed"), ("gcn", "gat")
    assert asked == [
        (third, Options(Path("here"), columns, rows, 2, "90s", "shares", "raw")),
        (fifth, Options(Path("runs/fl-agcns-table5"))),
    ]


def test_a_view_runs_the_rows_of_its_table_and_names_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        "autofgl.experiments.runner.run_experiment",
        lambda pages, console: asked.append((pages.experiment, pages.options)),
    )
    assert call("reproduce", "fl-agcns-fig3") == 0
    assert call("reproduce", "fl-agcns-fig4", "--quick") == 0
    third = TABLES["fl-agcns-table3"]
    assert asked == [
        (third, Options(Path("runs/fl-agcns-table3"), rows=("fl-agcns",))),
        (quick_table(third), Options(Path("runs/fl-agcns-table3-quick"), budget=QUICK_BUDGET)),
    ]
    shown = capsys.readouterr().out.replace("\n", "")
    assert "runs/fl-agcns-table3/table.html#best-architectures" in shown


def test_failed_cells_give_exit_code_1_and_mistakes_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    words = ["--datasets", "cora", "--rows", "gcn", "--seeds", "1", "--data-root", "empty"]
    assert call("reproduce", "fl-agcns-table3", "--rows", "gnc") == 2
    assert call("reproduce", "fl-agcns-table3", *words) == 1
    captured = capsys.readouterr()
    assert "1 of 1 runs failed" in captured.err
    assert "failed: " in (tmp_path / "runs/fl-agcns-table3/table.md").read_text()
