from pathlib import Path

import pytest

from autofgl.cli import main
from autofgl.config import sort_settings
from autofgl.graphs.catalog import DATASETS, PARTITIONERS
from autofgl.methods.catalog import find_method
from autofgl.nn.models.spec import FAMILIES
from autofgl.reproduce.cells import Options, plan
from autofgl.reproduce.contents import VIEWS
from autofgl.reproduce.quick import BUDGET, quick_table
from autofgl.reproduce.table import Table
from autofgl.reproduce.tables import TABLES

FL_AGCNS = [name for name in TABLES if name.startswith("fl-agcns")]


@pytest.fixture(params=FL_AGCNS)
def table(request: pytest.FixtureRequest) -> Table:
    return TABLES[request.param]


def test_every_cell_is_a_valid_run(table: Table, out: Path) -> None:
    for cell in plan(table, Options(out)):
        config = cell.config(Options(out))
        assert config.dataset in DATASETS
        assert config.partition in PARTITIONERS
        assert config.settings.get("model", "gcn") in FAMILIES
        assert (config.budget is None) == (cell.row.kind == "fixed")
        method = sort_settings(config, find_method(config.method).Settings).method
        protocol = (method.lr, method.weight_decay, method.dropout, method.rounds, method.select)
        noted = (0.2, 1e-4) if cell.row.name == "sgc" else (0.01, 5e-4)
        assert protocol == (*noted, 0.5, 600, "loss"), "as the table's notes say"
        assert method.patience == 100


def test_every_cell_has_a_figure_of_the_paper(table: Table) -> None:
    names = {(row.name, column.name) for row in table.rows for column in table.columns}
    assert set(table.paper) == names
    assert len(names) == len(table.rows) * len(table.columns), "names are unique"
    assert all(1 < figure.accuracy < 100 for figure in table.paper.values()), "percent"
    assert all(0 < (figure.parameters or 0) < 2 for figure in table.paper.values()), "millions"


def test_the_figures_of_table_3_by_column() -> None:
    """The sums of the paper's columns, so that a slip of a digit is seen."""
    paper = TABLES["fl-agcns-table3"].paper
    sums = {
        column: (
            sum(figure.accuracy for (_, name), figure in paper.items() if name == column),
            sum(figure.parameters or 0 for (_, name), figure in paper.items() if name == column),
        )
        for column in ("cora", "citeseer", "pubmed")
    }
    # 82.9+65.4+75.6+79.8+79.0+78.8+81.3+78.1+82.2+81.2+75.2+76.6 and so on
    assert sums["cora"] == pytest.approx((936.1, 1.089))
    assert sums["citeseer"] == pytest.approx((760.9, 2.891))
    assert sums["pubmed"] == pytest.approx((905.2, 0.507))


def test_the_fourth_table_and_the_times_are_copied_rightly() -> None:
    """The sums of all columns of the paper's text."""
    third, fourth, _ = (TABLES[name] for name in FL_AGCNS)
    for column, sums in {
        "corafull": (620.5, 7.197, 6.7921),
        "physics": (825.1, 6.230, 5.8262),
    }.items():
        own = [fourth.paper[row.name, column] for row in fourth.rows]
        assert sum(cell.accuracy for cell in own) == pytest.approx(sums[0])
        assert sum(cell.parameters or 0 for cell in own) == pytest.approx(sums[1])
        times = [fourth.times[row.name, column] for row in fourth.rows]
        assert sum(times) == pytest.approx(sums[2])
    for column, total in {"cora": 0.3846, "citeseer": 1.3038, "pubmed": 0.6008}.items():
        times = [third.times[row.name, column] for row in third.rows]
        assert sum(times) == pytest.approx(total)


def test_the_protocol_of_the_tables() -> None:
    third, fourth, fifth = (TABLES[name] for name in FL_AGCNS)
    assert {(row.kind, row.seeds) for row in third.rows} == {("search", 3), ("fixed", 5)}
    assert {row.seeds for row in fourth.rows} == {1}
    assert [(column.clients, column.partition) for column in third.columns] == [(3, "metis")] * 3
    assert [(column.clients, column.partition) for column in fourth.columns] == [
        (3, "metis"), (8, "metis")
    ]  # fmt: skip
    ablations = {row.name: (row.settings.get("optimisers"), row.partition) for row in fifth.rows}
    assert ablations == {
        "full": (None, None),
        "controller": ("controller", None),
        "clients": ("clients", None),
        "random-partition": (None, "random"),
    }


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
        "autofgl.reproduce.runner.reproduce",
        lambda table, options, console: asked.append((table, options)),
    )
    words = ["--datasets", "cora", "pubmed", "--rows", "gcn", "gat", "--seeds", "2"]
    more = ["--budget", "90s", "--secure", "shares", "--data-root", "raw", "--out", "here"]
    assert call("reproduce", "fl-agcns-table3", *words, *more) == 0
    assert call("reproduce", "fl-agcns-table5") == 0
    third, _, fifth = (TABLES[name] for name in FL_AGCNS)
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
        "autofgl.reproduce.runner.reproduce",
        lambda table, options, console: asked.append((table, options)),
    )
    assert call("reproduce", "fl-agcns-fig3") == 0
    assert call("reproduce", "fl-agcns-fig4", "--quick") == 0
    third = TABLES["fl-agcns-table3"]
    assert asked == [
        (third, Options(Path("runs/fl-agcns-table3"), rows=("fl-agcns",))),
        (quick_table(third), Options(Path("runs/fl-agcns-table3-quick"), budget=BUDGET)),
    ]
    shown = capsys.readouterr().out.replace("\n", "")
    assert "runs/fl-agcns-table3/table.html#found-architectures" in shown


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
