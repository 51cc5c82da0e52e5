"""FedGraph against dense matrices: convolution across clients, its training, its losses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import autofgl
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import pool
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import GCN
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure
from autofgl.sharing.across.client import AcrossClient
from autofgl.sharing.across.forward import Pass, exchanges
from federations import leaves, make, parties, rounds, without

SMALL: dict[str, Any] = {"hidden": 8, "rounds": 6, "batch": 8, "normalize_features": True}
PARTITIONERS = ("metis", "louvain", "random", "dirichlet", "labels", "degree", "overlap")


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Nodes and outputs of every client's last evaluation, which clients keep to themselves."""
    seen: dict[str, Any] = {}
    report = AcrossClient._report

    def watched(self: AcrossClient, done: Pass) -> Payload:
        seen[self._name] = (done.batch, done.output.detach().numpy().copy())
        return report(self, done)

    monkeypatch.setattr(AcrossClient, "_report", watched)
    return seen


def whole_network(graph: ClientGraph, weights: dict[str, Any], layers: int) -> Any:
    """Outputs of the GCN on the uncut graph, without dropout, in float64."""
    spec = ModelSpec(
        family="gcn", in_features=graph.num_features, classes=graph.classes, hidden=8, layers=layers
    )
    model = GCN(spec).double()
    model.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
    features = InputFeatures.from_client(graph.x, torch.float64).row_normalized()
    edges = torch.from_numpy(graph.edge_index)
    model.eval()
    with torch.no_grad():
        return model(features, Structure(edges, graph.num_nodes, torch.float64)).numpy()


def dense(graph: ClientGraph) -> tuple[Any, Any]:
    """Q and the scaled features of a whole graph."""
    structure = Structure(torch.from_numpy(graph.edge_index), graph.num_nodes, torch.float64)
    features = InputFeatures.from_client(graph.x, torch.float64).row_normalized()
    return structure.gcn.to_dense(), features.to_dense()


def at_home(q: Any, owner: Any) -> Any:
    """Q without edges between clients; what is left of a row is scaled as in Eq. 7."""
    mask = torch.from_numpy(owner[:, None] == owner[None]) & (q != 0)
    return q * mask * ((q != 0).sum(1) / mask.sum(1))[:, None]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_with_everything_shared_the_outputs_are_those_of_the_uncut_graph(
    partitioner: str, layers: int, small_graph: ClientGraph, outputs: dict[str, Any]
) -> None:
    clients = autofgl.partition(small_graph, clients=3, method=partitioner, seed=2)
    method = make("fedgraph", clients, share="all", layers=layers, **SMALL)
    rounds(method, 1)
    whole = pool(clients)
    expected = whole_network(whole, method._weights, layers)
    for client in clients:
        nodes, output = outputs[client.name]
        place = np.searchsorted(whole.node_id, client.node_id[nodes])
        np.testing.assert_allclose(output, expected[place], atol=1e-5)
    method.federation.close()


def test_hidden_layers_are_shared_and_the_first_is_not(
    small_graph: ClientGraph, outputs: dict[str, Any]
) -> None:
    """Eqs. 2 and 3 with dense matrices: Z = Q σ(Q_own X W1 + b1) W2 + b2."""
    clients = autofgl.partition(small_graph, clients=4, method="random", seed=0)
    method = make("fedgraph", clients, share="hidden", **SMALL)
    rounds(method, 1)
    q, x = dense(small_graph)
    owner = np.zeros(small_graph.num_nodes, np.int64)
    for index, client in enumerate(clients):
        owner[client.node_id] = index
    inside = at_home(q, owner)
    w = {key: torch.tensor(value).double() for key, value in method._weights.items()}
    hidden = torch.relu(inside @ x @ w["convs.0.lin.weight"] + w["convs.0.bias"])
    shared = (q @ hidden @ w["convs.1.lin.weight"] + w["convs.1.bias"]).numpy()
    alone = (inside @ hidden @ w["convs.1.lin.weight"] + w["convs.1.bias"]).numpy()
    for client in clients:
        nodes, output = outputs[client.name]
        np.testing.assert_allclose(output, shared[client.node_id[nodes]], atol=1e-5)
    method.federation.close()

    apart = make("fedgraph", clients, share="none", **SMALL)
    apart.setup()
    apart._weights = method._weights
    apart._judge(0)
    for client in clients:
        nodes, output = outputs[client.name]
        np.testing.assert_allclose(output, alone[client.node_id[nodes]], atol=1e-5)
    apart.federation.close()


