import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console

import autofgl
from autofgl.cli import app, expand_lists, main
from autofgl.errors import AutoFGLError, FederationError, GraphError, Interrupted, UserError
from autofgl.experiments.papers import FIGURES
from autofgl.experiments.plan import Options
from autofgl.federation.engines.inprocess import InProcess
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS, settings_of
from autofgl.methods.privacy import WHO_LEARNS_WHAT
from autofgl.runs.folder import read_history


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    code = stopped.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["run", "fedavg"], ["run", "fedavg"]),
        (["--set", "a=1", "b=2", "--seed", "3"], ["--set", "a=1", "--set", "b=2", "--seed", "3"]),
        (
            ["--graphs", "a", "b", "--set", "c=1"],
            ["--graphs", "a", "--graphs", "b", "--set", "c=1"],
        ),
        (["--set", "a=1", "--set", "b=2"], ["--set", "a=1", "--set", "b=2"]),
    ],
)
def test_lists_after_one_option(given: list[str], expected: list[str]) -> None:
    assert expand_lists(given) == expected


def test_run_on_the_embedded_graph(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--clients", "2", "--partition", "random", "--set", "rounds=3", "hidden=8"]
    assert call("run", "fedavg", "--dataset", "cora", "--out", str(out), *words) == 0
    shown = capsys.readouterr().out
    assert "test accuracy" in shown
    assert str(out) in shown.replace("\n", "")
    assert f"report: {out / 'report.html'}" in shown
    figures = json.loads((out / "result.json").read_text())
    assert (figures["dataset"], figures["clients"], figures["partition"]) == ("cora", 2, "random")
    assert figures["hyperparameters"]["hidden"] == 8


def test_a_report_of_an_old_run_and_a_run_from_its_configuration(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dataset", "synthetic", "--set", "nodes=150", "rounds=2", "hidden=8"]
    assert call("run", "fedavg", *words, "--out", str(out)) == 0
    (out / "report.html").unlink()
    assert call("report", str(out)) == 0
    assert "fedavg on synthetic" in (out / "report.html").read_text()
    again = tmp_path / "again"
    assert call("run", "--config", str(out / "config.yaml"), "--out", str(again)) == 0
    first, second = (json.loads((path / "result.json").read_text()) for path in (out, again))
    assert first["test_accuracy"] == second["test_accuracy"]
    assert call("report", str(tmp_path)) == 2
    assert "holds no run" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["separate", "centralized"])
def test_other_methods_on_a_synthetic_graph(method: str, out: Path) -> None:
    words = ["--dataset", "synthetic", "--set", "nodes=150", "rounds=2", "--out", str(out)]
    assert call("run", method, *words) == 0
    assert json.loads((out / "result.json").read_text())["rounds"] == 2


def test_a_search_is_diagnosed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dataset", "synthetic", "--out", str(out), "--set", "nodes=150", "generations=2"]
    words += ["population=4", "layers=2", "weight_steps=1", "trials=0", "finalists=1", "rounds=2"]
    assert call("run", "fl-agcns", *words) == 0
    assert call("diagnose", str(out), "--networks", "3", "--rounds", "2") == 0
    shown = capsys.readouterr().out
    assert shown.count("shared") == 3
    assert "rank correlation over 3 networks" in shown
    assert call("diagnose", str(out), "--networks", "2") == 2


def test_own_graph_files_and_predictions(
    small_clients: list[ClientGraph], tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [str(path) for path in autofgl.save_graphs(tmp_path / "graphs", small_clients)]
    assert call("run", "fedavg", "--graphs", *files, "--set", "rounds=3", "--out", str(out)) == 0
    assert call("predict", str(out), "--graph", files[0]) == 0
    lines = (tmp_path / "client-0.predictions.csv").read_text().splitlines()
    assert lines[0] == "node_id,prediction,probability"
    assert len(lines) == 1 + small_clients[0].num_nodes
    assert call("predict", str(out), "--graph", files[0], "--out", "p.npz") == 0
    with np.load("p.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["node_id"], small_clients[0].node_id)
        assert arrays["prediction"].tolist() == [int(line.split(",")[1]) for line in lines[1:]]


def test_a_secure_run_shows_no_table_of_clients(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dataset", "synthetic", "--set", "nodes=100", "rounds=1", "--out", str(out)]
    assert call("run", "fedavg", "--secure", "shares", *words) == 0
    shown = capsys.readouterr().out
    assert "test accuracy" in shown
    assert "client-0" not in shown
    assert "client  " not in shown


def test_one_graph_file_is_cut(small_graph: ClientGraph, tmp_path: Path, out: Path) -> None:
    autofgl.save_graph(tmp_path / "whole.npz", small_graph)
    words = ["--graphs", str(tmp_path / "whole.npz"), "--clients", "4", "--set", "rounds=1"]
    assert call("run", "fedavg", *words, "--out", str(out)) == 0
    assert json.loads((out / "result.json").read_text())["clients"] == 4


def test_a_configuration_file_and_the_command_line_that_wins(tmp_path: Path, out: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "method: fedavg\ndataset: synthetic\nseed: 5\n"
        "settings: {nodes: 100, rounds: 4, hidden: 8}\n"
    )
    assert call("run", "--config", str(file), "--set", "rounds=2", "--out", str(out)) == 0
    figures = json.loads((out / "result.json").read_text())
    assert (figures["seed"], figures["rounds"], figures["hyperparameters"]["hidden"]) == (5, 2, 8)
    again = out.with_name("again")
    assert call("run", "--config", str(out / "config.yaml"), "--out", str(again)) == 0
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_a_finished_run_is_shown_when_resumed(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dataset", "synthetic", "--set", "nodes=100", "rounds=2", "--out", str(out)]
    assert call("run", "fedavg", *words) == 0
    before = (out / "result.json").read_bytes()
    assert call("run", "--resume", str(out)) == 0
    assert "test accuracy" in capsys.readouterr().out
    assert (out / "result.json").read_bytes() == before


def test_lists_of_methods_and_datasets(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("methods") == 0
    assert call("methods", "fedavg") == 0
    assert call("datasets") == 0
    shown = capsys.readouterr().out
    for word in ("centralized", "separate", "participation", "planetoid:cora", "synthetic"):
        assert word in shown


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_listed_with_its_privacy(
    method: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autofgl.cli.show.console", lambda: Console(width=1000))
    assert call("methods") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.split()[0] == method)
    entry = METHODS[method]
    assert all(text in row for text in (entry.summary, entry.sharing, entry.search))
    assert call("methods", method) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, field in settings_of(method).model_fields.items():
        meaning = " ".join(field.description.split())
        assert any(line.split()[:1] == [name] and meaning in line for line in lines), name
    shown = "\n".join(lines)
    for party in WHO_LEARNS_WHAT[method]:
        assert all(text in shown for text in (party.who, party.always, party.none, party.secure))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "fl-agcns-tabel3"], "did you mean fl-agcns-table3"),
        (["reproduce", "fedgrap-fig7"], "did you mean fedgraph-fig7"),
        (["reproduce", "everything"], "fedgraph-fig12, fedgraph-fig6"),
        (["reproduce", "fedgraph-fig7", "--rows", "sgae"], "did you mean sage"),
        (["reproduce", "fedgraph-fig7", "--budget", "3m"], "--budget is for tables"),
        (
            ["reproduce", "fl-agcns-table3", "--rounds", "3"],
            "--episodes are for figures",
        ),
    ],
)
def test_mistakes_about_experiments_exit_with_2_and_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_an_output_folder_with_another_run_is_refused(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "fedavg", "--dataset", "synthetic", "--set", "nodes=100", "rounds=1"]
    assert call(*words, "--out", str(out)) == 0
    before = (out / "result.json").read_bytes()
    assert call(*words, "--out", str(out)) == 2
    assert "holds another run" in capsys.readouterr().err
    assert (out / "result.json").read_bytes() == before


def test_a_resumed_run_keeps_its_configuration(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "fedavg", "--dataset", "synthetic", "--set", "nodes=100", "rounds=1"]
    assert call(*words, "--out", str(out)) == 0
    assert call("run", "separate", "--resume", str(out)) == 2
    assert "keeps its configuration" in capsys.readouterr().err


def commands() -> list[list[str]]:
    """Every command and group, as words."""
    root: Any = typer.main.get_command(app)
    site = root.commands["site"]
    return [[], *([name] for name in root.commands), *(["site", name] for name in site.commands)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_help_shows_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*words, "--help") == 0
    assert f"Example: autofgl {' '.join(words)}" in " ".join(capsys.readouterr().out.split())


def test_help_uses_the_words_of_the_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "--help") == 0
    assert "Random seed." in capsys.readouterr().out


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert "datasets" in capsys.readouterr().out


def test_a_run_whose_folder_is_deleted_ends_with_one_line(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = InProcess.call

    def deleting(self: InProcess, op: str, *args: Any, **kwargs: Any) -> Any:
        if op == "round" and len(read_history(out / "history.jsonl")) == 2:
            shutil.rmtree(out)
        return original(self, op, *args, **kwargs)

    monkeypatch.setattr(InProcess, "call", deleting)
    words = ["--dataset", "synthetic", "--set", "nodes=100", "rounds=9", "--out", str(out)]
    assert call("run", "fedavg", *words) == 1
    error = capsys.readouterr().err
    assert error.strip().splitlines() == [
        f"autofgl: {out} was deleted or moved during its run: the run has ended, start it again"
    ]
    assert not out.exists(), "nothing is written after it"


@pytest.mark.parametrize(
    ("error", "code"),
    [(UserError("x"), 2), (GraphError("x"), 2), (Interrupted("x"), 130), (FederationError("x"), 1)],
)
def test_errors_know_their_exit_code(
    error: AutoFGLError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr("autofgl.runs.folder.RunFolder.open", failing)
    assert call("run", "--resume", "anything") == code
    assert capsys.readouterr().err == "autofgl: x\n"


def test_reproduce_lists_figures_and_hands_its_words_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        "autofgl.experiments.runner.run_experiment",
        lambda pages, console: asked.append((pages.experiment, pages.options)),
    )
    assert call("reproduce") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in FIGURES)
    words = ["--datasets", "cora", "--rows", "ddpg", "full", "--seeds", "2", "--rounds", "300"]
    more = ["--secure", "shares", "--data-root", "raw", "--out", "here"]
    assert call("reproduce", "fedgraph-fig7", *words, *more) == 0
    assert call("reproduce", "fedgraph-fig9") == 0
    chosen = Options(
        Path("here"), ("cora",), ("ddpg", "full"), 2, secure="shares", data_root="raw", rounds=300
    )
    assert asked == [
        (FIGURES["fedgraph-fig7"], chosen),
        (FIGURES["fedgraph-fig9"], Options(Path("runs/fedgraph-fig9"))),
    ]
