"""The tutorial for newcomers, run as it is written."""

import csv
import json
import re
import runpy
from pathlib import Path

import pytest

from autofgl.cli import main

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "own-graphs.md"


def commands(text: str) -> list[list[str]]:
    """Words after ``autofgl`` of every command in the text's blocks."""
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.split(" #")[0] for block in blocks for line in block.splitlines()]
    return [line.split()[1:] for line in lines if line.startswith("autofgl ")]


@pytest.mark.slow
def test_own_graphs_in_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TUTORIAL.read_text()
    monkeypatch.chdir(tmp_path)
    script = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert script
    (tmp_path / "make_graphs.py").write_text(script[1])
    runpy.run_path("make_graphs.py")
    found = commands(text)
    assert [words[0] for words in found] == ["auto", "compare", "predict"]
    for words in found:
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0, words
    for path in (
        "runs/together/certificate.json",
        "runs/together/report.html",
        "runs/worth/compare.html",
        "bank.csv",
    ):
        assert (tmp_path / path).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_tables_to_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (TUTORIAL.parent / "tables.md").read_text()
    monkeypatch.chdir(tmp_path)
    script = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert script
    (tmp_path / "make_banks.py").write_text(script[1])
    runpy.run_path("make_banks.py")
    found = commands(text)
    first = ["import"] * 6 + ["match", "auto"]
    assert [words[0] for words in found] == [*first, "predict", "predict", "export"]
    for words in found:
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0, words
    result = json.loads((tmp_path / "runs/fraud/result.json").read_text())
    assert result["metrics"]["test"]["auroc"] > 0.75
    certificate = json.loads((tmp_path / "runs/fraud/certificate.json").read_text())
    assert {"alone", "fedavg", "fixed"} <= certificate["against"].keys()
    for bank in ("north", "south", "west"):
        with (tmp_path / f"{bank}.predictions.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        rows.sort(key=lambda row: -float(row["probability_yes"]))
        with (tmp_path / f"{bank}_nodes.csv").open(newline="") as stream:
            truth = {row["account"]: row["fraud"] for row in csv.DictReader(stream)}
        assert {row["account"] for row in rows} == truth.keys()
        listed = [truth[row["account"]] for row in rows[:30]]
        assert listed.count("yes") >= 8, "of 3 % there would be one"
    assert (tmp_path / "west.csv").is_file()
    assert (tmp_path / "runs/fraud/export/MODEL_CARD.md").is_file()


def test_files_beside_the_equations_exist() -> None:
    text = (TUTORIAL.parents[1] / "equations.md").read_text()
    root = TUTORIAL.parents[2]
    found = re.findall(r"`([a-z_/]+\.py)`", text)
    assert len(found) > 40
    for name in found:
        folder = "tests" if Path(name).name.startswith("test_") else "src/autofgl"
        assert (root / folder / name).is_file(), name


def test_every_command_of_the_pages_is_known() -> None:
    """What a reader is told to type exists."""
    known = {
        "auto",
        "run",
        "report",
        "watch",
        "compare",
        "reproduce",
        "predict",
        "diagnose",
        "methods",
        "audit",
    }
    known |= {"datasets", "site", "import", "export", "leaderboard", "match"}
    for path in (*TUTORIAL.parents[1].rglob("*.md"), TUTORIAL.parents[2] / "README.md"):
        for word in re.findall(r"`autofgl ([a-z]+)", path.read_text()):
            assert word in known, (path, word)
