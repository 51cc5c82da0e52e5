"""Reports of whole runs, and of runs with all that can be odd about them."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "methods"))
from checker import Page, check_page
from test_resume import LEARNT, SMALL

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS
from autofgl.report.clients import rank_correlations
from autofgl.report.privacy import WHO_LEARNS_WHAT
from autofgl.report.record import RunRecord
from autofgl.report.report import render, write_report


def write_run(folder: Path, history: list[dict[str, Any]] | str = "", **result: Any) -> Path:
    """A run folder made by hand."""
    folder.mkdir()
    config = {"method": "fedavg", "dataset": "cora", "clients": 3, "secure": "none", "seed": 0}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    lines = history if isinstance(history, str) else "\n".join(map(json.dumps, history))
    (folder / "history.jsonl").write_text(lines)
    if result:
        (folder / "result.json").write_text(json.dumps(result))
    return folder


def small_settings(method: str) -> dict[str, Any]:
    """Settings with which a method is done in a moment."""
    own = {**LEARNT, "episode_rounds": 2} if method == "fedgraph" else SMALL.get(method, {})
    return {"rounds": 3, **own}


def page_of(folder: Path) -> Page:
    return check_page(write_report(folder).read_text())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_report(
    method: str, small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run(method, small_clients, out=out, **small_settings(method))
    text = (out / "report.html").read_text()
    page = check_page(text)
    assert f"{100 * result.test_accuracy:.1f}".removesuffix(".0") in page.text
    assert "Configuration" in page.text
    assert "Who learnt what" in page.text
    assert len(text) < 400_000
    if method.startswith("fl-"):
        assert result.figures["architecture"] in page.text
        assert {"search", "found-architecture"} <= set(page.ids)
    if method == "fl-agcns":
        assert "Share of each operation" in page.text
    if method in ("sfgnn", "asfgnn"):
        assert any(label.startswith("The network of client-0") for label in page.labels)
    if method == "fedgraph":
        assert "Probability that a neighbour is kept" in page.text
    assert (out / "architecture.svg").read_text().startswith("<?xml")


def test_a_report_that_fails_does_not_fail_the_run(
    small_clients: list[ClientGraph], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> Path:
        raise OSError(f"no space left for {folder}")

    monkeypatch.setattr("autofgl.report.report.write_report", broken)
    said = io.StringIO()
    result = autofgl.run("fedavg", small_clients, out=out, rounds=2, console=Console(file=said))
    assert result.figures["rounds"] == 2
    assert "no report was written: no space left" in said.getvalue()
    assert not (out / "report.html").exists()


def test_every_method_says_who_learns_what() -> None:
    assert set(METHODS) <= set(WHO_LEARNS_WHAT)


def test_a_run_without_rounds(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run"))
    assert "not finished" in page.text
    assert "curves" not in page.ids


def test_rows_that_lack_keys_and_are_cut_short(tmp_path: Path) -> None:
    rows = [{"round": 1, "val_accuracy": 0.5}, {"round": 2}, {"wall_s": 1.0}, {"round": "x"}]
    text = "\n".join(map(json.dumps, rows)) + '\n{"round": 3, "val_acc'
    page = page_of(write_run(tmp_path / "run", text))
    assert any("validation 50 %" in label for label in page.labels)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    text = (
        '{"round": 1, "train_loss": NaN, "val_accuracy": null, "bytes_up": 5}\n'
        '{"round": 2, "train_loss": Infinity, "val_accuracy": 0.25, "operations": {"gcn": null}}\n'
        '{"round": 3, "train_loss": 1.5, "val_accuracy": "?", "operations": {}, "policies": []}\n'
    )
    page = page_of(write_run(tmp_path / "run", text, test_accuracy=None, per_client="?"))
    assert "nan" not in page.text.lower().split()
    assert any(label.startswith("Loss over round: training 1.5") for label in page.labels)


@pytest.mark.parametrize("count", [1, 50])
def test_any_number_of_clients(count: int, tmp_path: Path) -> None:
    clients = [
        {"name": f"client-{at}", "nodes": 10 + at, "test_accuracy": at / count, "labels": [at, 1]}
        for at in range(count)
    ]
    rows = [
        {"round": at, "client_accuracy": {row["name"]: row["test_accuracy"] for row in clients}}
        for at in (1, 2)
    ]
    run = write_run(tmp_path / "run", rows, per_client=clients, test_accuracy=0.5)
    page = page_of(run)
    assert f"client-{count - 1}" in page.words
    assert "Client accuracy of the clients" in page.text
    assert ("All 50 clients" in page.text) == (count == 50)


def test_what_a_user_wrote_is_escaped(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    run = write_run(
        tmp_path / "run",
        [{"round": 1, "phase": bad, bad: 1.0}, {"round": 2, "phase": "b", bad: 2.0}],
        per_client=[{"name": bad, "nodes": 3}],
        architecture=bad,
        note={bad: bad},
        traffic={bad: {"bytes_up": 5}},
        importance={bad: 0.5},
        top=[{bad: 1.0, "genotype": bad}],
    )
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "dataset": bad}))
    text = write_report(run).read_text()
    assert "script" not in check_page(text).tags
    assert text.count(bad) == 0


def test_one_odd_part_does_not_cost_the_others(tmp_path: Path) -> None:
    rows = [
        {"round": 1, "val_accuracy": 0.5, "policies": {"a": [1, 0.5]}, "operations": {"g": "x"}}
    ]
    run = RunRecord.read(write_run(tmp_path / "run", [*rows, {**rows[0], "round": 2}]))
    text = render(run)
    assert "This part could not be shown: ValueError" in text
    assert "Configuration" in text


def test_what_a_hyper_parameter_has_to_do_with_the_score(tmp_path: Path) -> None:
    # lr rises with the score throughout, layers fall but for one swap, hidden never varies
    trials = [(0.01, 5, 0.2), (0.02, 3, 0.3), (0.03, 4, 0.4), (0.04, 2, 0.5), (0.05, 1, 0.6)]
    rows = [
        {"round": at, "trial": at, "score": score, "best_score": score,
         "hyper": {"a": {"lr": lr, "layers": layers}, "hidden": 8}}
        for at, (lr, layers, score) in enumerate(trials, 1)
    ]  # fmt: skip
    found = rank_correlations(rows)
    assert found == pytest.approx({"a lr": 1.0, "a layers": -0.9})
    page = page_of(write_run(tmp_path / "run", rows))
    assert {"hyper-parameters", "search"} <= set(page.ids)
    assert rank_correlations(rows[:4]) == {}


def test_many_rounds_stay_small(tmp_path: Path) -> None:
    rows = [
        {"round": at, "wall_s": at / 7, "train_loss": 1 / at, "val_accuracy": at / 5000}
        for at in range(1, 5001)
    ]
    text = write_report(write_run(tmp_path / "run", rows)).read_text()
    check_page(text)
    assert len(text) < 150_000
