"""Whole runs through the Python interface."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import autofgl
from autofgl.errors import Interrupted, UserError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.graphs.client_graph import ClientGraph

CONTRACT = {
    "method", "dataset", "clients", "partition", "secure", "seed", "test_accuracy", "val_accuracy",
    "per_client", "parameters", "inference_s", "wall_s", "bytes_up", "bytes_down", "rounds",
    "architecture", "hyperparameters", "versions",
}  # fmt: skip
ROW = {
    "round", "wall_s", "bytes_up", "bytes_down", "train_loss", "val_accuracy", "test_accuracy",
}  # fmt: skip
TIMES = {"wall_s", "inference_s"}


def test_a_run_leaves_what_the_contract_names(small_clients: list[ClientGraph], out: Path) -> None:
    result = autofgl.run("fedavg", small_clients, seed=4, out=out, rounds=6, local_epochs=1)
    figures = json.loads((out / "result.json").read_text())
    assert set(figures) >= CONTRACT
    assert figures == result.figures
    assert 0 <= figures["test_accuracy"] <= 1
    assert figures["rounds"] == 6
    assert figures["bytes_up"] > figures["parameters"] * 4 * 3 * 6
    assert len(result.history) == 6
    assert all(set(row) >= ROW for row in result.history)
    names = {path.name for path in out.iterdir()}
    assert {"config.yaml", "history.jsonl", "model.json", "model.safetensors"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert not any(name.endswith(".tmp") for name in names)


def test_the_model_reloads_as_a_plain_module(
    small_graph: ClientGraph, small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run(
        "fedavg", small_clients, out=out, rounds=30, aggregate="gradients", normalize_features=False
    )
    data = small_graph.to_pyg()
    logits = result.model(data.x, data.edge_index)
    assert logits.shape == (small_graph.num_nodes, small_graph.classes)
    assert not result.model.training
    predictions = autofgl.predict(out, small_graph)
    assert np.array_equal(predictions.label, logits.argmax(1).numpy())
    assert predictions.accuracy is not None
    assert predictions.accuracy > 0.7


def test_separate_clients_keep_their_own_models(
    small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run("separate", small_clients, out=out, rounds=3)
    with pytest.raises(UserError, match="client-0, client-1, client-2"):
        _ = result.model
    first, second = (autofgl.load_model(out, f"client-{index}") for index in (0, 1))
    weights = zip(first.parameters(), second.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in weights)
    own = autofgl.predict(out, small_clients[1], client="client-1")
    mask = small_clients[1].test_mask
    hits = own.label[mask] == small_clients[1].y[mask]
    assert hits.mean() == pytest.approx(result.figures["per_client"][1]["test_accuracy"])


@pytest.mark.parametrize("aggregate", ["parameters", "gradients"])
def test_the_same_seed_gives_the_same_run(
    small_clients: list[ClientGraph], tmp_path: Path, aggregate: str
) -> None:
    results = [
        autofgl.run("fedavg", small_clients, seed=7, out=tmp_path / name, rounds=6,
                    aggregate=aggregate)
        for name in ("a", "b")
    ]  # fmt: skip
    ours, theirs = ({k: v for k, v in r.figures.items() if k not in TIMES} for r in results)
    assert ours == theirs
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]
    other = autofgl.run("fedavg", small_clients, seed=8, out=tmp_path / "c", rounds=6)
    assert (other.folder / "model.safetensors").read_bytes() != files[0]


def test_a_time_budget_ends_the_run_with_a_result(
    small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run("fedavg", small_clients, out=out, rounds=10**6, budget="0.5s")
    assert result.figures["stopped_by"] == "budget"
    assert 0 < result.figures["rounds"] < 10**6
    assert result.figures["wall_s"] < 10


def test_a_budget_of_computing_ends_the_run_too(
    small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run("fedavg", small_clients, out=out, rounds=10**6, budget="0.5s cpu")
    assert result.figures["stopped_by"] == "budget"


def test_no_rounds_at_all_still_give_a_result(small_clients: list[ClientGraph], out: Path) -> None:
    result = autofgl.run("fedavg", small_clients, out=out, rounds=0)
    assert result.figures["rounds"] == 0


def test_patience_is_named_as_the_reason(small_clients: list[ClientGraph], out: Path) -> None:
    result = autofgl.run("fedavg", small_clients, out=out, rounds=900, patience=2, lr=0.5)
    assert result.figures["stopped_by"] == "patience"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_request_saves_and_resumes_exactly(
    small_clients: list[ClientGraph], tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"rounds": 9, "aggregate": "gradients"}
    expected = autofgl.run("fedavg", small_clients, out=tmp_path / "whole", **settings)

    calls = []
    original = InProcess.call

    def interrupting(self: InProcess, op: str, *args: object, **kwargs: object) -> object:
        calls.append(op)
        if calls.count("round") == 4 and op == "round":
            os.kill(os.getpid(), number)
        return original(self, op, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(InProcess, "call", interrupting)
    with pytest.raises(Interrupted, match=r"after round 4.*--resume"):
        autofgl.run("fedavg", small_clients, out=tmp_path / "cut", **settings)
    monkeypatch.undo()
    assert not (tmp_path / "cut" / "result.json").exists()

    resumed = autofgl.resume(tmp_path / "cut", small_clients)
    ours, theirs = (
        {k: v for k, v in r.figures.items() if k not in TIMES} for r in (resumed, expected)
    )
    assert ours == theirs
    assert [row["round"] for row in resumed.history] == list(range(1, 10))
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert files[0] == files[1]
    assert autofgl.resume(tmp_path / "cut").figures == resumed.figures


def test_a_run_in_memory_cannot_be_resumed_without_its_graphs(
    small_clients: list[ClientGraph], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    autofgl.run("fedavg", small_clients, out=out, rounds=1)
    (out / "result.json").unlink()
    with pytest.raises(UserError, match="resume it from Python"):
        autofgl.resume(out)


def test_a_run_is_not_resumed_on_other_graphs(small_clients: list[ClientGraph], out: Path) -> None:
    autofgl.run("fedavg", small_clients, out=out, rounds=1)
    (out / "result.json").unlink()
    flipped = replace(small_clients[1], y=(small_clients[1].y + 1) % 3)
    with pytest.raises(UserError, match="the graphs of client-1 are not those"):
        autofgl.resume(out, [small_clients[0], flipped, small_clients[2]])


@pytest.mark.parametrize("damage", ["model.safetensors", "model.json"])
def test_damaged_models_are_named(small_clients: list[ClientGraph], out: Path, damage: str) -> None:
    autofgl.run("fedavg", small_clients, out=out, rounds=1)
    path = out / damage
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=damage):
        autofgl.load_model(out)


def test_a_graph_of_another_width_is_refused(small_clients: list[ClientGraph], out: Path) -> None:
    autofgl.run("fedavg", small_clients, out=out, rounds=1)
    other = autofgl.load("cora")
    with pytest.raises(UserError, match=r"1433 features per node, the model needs 36"):
        autofgl.predict(out, other)


def test_unknown_settings_name_their_neighbours(
    small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError, match="did you mean dropout"):
        autofgl.run("fedavg", small_clients, out=out, dropuot=0.1)
    with pytest.raises(UserError, match=r"setting lr=-1.*greater than 0"):
        autofgl.run("fedavg", small_clients, out=out, lr=-1)
    with pytest.raises(UserError, match=r"unknown model 'gnc': did you mean .*gcn"):
        autofgl.run("fedavg", small_clients, out=out, model="gnc")
    assert not out.exists()
