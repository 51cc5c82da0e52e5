"""Federated averaging, against training by hand; lost clients, early ends, divergence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import FederationError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.runtime.federated_settings import FederatedSettings
from federations import close, die_in, local_model, make, parties, rounds

AGGREGATES = ["parameters", "gradients"]


def union(clients: list[ClientGraph]) -> ClientGraph:
    """The cut graphs side by side, without the edges between them."""
    offsets = np.cumsum([0] + [client.num_nodes for client in clients])
    edges = [c.edge_index + o for c, o in zip(clients, offsets[:-1], strict=True)]

    def joined(key: str) -> Any:
        return np.concatenate([getattr(client, key) for client in clients])

    return ClientGraph(
        name="client-0",
        x=np.concatenate([to_dense(client.x) for client in clients]),
        edge_index=np.concatenate(edges, axis=1),
        y=joined("y"),
        train_mask=joined("train_mask"),
        val_mask=joined("val_mask"),
        test_mask=joined("test_mask"),
        classes=clients[0].classes,
        node_id=joined("node_id"),
    )


def test_parameters_are_averaged_by_training_nodes(small_clients: list[ClientGraph]) -> None:
    """McMahan et al.: W = Σ n_i/n W_i, recomputed from the clients' own training."""
    method = make("fedavg", small_clients, aggregate="parameters", local_epochs=2)
    rounds(method, 1)
    settings = FederatedSettings(local_epochs=2)
    expected: dict[str, Any] = {}
    total = sum(client.train_mask.sum() for client in small_clients)
    for client in small_clients:
        local = local_model(client, settings)
        local.train(2, at=1)
        for name, value in local.weights().items():
            share = client.train_mask.sum() / total
            expected[name] = expected.get(name, 0) + share * value.astype(np.float64)
    assert close(method.training.sharing.handout()["weights"], expected, 1e-6)


def test_averaged_gradients_equal_training_on_the_union(small_clients: list[ClientGraph]) -> None:
    """FL-AGCNS, Eq. 2: the weighted gradients sum up to the gradient of the union of cut graphs."""
    federated = make("fedavg", small_clients, aggregate="gradients", dropout=0.0, rounds=10)
    pooled = make("centralized", [union(small_clients)], dropout=0.0, rounds=10)
    rounds(federated, 10)
    rounds(pooled, 10)
    ours, theirs = federated.finish().models["model"], pooled.finish().models["model"]
    assert close(ours, theirs, 1e-5)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_client_ends_with_the_same_weights(
    small_clients: list[ClientGraph], aggregate: str
) -> None:
    method = make("fedavg", small_clients, aggregate=aggregate, rounds=6)
    rounds(method, 6)
    outcome = method.finish()
    exports = [r["weights"] for r in method.federation.call("export").ok.values()]
    assert all(close(export, outcome.models["model"], 0) for export in exports)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_strict_and_direct_engines_agree_bit_for_bit(
    small_clients: list[ClientGraph], aggregate: str
) -> None:
    outcomes = []
    for strict in (True, False):
        method = make("fedavg", small_clients, aggregate=aggregate, rounds=8, strict=strict)
        rounds(method, 8)
        outcomes.append(method.finish().models["model"])
    assert close(*outcomes, 0)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_it_learns(small_graph: ClientGraph, aggregate: str) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    method = make("fedavg", clients, rounds=60, aggregate=aggregate)
    rows = rounds(method, 60)
    assert rows[-1]["train_loss"] < 0.5 * rows[0]["train_loss"]
    assert method.finish().test_accuracy > 0.7


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("select", ["accuracy", "loss"])
def test_the_best_rounds_weights_are_restored(
    small_clients: list[ClientGraph], aggregate: str, select: str
) -> None:
    method = make("fedavg", small_clients, aggregate=aggregate, rounds=30, lr=0.3, select=select)
    rows = rounds(method, 30)
    outcome = method.finish()
    best_round = outcome.extra["best_round"]
    if best_round < 30:
        assert rows[best_round]["val_loss"] == pytest.approx(outcome.extra["val_loss"], rel=1e-5)
    if select == "loss":
        assert outcome.extra["val_loss"] <= min(row["val_loss"] for row in rows) + 1e-6
    else:
        assert outcome.val_accuracy >= max(row["val_accuracy"] for row in rows)


def test_patience_ends_the_run(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, rounds=500, patience=3, lr=0.5)
    method.setup()
    while not method.done:
        method.step()
    assert method.round < 100


def test_partial_participation_is_seeded_and_counts(small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=10, method="random", seed=0)
    trained: list[list[str]] = [[], []]
    for run in (0, 1):

        def watch(way: str, party: str, op: str, payload: Payload, run: int = run) -> None:
            if way == "down" and op == "round" and payload["train"]:
                trained[run].append(party)

        method = make("fedavg", clients, participation=0.2, rounds=5, observer=watch)
        rows = rounds(method, 5)
        assert [row["clients"] for row in rows] == [2] * 5
    assert trained[0] == trained[1]
    assert len(set(trained[0])) > 2


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_lost_client_is_dropped_and_the_run_goes_on(
    small_clients: list[ClientGraph], aggregate: str
) -> None:
    method = make("fedavg", small_clients, aggregate=aggregate, rounds=6)
    die_in(parties(method)["client-1"], 3)
    rows = rounds(method, 6)
    assert rows[2]["failed"] == ["client-1"]
    assert "failed" not in rows[3]
    assert [row["clients"] for row in rows] == [3, 3, 2, 2, 2, 2]
    assert [row["name"] for row in method.finish().per_client] == ["client-0", "client-2"]


def test_too_few_clients_end_the_run(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, min_clients=3, rounds=6)
    die_in(parties(method)["client-1"], 3)
    with pytest.raises(FederationError, match="needs 3 parties, 2 answered"):
        rounds(method, 6)


def test_a_diverging_client_is_named(small_clients: list[ClientGraph]) -> None:
    broken = replace(small_clients[0], x=np.full(small_clients[0].x.shape, np.nan, "f4"))
    method = make("fedavg", [broken, *small_clients[1:]], rounds=3, on_bad_client="end")
    with pytest.raises(FederationError, match=r"client-0.*no longer finite.*lower 'lr'"):
        rounds(method, 3)
    method = make("fedavg", [broken, *small_clients[1:]], rounds=3)
    rounds(method, 3)
    assert "lower 'lr'" in method.clients.dropped["client-0"]
