import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tiny import make_table

from autofgl.reproduce.cells import Cell, Options
from autofgl.reproduce.render import as_json, markdown
from autofgl.reproduce.summary import Summary, summarise


def made_up(
    accuracies: dict[int, float], failed: dict[int, str] | None = None, wanted: int = 3
) -> Summary:
    table = make_table()
    runs = {
        seed: {"test_accuracy": accuracy, "val_accuracy": 0.5, "parameters": 91_500 + 1_000 * seed,
               "wall_s": 10.0 + seed, "search_s": None if seed else 4.0}
        for seed, accuracy in accuracies.items()
    }  # fmt: skip
    column, row = table.columns[0], table.rows[1]
    paper = table.paper[row.name, column.name]
    return Summary(row, column, paper, runs, failed or {}, wanted)


def line(cell: Summary) -> str:
    text = markdown(make_table(), Options(Path("x")), [cell])
    return next(row for row in text.splitlines() if row.startswith("| GCN |"))


def test_mean_and_sample_deviation_by_hand() -> None:
    # .80 .82 .87: mean .83; squared deviations .0009 + .0001 + .0016 = .0026; / 2 -> .03606
    cell = made_up({0: 0.80, 1: 0.82, 2: 0.87})
    assert cell.accuracy == pytest.approx(83.0)
    assert cell.spread == pytest.approx(3.605551275)
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
        folder = Cell(table.columns[1], table.rows[0], seed).folder(tmp_path)
        folder.mkdir(parents=True)
        figures = {
            "test_accuracy": accuracy, "val_accuracy": 0.5, "parameters": 2_000_000,
            "wall_s": 100.0, "stopped_by": "budget", "architecture": "gcn", "rounds": 3,
        }  # fmt: skip
        rows = [("search", 30), ("search", 90 + 2 * seed), ("train", 99)]
        history = [json.dumps({"phase": phase, "wall_s": wall_s}) for phase, wall_s in rows]
        (folder / "history.jsonl").write_text("\n".join(history) + "\n")
        (folder / "result.json").write_text(json.dumps(figures))
    cells = summarise(table, options)
    assert markdown(table, options, cells) == (Path(__file__).parent / "tiny.md").read_text()
    found = json.loads(as_json(table, options, cells))
    assert found["table"] == "tiny"
    cell = next(c for c in found["cells"] if (c["row"], c["column"]) == ("quick", "three"))
    assert cell["accuracy"] == pytest.approx(50)
    assert cell["std"] == pytest.approx(35.35533906)  # 50 / sqrt(2)
    assert (cell["search_s"], cell["wall_s"], cell["parameters"]) == (91, 100, 2_000_000)
    assert cell["runs"]["1"]["test_accuracy"] == 0.75
    assert cell["paper"] is None
