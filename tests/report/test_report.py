"""Reports of whole runs, and of runs with all that can be odd about them."""

import http.client
import io
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from checker import Page, check_page
from run_folders import page_of, small_settings, write_run

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS
from autofgl.report import report
from autofgl.report.record import RunRecord
from autofgl.report.report import LiveServer, render, write_report


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_report(
    method: str, small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run(method, small_clients, out=out, **small_settings(method))
    text = (out / "report.html").read_text()
    page = check_page(text)
    assert f"{100 * result.test_accuracy:.1f}".removesuffix(".0") in page.text
    assert "Configuration" in page.text
    assert "Who learns what" in page.text
    assert len(text) < 400_000
    if method.startswith("fl-"):
        assert result.figures["architecture"] in page.text
        assert "search" in page.ids
        searched = "|" in result.figures["architecture"]  # and not a well-known network
        assert ("best-architecture" in page.ids) == searched
    if method == "fl-agcns":
        assert "Share of each operation" in page.text
    if method in ("sfgnn", "asfgnn"):
        assert any(label.startswith("The network of client-0") for label in page.labels)
    if method == "fedgraph":
        assert "Probability that a neighbor is kept" in page.text
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
    assert "This section could not be shown: ValueError" in text
    assert "Configuration" in text


def test_many_rounds_stay_small(tmp_path: Path) -> None:
    rows = [
        {"round": at, "wall_s": at / 7, "train_loss": 1 / at, "val_accuracy": at / 5000}
        for at in range(1, 5001)
    ]
    text = write_report(write_run(tmp_path / "run", rows)).read_text()
    check_page(text)
    assert len(text) < 150_000


# The live view: what is served, when it is refreshed, and to whom.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump({"method": "fedavg", "dataset": "cora"}))
    return run


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    monkeypatch.setattr(report, "_LOOK", 0.02)
    with LiveServer(folder) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def ask(server: LiveServer, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    response = answer.status, answer.read().decode()
    connection.close()
    return response


def test_the_page_may_run_its_own_script_only(server: LiveServer) -> None:
    status, text = ask(server, "/")
    assert status == 200
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "script-src &#x27;sha256-" in text
    assert "connect-src &#x27;self&#x27;" in text
    assert "Running: 0 rounds" in page.text
    status, part = ask(server, "/content")
    assert status == 200
    assert "<script" not in part
    assert ask(server, "/../config.yaml")[0] == 404


def test_others_names_for_this_machine_are_refused(server: LiveServer) -> None:
    assert ask(server, "/", Host="evil.example:80")[0] == 403
    assert ask(server, "/", Host="localhost:1")[0] == 200
    assert server.server_address[0] == "127.0.0.1"


def test_a_new_round_is_announced(server: LiveServer, folder: Path) -> None:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    assert answer.readline() == b"event: update\n"
    assert b"0 rounds" in answer.readline()
    (folder / "history.jsonl").write_text(json.dumps({"round": 1, "val_accuracy": 0.5}) + "\n")
    assert answer.readline() == b"\n"
    assert answer.readline() == b"event: update\n"
    assert b"1 rounds" in answer.readline()
    assert "Accuracy over round" in ask(server, "/content")[1]
    (folder / "result.json").write_text(json.dumps({"test_accuracy": 0.5}))
    assert [answer.readline() for _ in range(3)][2] == b"data: Finished.\n"
    connection.close()


def test_what_cannot_be_watched(tmp_path: Path, folder: Path, server: LiveServer) -> None:
    with pytest.raises(UserError, match="holds no run"):
        LiveServer(tmp_path / "nothing")
    with pytest.raises(UserError, match="cannot listen at"):
        LiveServer(folder, port=server.server_address[1])
