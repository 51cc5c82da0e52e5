"""Every method of the catalog takes directed edges, and weights or says that it cannot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS
from families import family

TINY: dict[str, dict[str, str | float]] = {
    "fl-agcns": {
        "generations": 1, "population": 4, "layers": 2, "warmup": 1, "weight_steps": 1,
        "trials": 2, "trial_rounds": 1, "finalists": 1,
    },
    "fl-random": {"candidates": 2, "candidate_rounds": 1, "layers": 2, "finalists": 1},
    "fl-rl": {"candidates": 2, "candidate_rounds": 1, "layers": 2, "finalists": 1},
    "fl-darts": {
        "generations": 1, "layers": 2, "weight_steps": 1, "hidden": 8,
        "trials": 2, "trial_rounds": 1, "tune": 1,
    },
    "sfgnn": {"collect_models": True},
    "asfgnn": {"trials": 1, "trial_rounds": 1, "startup": 1, "collect_models": True},
    "auto": {"recipes": 4, "trial_rounds": 1, "tune": 0, "trials": 0, "finalists": 1},
    "graphfl": {"inner_steps": 1, "adapt_steps": 1},
    "graphfl-ga": {"population": 2, "iterations": 1, "inner_steps": 1, "adapt_steps": 1},
}  # fmt: skip


#: Methods that take each way through the code; the others are left to `make test-all`.
FAST = {"fedavg", "fedgraph", "fl-agcns", "graphfl", "sfgnn", "auto", "separate"}


def one_way(graph: ClientGraph) -> ClientGraph:
    """The graph with every edge in one direction only."""
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    return replace(graph, edge_index=edges, directed=True)


def weighted(graph: ClientGraph) -> ClientGraph:
    """The graph with edges that weigh more, the more their ends are alike."""
    source, target = graph.edge_index
    same = graph.y[source] == graph.y[target]
    return replace(graph, edge_weight=np.where(same, 1.0, 0.1).astype(np.float32))


@pytest.mark.parametrize("method", family(METHODS, FAST))
def test_directed_edges(method: str, small_graph: ClientGraph, out: Path) -> None:
    clients = autofgl.partition(one_way(small_graph), clients=3)
    assert all(client.directed for client in clients)
    result = autofgl.run(method, clients, out=out, rounds=2, **TINY.get(method, {}))
    assert 0 <= result.test_accuracy <= 1


@pytest.mark.parametrize("method", family([name for name in METHODS if name != "fedgraph"], FAST))
def test_weighted_edges(method: str, small_graph: ClientGraph, tmp_path: Path) -> None:
    settings = {"rounds": 2, **TINY.get(method, {})}
    settings |= {"types": "gcn"} if method == "fl-darts" else {}
    models = []
    for name, graph in (("plain", small_graph), ("weighted", weighted(small_graph))):
        clients = autofgl.partition(graph, clients=3)
        result = autofgl.run(method, clients, out=tmp_path / name, **settings)
        models.append((result.folder / "model.safetensors").read_bytes())
    if method not in ("sfgnn", "asfgnn", "fl-agcns", "fl-random", "fl-rl"):
        assert models[0] != models[1]  # the others may well choose convolutions without weights


def test_a_convolution_across_clients_has_no_weights(small_graph: ClientGraph, out: Path) -> None:
    clients = autofgl.partition(weighted(small_graph), clients=3)
    with pytest.raises(UserError, match="client-0: edges have weights, and a convolution across"):
        autofgl.run("fedgraph", clients, out=out, rounds=2)
    assert not out.exists()
