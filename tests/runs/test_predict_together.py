"""Predictions of networks that were trained across clients."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import autofgl
from autofgl.cli import app
from autofgl.errors import GraphNotice, UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs.export import Predictions, predict_together

METHODS = {
    "fedavg": {"sharing": "across", "model": "appnp", "hidden": 8},
    "fedgraph": {"hidden": 8},
}


@pytest.fixture(scope="module")
def clients(small_graph: ClientGraph) -> list[ClientGraph]:
    return autofgl.partition(small_graph, clients=3, method="random", seed=0)


def accuracy(clients: list[ClientGraph], predictions: dict[str, Predictions]) -> float:
    hits = [
        predictions[graph.name].label[graph.test_mask] == graph.y[graph.test_mask]
        for graph in clients
    ]
    return float(np.concatenate(hits).mean())


@pytest.mark.parametrize("method", METHODS)
def test_together_they_are_those_of_the_run(
    method: str, clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run(method, clients, out=out, rounds=5, **METHODS[method])
    together = predict_together(out, clients)
    assert accuracy(clients, together) == pytest.approx(result.test_accuracy, abs=1e-9)


def test_a_client_alone_is_told_what_it_lacks(clients: list[ClientGraph], out: Path) -> None:
    autofgl.run("fedavg", clients, out=out, rounds=3, **METHODS["fedavg"])
    with pytest.warns(GraphNotice, match="client-1, client-2 are left out"):
        alone = autofgl.predict(out, clients[0])
    assert len(alone.label) == clients[0].num_nodes
    with pytest.raises(UserError, match="two graphs have the name client-0"):
        predict_together(out, [clients[0], clients[0]])


def test_on_the_command_line(
    clients: list[ClientGraph], out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    autofgl.run("fedavg", clients, out=out, rounds=3, **METHODS["fedavg"])
    files = autofgl.save_graphs(tmp_path / "graphs", clients)
    monkeypatch.chdir(tmp_path)
    words = ["predict", str(out), *(word for file in files for word in ("--graph", str(file)))]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert (tmp_path / "client-2.predictions.csv").is_file()
    done = CliRunner().invoke(app, [*words, "--out", "all.csv"])
    assert isinstance(done.exception, UserError)
