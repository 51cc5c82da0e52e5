import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
from federations import make, rounds

import autofgl
from autofgl.errors import FederationError
from autofgl.federation.party import Party
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import Boundary, ClientGraph, to_dense
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Weights
from autofgl.methods.settings import FederatedSettings, model_spec
from autofgl.nn.models import build
from autofgl.seeding import torch_generator

AGGREGATES = ["parameters", "gradients"]


def close(a: Weights, b: Weights, tolerance: float) -> bool:
    return all(np.allclose(a[name], b[name], rtol=0, atol=tolerance) for name in a)


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
        local = LocalModel(client, model_spec(client, settings), settings, seed=0)
        local.train(2, at=1)
        for name, value in local.weights().items():
            share = client.train_mask.sum() / total
            expected[name] = expected.get(name, 0) + share * value.astype(np.float64)
    assert close(method.state()["news"]["weights"], expected, 1e-6)


def test_averaged_gradients_equal_training_on_the_union(small_clients: list[ClientGraph]) -> None:
    """FL-AGCNS, Eq. 2: the weighted gradients sum up to the gradient of the union of cut graphs."""
    federated = make("fedavg", small_clients, aggregate="gradients", dropout=0.0, rounds=10)
    pooled = make("centralized", [union(small_clients)], dropout=0.0, rounds=10)
    rounds(federated, 10)
    rounds(pooled, 10)
    ours, theirs = federated.finish().models["model"], pooled.finish().models["model"]
    assert close(ours, theirs, 1e-5)


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
    model = build(model_spec(small_graph, settings), torch_generator(0, "weights"))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    x = torch.from_numpy(to_dense(small_graph.x))
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    train = torch.from_numpy(small_graph.train_mask)
    for _ in range(5):
        optimiser.zero_grad()
        logits = model(x, torch.from_numpy(small_graph.edge_index))
        F.cross_entropy(logits[train], torch.from_numpy(small_graph.y)[train]).backward()
        optimiser.step()
    expected = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    assert close(method.finish().models["model"], expected, 1e-5)


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


def dying(party: Party, at: int) -> Party:
    """Let a client's thread end in some round."""
    handle = party.handle

    def handle_or_die(op: str, payload: Payload) -> Payload:
        if op == "round" and payload["round"] == at:
            raise SystemExit
        return handle(op, payload)

    party.handle = handle_or_die  # type: ignore[method-assign]
    return party


def with_a_dying_client(
    clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> Any:
    from autofgl.methods import fedavg

    make_party = fedavg.FedAvg.party.__func__  # type: ignore[attr-defined]

    def party(cls: Any, graph: ClientGraph, *rest: Any) -> Any:
        factory = make_party(cls, graph, *rest)
        if graph.name != "client-1":
            return factory
        return lambda context: dying(factory(context), at=3)

    monkeypatch.setattr(fedavg.FedAvg, "party", classmethod(party))
    return make("fedavg", clients, **settings)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_lost_client_is_dropped_and_the_run_goes_on(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch, aggregate: str
) -> None:
    method = with_a_dying_client(small_clients, monkeypatch, aggregate=aggregate, rounds=6)
    rows = rounds(method, 6)
    assert rows[2]["failed"] == ["client-1"]
    assert "failed" not in rows[3]
    assert [row["clients"] for row in rows] == [3, 3, 2, 2, 2, 2]
    assert [row["name"] for row in method.finish().per_client] == ["client-0", "client-2"]


def test_too_few_clients_end_the_run(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = with_a_dying_client(small_clients, monkeypatch, min_clients=3, rounds=6)
    with pytest.raises(FederationError, match="needs 3 parties, 2 answered"):
        rounds(method, 6)


def empty_client(like: ClientGraph, name: str) -> ClientGraph:
    none = np.zeros(0, np.int64)
    mask = np.zeros(0, np.bool_)
    return replace(
        like, name=name, x=like.x[:0], edge_index=np.zeros((2, 0), np.int64), y=none,
        train_mask=mask, val_mask=mask, test_mask=mask, node_id=none, boundary=Boundary.empty(),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["fedavg", "separate"])
def test_clients_that_are_empty_or_have_no_labels_weigh_nothing(
    small_clients: list[ClientGraph], name: str
) -> None:
    nothing = np.zeros(small_clients[1].num_nodes, np.bool_)
    unlabelled = small_clients[1].with_masks(nothing, nothing, nothing)
    clients = [small_clients[0], unlabelled, empty_client(small_clients[2], "client-2")]
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


def test_a_diverging_client_is_named(small_clients: list[ClientGraph]) -> None:
    broken = replace(small_clients[0], x=np.full(small_clients[0].x.shape, np.nan, "f4"))
    method = make("fedavg", [broken, *small_clients[1:]], rounds=3)
    with pytest.raises(FederationError, match=r"client-0.*not finite.*lower 'lr'"):
        rounds(method, 3)


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
        stack: list[Any] = [payload]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                stack += list(value.values())
            elif isinstance(value, np.ndarray):
                seen.update(value.shape)
            assert not isinstance(value, bytes) or not value

    settings = {"aggregate": aggregate} if name == "fedavg" else {}
    method = make(name, small_clients, rounds=3, observer=watch, **settings)
    rounds(method, 3)
    method.finish()
    assert seen, "the observer saw nothing"
    assert not seen & set(private), "an array as long as a client's nodes or edges"
