"""From the command line to a table, JSON, ``audit.json`` and the report."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl import api
from autofgl.audit.transcript import record, shortened
from autofgl.audit.verdict import Audit, Leak, graded
from autofgl.cli import main
from autofgl.config import check_config
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS, find_method
from autofgl.report.report import write_report
from families import family

GRAPH = ["--dataset", "synthetic", "--set", "nodes=120", "classes=3", "features=36", "hidden=8"]


def call(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(words)
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_a_method_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(["audit", "fedavg", *GRAPH, "--rounds", "2", "--json"], capsys)
    assert code == 0
    found = json.loads(out)
    assert found["rounds"] == 2
    assert {leak["who"] for leak in found["leaks"]} == {
        "honest server", "active server", "curious peer",
    }  # fmt: skip
    assert "recording" in err


def test_a_folder_keeps_its_audit_and_its_report_shows_it(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "fedavg", *GRAPH, "rounds=3", "--secure", "shares", "--out", str(out)]
    assert call(run, capsys)[0] == 0
    assert "No attacks were run on it" in (out / "report.html").read_text()
    before = (out / "result.json").read_bytes()
    code, text, _ = call(["audit", str(out), "--rounds", "2"], capsys)
    assert code == 0
    assert "curious peer" in text
    kept = json.loads((out / "audit.json").read_text())
    assert kept["secure"] == "shares"
    assert (out / "result.json").read_bytes() == before
    page = write_report(out).read_text()
    assert "What attacks got" in page
    assert "own part subtracted" in page


def test_a_damaged_audit_costs_no_report(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["run", "fedavg", *GRAPH, "rounds=1", "--out", str(out)], capsys)[0] == 0
    for text in ("{", "[]", '{"leaks": [1]}', '{"leaks": [{"figure": "x", "who": null}]}'):
        (out / "audit.json").write_text(text)
        assert "could not be shown" not in write_report(out).read_text()


def test_graphs_in_memory_are_given_again(small_clients: list[ClientGraph], out: Path) -> None:
    autofgl.run("fedavg", small_clients, out=out, rounds=2, hidden=8)
    lines: list[str] = []
    found = api.audit_folder(out, small_clients, rounds=2, report=lines.append)
    assert found.clients == 3
    assert lines
    assert (out / "audit.json").exists()


@pytest.mark.parametrize(
    ("method", "secure"),
    family(
        itertools.product(METHODS, ("none", "shares")),
        [
            *((method, "none") for method in METHODS),
            *((method, "shares") for method in ("fedavg", "fedgraph", "graphfl", "sfgnn")),
        ],
    ),
)
def test_every_method_can_be_recorded(
    method: str, secure: str, small_clients: list[ClientGraph]
) -> None:
    if secure != "none" and not METHODS[method].sums_securely:
        pytest.skip("it sums nothing")
    kind = find_method(method)
    settings = shortened(kind.Settings(hidden=8), 2)
    transcript = record(kind, small_clients, settings, 0, secure)
    assert transcript.outcome is not None
    assert transcript.messages
    for seen in transcript.sums:  # what the server read is what the clients put in
        for key, value in (seen.vectors or {}).items():
            parts = [transcript.contributed[name][seen.tag][key] for name in seen.contributors]
            assert abs(value - sum(parts)).max() < 1e-4


def test_the_attacker_changes_nothing(small_clients: list[ClientGraph], out: Path) -> None:
    """A recorded run ends with the very weights of a run that nobody watched."""
    config = check_config({"method": "fedavg", "clients": 3, "settings": {"rounds": 3}})
    kind = find_method("fedavg")
    watched = record(kind, small_clients, kind.Settings(rounds=3), config.seed, "none")
    assert watched.outcome is not None
    plain: Any = autofgl.run("fedavg", small_clients, rounds=3, out=out)
    assert watched.outcome.test_accuracy == plain.test_accuracy
    assert watched.outcome.extra["val_loss"] == plain.figures["val_loss"]


@pytest.mark.parametrize(
    ("figure", "verdict"), [(0.5, "nothing"), (0.52, "nothing"), (0.7, "partly"), (1, "everything")]
)
def test_verdicts(figure: float, verdict: str) -> None:
    assert graded(figure, 0.5, 1.0) == verdict


def test_an_audit_as_json() -> None:
    leak = Leak("curious peer", "membership by loss", "partly", "some", "AUC", 0.7, 0.5)
    found = Audit("fedavg", "none", 3, 2, 200, (leak,)).to_json()
    assert found["leaks"][0]["figure"] == 0.7
    assert found["summary"].endswith("attacks on 2 rounds of 200 planned")
    assert leak.cells[-2:] == ("AUC 0.7", "0.5")
