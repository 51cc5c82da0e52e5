"""The test phase at the server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.api import load_clients, start_run
from autofgl.config import check_config, sort_settings
from autofgl.errors import UserError
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import labels_of, withhold
from autofgl.methods.graphfl.settings import GraphFLSettings
from autofgl.nn.models.networks import build_network
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.specs import model_spec
from autofgl.seeding import torch_generator
from autofgl.sharing.meta.model import MetaModel
from autofgl.sharing.meta.server_test import few_labels, server_test

QUICK: dict[str, Any] = {"rounds": 2, "inner_steps": 1, "adapt_steps": 3}


def test_few_labels_are_adapted_to_and_the_rest_is_tested(small_graph: ClientGraph) -> None:
    settings = GraphFLSettings(test_phase="server", server_share=0.5, server_labels=3, **QUICK)
    spec = model_spec(small_graph, settings)
    network = build_network(spec, torch_generator(0, "w"))
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    found = server_test(small_graph, spec, weights, settings, 0)
    few = few_labels(small_graph, 3, 0)
    assert np.bincount(small_graph.y[few]).tolist() == [3] * small_graph.classes
    assert (found.adapted_to, found.nodes) == (few.sum(), (~few).sum())
    graph = replace(small_graph, name="server").with_masks(few, np.zeros_like(few), ~few)
    model = MetaModel("server", Inputs.of(graph, False), spec, settings, 0, weights)
    assert found.test_accuracy == Metrics.of(model.evaluate_adapted()).test_accuracy
    assert found.unadapted_test_accuracy == Metrics.of(model.evaluate()).test_accuracy
    with pytest.raises(UserError, match="too few to adapt to server_labels=999 of each class"):
        server_test(
            small_graph, spec, weights, settings.model_copy(update={"server_labels": 999}), 0
        )


@pytest.mark.parametrize("method", ["graphfl", "graphfl-ga"])
def test_both_test_phases_under_their_names(method: str, out: Path) -> None:
    settings = {**QUICK, "nodes": 200, "features": 40, "classes": 3, "server_share": 0.2}
    settings |= {"population": 2, "iterations": 1} if method == "graphfl-ga" else {}

    def figures(phase: str) -> dict[str, Any]:
        about = {"settings": {**settings, "test_phase": phase}, "partition": "random"}
        config = check_config({"method": method, "dataset": "synthetic", **about})
        clients = load_clients(config, sort_settings(config))
        return dict(start_run(config, clients, out / phase, None).figures)

    both, alone = figures("both"), figures("server")
    assert both["test_accuracy"] == both["clients_test_accuracy"]
    assert both["server_test"]["test_accuracy"] == both["server_test_accuracy"]
    assert both["server_test"]["adapted_to"] == 15
    assert alone["test_accuracy"] == both["server_test_accuracy"]
    assert alone["clients_test_accuracy"] == both["test_accuracy"]
    assert "server test accuracy" in (out / "both" / "report.html").read_text()


def test_who_tests_needs_nodes() -> None:
    with pytest.raises(UserError, match="test_phase=both needs nodes that the server has"):
        GraphFLSettings(test_phase="both")
    with pytest.raises(UserError, match="are for test_phase=server or both"):
        GraphFLSettings(server_share=0.1)


def test_labels_are_divided_where_the_graph_is_whole(small_graph: ClientGraph) -> None:
    rest, kept = withhold(small_graph, 0.2, np.random.default_rng(0), whole_graph=True)
    assert rest.num_nodes == kept.num_nodes == small_graph.num_nodes
    assert rest.num_edges == small_graph.num_edges
    assert ((rest.y >= 0) ^ (kept.y >= 0)).all()
    whole = PartitionSettings(whole_graph=True)
    clients = autofgl.partition(rest, 3, "random", 0, settings=whole)
    parts = autofgl.partition(rest, 3, "random", 0)
    labeled = np.stack([client.y >= 0 for client in clients])
    assert np.array_equal(labeled.sum(0), rest.y >= 0), "each label has one owner"
    for client, part in zip(clients, parts, strict=True):
        assert client.num_edges == small_graph.num_edges
        assert client.train_mask.sum() == part.train_mask.sum()
        assert np.array_equal(
            client.node_id[client.test_mask], np.sort(part.node_id[part.test_mask])
        )
        assert client.fingerprint() == labels_of(rest, part).fingerprint()