def test_a_round_averages_by_batch_size_and_takes_neighbours_as_constants(
    small_graph: ClientGraph,
) -> None:
    """Eqs. 5, 6 and 8: one SGD-like step of Adam at each client, from dense matrices."""
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    settings = {**SMALL, "dropout": 0.0, "weight_decay": 0.0, "lr": 0.01}
    method = make("fedgraph", clients, share="hidden", sampler="full", **settings)
    method.setup()
    start = {key: torch.tensor(value) for key, value in method._weights.items()}
    method.step()
    q, x = (value.float() for value in dense(small_graph))
    owner = np.zeros(small_graph.num_nodes, np.int64)
    for index, client in enumerate(clients):
        owner[client.node_id] = index
    inside = at_home(q, owner)
    hidden = torch.relu(inside @ x @ start["convs.0.lin.weight"] + start["convs.0.bias"])
    foreign = (hidden @ start["convs.1.lin.weight"]).detach()
    total = sum(int(client.train_mask.sum()) for client in clients)
    expected = {key: torch.zeros_like(value) for key, value in start.items()}
    for index, client in enumerate(clients):
        weights = {key: value.clone().requires_grad_() for key, value in start.items()}
        optimizer = torch.optim.Adam(list(weights.values()), lr=0.01)
        mine = torch.from_numpy(owner == index)[:, None]
        own = torch.relu(inside @ x @ weights["convs.0.lin.weight"] + weights["convs.0.bias"])
        product = torch.where(mine, own @ weights["convs.1.lin.weight"], foreign)
        logits = q @ product + weights["convs.1.bias"]
        nodes = client.node_id[client.train_mask]
        labels = torch.from_numpy(small_graph.y[nodes])
        torch.nn.functional.cross_entropy(logits[nodes], labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for key, value in weights.items():
            expected[key] += value.detach() * len(nodes) / total
    for key, value in method._weights.items():
        np.testing.assert_allclose(value, expected[key].numpy(), atol=1e-5)
    method.federation.close()


@pytest.mark.parametrize(("share", "layers", "waits"), [
    ("none", 3, 0), ("hidden", 1, 0), ("hidden", 2, 2), ("hidden", 4, 6), ("all", 2, 4),
])  # fmt: skip
def test_clients_wait_twice_for_every_shared_convolution(
    share: str, layers: int, waits: int
) -> None:
    assert exchanges(share, layers) == waits
    assert 2 * exchanges(share, layers, asks=False) == waits


def test_features_labels_and_edges_never_travel(small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    seen: list[tuple[str, str, Payload]] = []
    method = make(
        "fedgraph", clients, secure="shares",
        observer=lambda direction, party, op, payload: seen.append((direction, op, payload)),
        **SMALL,
    )  # fmt: skip
    rounds(method, 2)
    method.federation.close()
    assert not any(direction == "peer" for direction, _, _ in seen)
    sent = [payload["boxes"] for direction, _, payload in seen if "boxes" in payload]
    boxes = b"".join(box for one in sent for box in one.values())
    assert boxes
    for client in clients:
        for array in (client.y, client.edge_index, client.boundary.remote, client.train_mask):
            assert array.tobytes() not in boxes
    values = [value for _, _, payload in seen for value in leaves(payload)]
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    for client in clients:
        for private in (client.y, client.edge_index, client.boundary.remote):
            assert not any(_equal(array, private) for array in arrays)
    shapes = {array.shape for array in arrays}
    assert not any(shape[:1] == (client.num_nodes,) for shape in shapes for client in clients)


def test_only_what_is_needed_travels(small_graph: ClientGraph) -> None:
    """Full batch, K = 2: a pass sends 8 bytes for a needed node, and 4 for each of its outputs."""
    clients = autofgl.partition(small_graph, clients=3, method="metis", seed=0)
    boxes: list[bytes] = []

    def observe(direction: str, _party: str, op: str, payload: Payload) -> None:
        if direction == "up" and op in ("begin", "advance"):
            boxes.extend(payload.get("boxes", {}).values())

    settings = {**SMALL, "sampler": "full", "evaluate_every": 10}
    method = make("fedgraph", clients, observer=observe, **settings)
    method.setup()
    method.step()
    sent = sum(map(len, boxes))
    overhead = len(boxes) * (12 + 16)  # nonce and tag
    needed = 0
    for client in clients:
        cut = client.boundary
        train = np.isin(cut.local, np.flatnonzero(client.train_mask))
        needed += len(np.unique(np.stack([cut.owner, cut.remote])[:, train], axis=1).T)
    assert sent - overhead == needed * (8 + 4 * small_graph.classes)
    boxes.clear()
    method.step()  # the sample is the same, and nobody asks again
    again = sum(map(len, boxes)) - len(boxes) * (12 + 16)
    assert again == needed * 4 * small_graph.classes
    method.federation.close()


def _equal(first: Any, second: Any) -> bool:
    return first.shape == second.shape and bool(np.array_equal(first, second))


def test_a_client_lost_in_an_exchange_is_remembered(
    small_graph: ClientGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    method = make("fedgraph", clients, sampler="full", **SMALL)
    rounds(method, 2)
    lost = clients[1].name
    others = {name: party for name, party in parties(method).items() if name != lost}
    before = {name: party._around.last_rows[2].clone() for name, party in others.items()}
    advance = AcrossClient.advance

    def dying(self: AcrossClient, payload: Payload) -> Payload:
        if self._name == lost and self._ask["tag"] == "train-3-0":
            raise SystemExit("gone")
        return advance(self, payload)

    monkeypatch.setattr(AcrossClient, "advance", dying)
    row = method.step()
    assert row["clients"] == 2
    assert lost not in method.federation.parties
    assert np.isfinite(row["train_loss"])
    for name, party in others.items():
        near, rows = party._around.neighborhood, party._around.last_rows[2]
        theirs = torch.from_numpy(near.owner == list(near.owners).index(lost))
        assert torch.equal(rows[theirs], before[name][theirs])
        assert not torch.equal(rows[~theirs], before[name][~theirs])
    assert method.step()["clients"] == 2
    method.federation.close()


def test_rows_of_a_client_that_was_never_heard_of_are_zero(small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    method = make("fedgraph", clients, sampler="full", **SMALL)
    method.setup()
    method.federation.drop(clients[2].name)
    assert np.isfinite(method.step()["train_loss"])
    around = parties(method)[clients[0].name]._around
    theirs = around.neighborhood.owner == 2
    assert theirs.any()
    assert not around.last_rows[2][torch.from_numpy(theirs)].any()
    method.federation.close()


def test_a_client_without_labels_takes_part(small_clients: list[ClientGraph]) -> None:
    clients = [without(small_clients[0], "train_mask", "val_mask", "test_mask"), *small_clients[1:]]
    method = make("fedgraph", clients, **SMALL)
    row = rounds(method, 2)[-1]
    assert np.isfinite(row["train_loss"])
    assert row["clients"] == 3
    method.federation.close()


def test_a_client_without_nodes_takes_part(small_graph: ClientGraph) -> None:
    owner = np.arange(small_graph.num_nodes) % 2
    clients = autofgl.graphs.cut.cut(small_graph, owner, ["a", "b", "empty"])
    method = make("fedgraph", clients, sampler="fixed", **SMALL)
    row = rounds(method, 2)[-1]
    assert np.isfinite(row["train_loss"])
    method.federation.close()


def test_one_client_alone(small_graph: ClientGraph) -> None:
    method = make("fedgraph", [small_graph], **SMALL)
    assert np.isfinite(rounds(method, 1)[0]["train_loss"])
    method.federation.close()


def test_a_boundary_to_nodes_that_do_not_exist_is_refused(
    small_clients: Sequence[ClientGraph],
) -> None:
    first = small_clients[0]
    wrong = replace(first.boundary, remote=first.boundary.remote + 1000)
    with pytest.raises(Exception, match="check the boundaries"):
        make("fedgraph", [replace(first, boundary=wrong), *small_clients[1:]], **SMALL)
