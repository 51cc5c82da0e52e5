"""Pooled, alone and federated: where they have to agree."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.nn.models.networks import build_network
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.specs import model_spec
from autofgl.seeding import torch_generator
from federations import close, empty_client, leaves, make, rounds, without

AGGREGATES = ["parameters", "gradients"]


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_one_client_equals_centralized(
    small_graph: ClientGraph, aggregate: str, model: str
) -> None:
    whole = [replace(small_graph, name="client-0")]
    alone = make("fedavg", whole, aggregate=aggregate, rounds=12, model=model, local_epochs=1)
    central = make("centralized", whole, rounds=12, model=model)
    rounds(alone, 12)
    rounds(central, 12)
    ours, theirs = alone.finish(), central.finish()
    assert close(ours.models["model"], theirs.models["model"], 1e-6)
    assert ours.test_accuracy == theirs.test_accuracy


def test_centralized_equals_a_loop_in_plain_torch(small_graph: ClientGraph) -> None:
    settings = FederatedSettings(dropout=0.0)
    method = make("centralized", [small_graph], dropout=0.0, rounds=5, select="last")
    rounds(method, 5)
    model = build_network(model_spec(small_graph, settings), torch_generator(0, "weights"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    x = torch.from_numpy(to_dense(small_graph.x))
    x = F.normalize(x)
    train = torch.from_numpy(small_graph.train_mask)
    for _ in range(5):
        optimizer.zero_grad()
        logits = model(x, torch.from_numpy(small_graph.edge_index))
        F.cross_entropy(logits[train], torch.from_numpy(small_graph.y)[train]).backward()
        optimizer.step()
    expected = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    assert close(method.finish().models["model"], expected, 1e-5)


@pytest.mark.parametrize("name", ["fedavg", "separate"])
def test_clients_that_are_empty_or_have_no_labels_weigh_nothing(
    small_clients: list[ClientGraph], name: str
) -> None:
    unlabeled = without(small_clients[1], "train_mask", "val_mask", "test_mask")
    clients = [small_clients[0], unlabeled, empty_client(small_clients[2], "client-2")]
    settings = {"aggregate": "parameters", "local_epochs": 1} if name == "fedavg" else {}
    method = make(name, clients, rounds=5, **settings)
    rows = rounds(method, 5)
    assert all(np.isfinite(row["train_loss"]) for row in rows)
    outcome = method.finish()
    assert [row["train"] for row in outcome.per_client][1:] == [0, 0]
    alone = make("centralized", [small_clients[0]], rounds=5)
    rounds(alone, 5)
    reference = alone.finish()
    assert outcome.test_accuracy == reference.test_accuracy
    if name == "fedavg":
        assert close(outcome.models["model"], reference.models["model"], 1e-6)


@pytest.mark.parametrize("name", ["fedavg", "separate"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_features_labels_and_edges_never_travel(
    small_clients: list[ClientGraph], name: str, aggregate: str
) -> None:
    seen: set[int] = set()
    private = [client.num_nodes for client in small_clients]
    private += [client.num_edges for client in small_clients]
    private += [client.x.nnz for client in small_clients if hasattr(client.x, "nnz")]

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        for value in leaves(payload):
            if isinstance(value, np.ndarray):
                seen.update(value.shape)
            assert not isinstance(value, bytes) or not value

    settings = {"aggregate": aggregate} if name == "fedavg" else {}
    method = make(name, small_clients, rounds=3, observer=watch, **settings)
    rounds(method, 3)
    method.finish()
    assert seen, "the observer saw nothing"
    assert not seen & set(private), "an array as long as a client's nodes or edges"
