"""What a table's files say."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from checker import check_page
from tiny import make_table, run

import autofgl
from autofgl.experiments.curves import TrialTimes
from autofgl.experiments.papers import VIEWS
from autofgl.experiments.plan import Options, Published, Run, Setting, Table, Variant
from autofgl.experiments.summary import TableCell, table_cells
from autofgl.experiments.tables import COMMON_GRID, JOINT_GRID, table_files
from autofgl.graphs.catalog import DataSettings, PartitionSettings


def made_up(
    accuracies: dict[int, float], failed: dict[int, str] | None = None, wanted: int = 3
) -> TableCell:
    table = make_table()
    runs = {
        seed: {"test_accuracy": accuracy, "val_accuracy": 0.5, "parameters": 91_500 + 1_000 * seed,
               "wall_s": 10.0 + seed, "search_s": None if seed else 4.0, "architecture": "gcn"}
        for seed, accuracy in accuracies.items()
    }  # fmt: skip
    column, row = table.settings[0], table.variants[1]
    paper = table.paper[row.name, column.name]
    return TableCell(column, row, runs, failed or {}, wanted, paper)


def line(cell: TableCell) -> str:
    text = table_files(make_table(), Options(Path("x")), [cell])["table.md"]
    return next(row for row in text.splitlines() if row.startswith("| GCN |"))


def test_mean_and_sample_deviation_by_hand() -> None:
    # .80 .82 .87: mean .83; squared deviations .0009 + .0001 + .0016 = .0026; / 2 -> .03606
    cell = made_up({0: 0.80, 1: 0.82, 2: 0.87})
    assert cell.accuracy == pytest.approx(83.0)
    assert cell.std == pytest.approx(3.605551275)
    assert line(cell) == "| GCN | 81.3 | 83.0 ± 3.6 | +1.7 | 3 | 0.102 | 0.092 | 4 | 11 |"


def test_missing_single_and_partial_cells() -> None:
    assert line(made_up({})) == "| GCN | 81.3 | – | – | – | 0.102 | – | – | – |"
    assert "| 81.3 | 82.0 | +0.7 | 1 of 3 |" in line(made_up({1: 0.82}))
    assert "| 81.3 | 81.0 ± 1.4 | −0.3 | 2 of 3 |" in line(made_up({0: 0.80, 1: 0.82}))
    assert "| 81.0 ± 1.4 | −0.3 | 2 |" in line(made_up({0: 0.80, 1: 0.82}, wanted=1))


def test_failures_stand_in_the_table() -> None:
    assert "| failed: no a\\|b left |" in line(made_up({}, {0: "no a|b\nleft"}))
    assert "| 82.0 (seed 1 failed: lost) | +0.7 | 1 of 3 |" in line(made_up({0: 0.82}, {1: "lost"}))


def test_the_whole_table_from_folders(tmp_path: Path) -> None:
    table = make_table()
    options = Options(tmp_path, budget="90s")
    for seed, accuracy in enumerate((0.25, 0.75)):
        folder = Run(table, table.settings[1], table.variants[0], seed).folder(tmp_path)
        folder.mkdir(parents=True)
        figures = {
            "test_accuracy": accuracy, "val_accuracy": 0.5, "parameters": 2_000_000,
            "wall_s": 100.0, "stopped_by": "budget", "architecture": "gcn", "rounds": 3,
        }  # fmt: skip
        rows = [("search", 30), ("search", 90 + 2 * seed), ("train", 99)]
        history = [json.dumps({"phase": phase, "wall_s": wall_s}) for phase, wall_s in rows]
        (folder / "history.jsonl").write_text("\n".join(history) + "\n")
        (folder / "result.json").write_text(json.dumps(figures))
    files = table_files(table, options, table_cells(table, options))
    assert files["table.md"] == (Path(__file__).parent / "tiny.md").read_text()
    content = json.loads(files["table.json"])
    assert content["table"] == "tiny"
    cell = next(c for c in content["cells"] if (c["row"], c["column"]) == ("quick", "three"))
    assert cell["accuracy"] == pytest.approx(50)
    assert cell["std"] == pytest.approx(35.35533906)  # 50 / sqrt(2)
    assert (cell["search_s"], cell["wall_s"], cell["parameters"]) == (91, 100, 2_000_000)
    assert cell["runs"]["1"]["test_accuracy"] == 0.75
    assert cell["paper"] is None


def test_accuracies_by_client_are_shown(out: Path) -> None:
    data = {"nodes": 90, "classes": 3, "features": 12}
    column = Setting("two", "Two", "synthetic", 2, "labels", {**data, "rounds": 12, "hidden": 8})
    rows = (
        Variant("sp", "SP", "separate", {"model": "sfgnn", "select": "accuracy"}),
        Variant("sfgnn", "SFGNN", "sfgnn", {"collect_models": True}),
        Variant("stays", "Stays", "sfgnn"),
    )
    run(Table("tiny", "Tiny", (column,), rows, seeds=1, by_client=True), out)
    cells = {cell["row"]: cell for cell in json.loads((out / "table.json").read_text())["cells"]}
    graph = autofgl.load("synthetic", seed=0, settings=DataSettings(**data))
    clients = autofgl.partition(graph, 2, "labels", 0, PartitionSettings())
    for name in ("sp", "sfgnn"):
        folder = out / "two" / name / "seed-0"
        own, everybody = [], []
        for client in clients:
            labels = autofgl.predict(folder, client, client.name).label
            own.append((labels == client.y)[client.test_mask].mean())
            labels = autofgl.predict(folder, graph, client.name).label
            everybody.append((labels == graph.y)[graph.test_mask].mean())
        assert cells[name]["mean_test_accuracy"] == pytest.approx(sum(own) / 2)
        assert cells[name]["all_classes_accuracy"] == pytest.approx(sum(everybody) / 2)
        assert sum(everybody) < sum(own), "a network knows its own classes best"
    assert cells["stays"]["all_classes_accuracy"] is None
    assert "| mean over clients | all classes |" in (out / "table.md").read_text()


def test_the_arithmetic_of_table_7() -> None:
    assert (COMMON_GRID, JOINT_GRID) == (800, 160_000)
    grid = TrialTimes((0.5, 0.6, 0.6, 0.6), (36.0, 72.0, 108.0, 144.0))
    bayes = TrialTimes((0.4, 0.6), (30.0, 60.0))
    own = TrialTimes((0.5, 0.5, 0.7), (40.0, 80.0, 120.0))
    common, joint = tuning_rows(grid=grid, bayes=bayes, own=own)
    assert "| common | 4, 144 s, 60.0 | 2.0, 60 s | 144 / 60 = 2.4× |" in common
    assert "| 800 × 36.0 s = 8.0 h | 480× | 6.67 h / 0.39 h = 17.1× |" in common
    assert "| each client's own | 4, 144 s, 60.0 | 3.0, 120 s | 144 / 120 = 1.2× |" in joint
    assert "| 160,000 × 36.0 s = 1600.0 h | 48000× |" in joint
    worse = TrialTimes((0.4, 0.5), (30.0, 60.0))
    [row] = tuning_rows(grid=grid, bayes=worse)
    assert "| 4, 144 s, 60.0 | not reached in 2 | – |" in row
    assert tuning_rows(grid=grid) == [], "nothing to compare with"


def tuning_rows(**trials: TrialTimes) -> list[str]:
    """Lines of the part about time; cells by the names of their rows."""
    column = Setting("cora", "Cora", "cora")
    rows = [Variant(name, name, "asfgnn") for name in trials]
    table = Table("tiny", "Tiny", (column,), rows, tuning=True)
    cells = [TableCell(column, row, {}, {}, 1, None, {0: trials[row.name]}) for row in rows]
    page = table_files(table, Options(Path("x")), cells)["table.md"]
    _, _, part = page.partition("## Time")
    return [line for line in part.splitlines() if line.startswith("|")][2:]


def made_up_cell(row: int, accuracy: float, **figures: Any) -> TableCell:
    table = make_table()
    paper = table.paper.get((table.variants[row].name, "two"))
    run = {"test_accuracy": accuracy, "val_accuracy": accuracy, "architecture": "gcn, 2 layers"}
    runs = {0: {**run, **figures}}
    return TableCell(table.settings[0], table.variants[row], runs, {}, 1, paper)


def test_a_page_draws_the_best_architectures_and_the_complexity() -> None:
    paper = {("gcn", "two"): Published(81.3, 0.102, 0.02)}
    table = make_table(paper={**paper, ("quick", "two"): Published(80.0, 0.2, 0.04)})
    cells = [
        made_up_cell(
            0, 0.8, parameters=10, inference_s=1.0, architecture="relu | gcn<0 gat<1 | tanh"
        ),
        made_up_cell(1, 0.7, parameters=20, inference_s=0.5),
    ]
    page = check_page(table_files(table, Options(Path("x")), cells)["table.html"])
    assert {VIEWS[name].part for name in ("fl-agcns-fig3", "fl-agcns-fig4")} <= set(page.ids)
    assert any("gat (layer 2) reads gcn (layer 1)" in label for label in page.labels)
    assert "Two, the paper" in page.text
    assert "Two, ours" in page.text


def test_a_table_leaves_a_page_and_a_csv(tmp_path: Path) -> None:
    run(make_table(), tmp_path / "out", datasets=("two",), rows=("gcn",), seeds=1)
    page = check_page((tmp_path / "out/table.html").read_text())
    assert "difference" in page.text
    rows = list(csv.DictReader((tmp_path / "out/table.csv").read_text().splitlines()))
    assert len(rows) == 4
    gcn = next(row for row in rows if (row["row"], row["dataset"]) == ("gcn", "two"))
    assert float(gcn["difference"]) == pytest.approx(float(gcn["ours"]) - 81.3, abs=1e-3)
