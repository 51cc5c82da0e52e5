"""Tables in, predictions out, by the commands that a site types."""

import csv
from pathlib import Path

import numpy as np
import pytest

from autofgl.cli import main
from autofgl.graphs.files import load_graphs
from autofgl.graphs.origin import read_origin
from banks import BANKS, write_banks


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return int(stopped.value.code or 0)


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_tables_become_graphs_and_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_banks(tmp_path)
    pairs = {bank: [f"{bank}_nodes.csv", f"{bank}_edges.csv"] for bank in BANKS}
    assert run("import", *pairs["north"], "--label", "fraud", "--write-schema", "s.yaml") == 0
    for bank in BANKS[1:]:
        assert run("import", *pairs[bank], "--write-schema", "s.yaml") == 0
    for bank in BANKS:
        assert run("import", *pairs[bank], "--schema", "s.yaml") == 0
    files = [f"{bank}.npz" for bank in BANKS]
    assert len({client.num_features for client in load_graphs(files)}) == 1
    assert read_origin("north.npz").names[:2] == ("north-0000", "north-0001")

    assert run("run", "fedavg", "--graphs", *files, "--set", "rounds=30", "--out", "r") == 0
    assert Path("r/schema.yaml").read_text() == Path("s.yaml").read_text()
    assert run("predict", "r", "--graph", "north.npz", "--out", "graph.csv") == 0
    tables = ["--nodes", pairs["north"][0], "--edges", pairs["north"][1]]
    assert run("predict", "r", *tables, "--out", "tables.csv") == 0
    assert Path("graph.csv").read_text() == Path("tables.csv").read_text()
    rows = rows_of("tables.csv")
    assert list(rows[0]) == [
        "account", "prediction", "probability", "probability_no", "probability_yes"
    ]  # fmt: skip
    truth = {row["account"]: row["fraud"] for row in rows_of(pairs["north"][0])}
    assert [row["account"] for row in rows] == list(truth)
    assert np.mean([truth[row["account"]] == row["prediction"] for row in rows]) > 0.75
    assert run("predict", "r", "--graph", "north.npz", "--out", "graph.npz") == 0
    assert np.load("graph.npz")["node_name"][0] == "north-0000"
