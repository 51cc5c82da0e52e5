"""``sharing=across``: common networks that convolve across clients, over a federation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import autofgl
from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.graphs.cut import pool
from autofgl.methods.catalog import find_method
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import empty_network
from autofgl.nn.models.spec import FAMILIES, spec_from_json
from autofgl.nn.structure import Structure
from autofgl.runtime.outcome import Outcome
from autofgl.secure.keys import KeyRing
from federations import (
    close,
    empty_client,
    intercept,
    leaves,
    make,
    parties,
    rounds,
    to_the_end,
    without,
)

NETWORKS = ["gcn", "sage", "gin", "sgc", "appnp", "gat"]
SMALL: dict[str, Any] = {"sharing": "across", "hidden": 8, "rounds": 3}


@pytest.fixture(scope="module")
def clients(small_graph: ClientGraph) -> list[ClientGraph]:
    """Random parts: most edges are between clients."""
    return autofgl.partition(small_graph, clients=3, method="random", seed=0)


def run(clients: Sequence[ClientGraph], **settings: Any) -> tuple[list[dict[str, Any]], Outcome]:
    method = make("fedavg", clients, **{**SMALL, **settings})
    method.setup()
    rows = to_the_end(method)
    outcome = method.finish()
    method.federation.close()
    return rows, outcome


def uncut_accuracy(clients: Sequence[ClientGraph], outcome: Outcome) -> float:
    """Test accuracy of a result's network on the pooled graph."""
    whole = pool(clients)
    network = empty_network(spec_from_json(outcome.spec)).eval()
    weights = outcome.models["model"]
    network.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    features = InputFeatures.from_client(whole.x).scaled("unit")
    with torch.no_grad():
        hits = network(features, Structure.from_client(whole)).argmax(1).numpy() == whole.y
    return float(hits[whole.test_mask].mean())


@pytest.mark.parametrize("model", NETWORKS)
def test_figures_are_those_of_the_uncut_graph(clients: list[ClientGraph], model: str) -> None:
    _, outcome = run(clients, model=model, share="all")
    assert outcome.test_accuracy == pytest.approx(uncut_accuracy(clients, outcome), abs=1e-9)


@pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
def test_so_are_those_of_secure_sums(clients: list[ClientGraph], aggregate: str) -> None:
    rows, plain = run(clients, share="all", aggregate=aggregate)
    method = make("fedavg", clients, secure="shares", **SMALL, share="all", aggregate=aggregate)
    hidden = [*rounds(method, 3)]
    outcome = method.finish()
    method.federation.close()
    assert outcome.test_accuracy == pytest.approx(plain.test_accuracy, abs=0.02)
    for mine, other in zip(hidden, rows, strict=True):
        assert mine["train_loss"] == pytest.approx(other["train_loss"], abs=1e-3)


def test_the_first_round_reports_on_the_initial_weights(clients: list[ClientGraph]) -> None:
    """With everything shared the loss of round 1 is that of the pooled graph."""
    rows, _ = run(clients, share="all", rounds=1)
    (whole,) = find_method("centralized").arrange(clients)
    alone = make("centralized", [whole], hidden=8, rounds=1)
    (row,) = rounds(alone, 1)
    alone.federation.close()
    assert rows[0]["train_loss"] == pytest.approx(row["train_loss"], abs=1e-5)


@pytest.mark.parametrize("secure", ["none", "shares"])
@pytest.mark.parametrize(
    ("model", "more"),
    [("gcn", {}), ("sage", {}), ("appnp", {}), ("gat", {"class_weight": "balanced"})],
)
def test_with_gradients_sent_back_training_is_that_of_the_uncut_graph(
    clients: list[ClientGraph], model: str, more: dict[str, Any], secure: str
) -> None:
    settings: dict[str, Any] = {"model": model, "dropout": 0.0, "rounds": 4, **more}
    whole = find_method("centralized").arrange(clients)
    alone = make("fedavg", whole, hidden=8, **settings)
    expected = [row["train_loss"] for row in rounds(alone, 4)]
    alone.federation.close()
    together = {**SMALL, "share": "all", "backward": True, **settings}
    lonely = empty_client(clients[0], "nobody")
    method = make("fedavg", [*clients, lonely], secure=secure, **together)
    found = [row["train_loss"] for row in rounds(method, 4)]
    method.federation.close()
    assert found == pytest.approx(expected, abs=1e-5 if secure == "none" else 1e-3)


def test_a_client_without_labels_carries_the_gradients_of_others(
    clients: list[ClientGraph],
) -> None:
    unlabeled = without(clients[0], "train_mask")
    parts = [unlabeled, *clients[1:]]
    whole = find_method("centralized").arrange(parts)
    alone = make("fedavg", whole, hidden=8, dropout=0.0, rounds=4)
    expected = [row["train_loss"] for row in rounds(alone, 4)]
    alone.federation.close()
    settings = {**SMALL, "rounds": 4, "dropout": 0.0, "share": "all", "backward": True}
    method = make("fedavg", parts, **settings)
    found = [row["train_loss"] for row in rounds(method, 4)]
    method.federation.close()
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("more", [{"consistency": 1.0}, {"compress": "int8"}])
def test_gradients_go_back_with_unlabeled_nodes_and_few_bytes(
    clients: list[ClientGraph], more: dict[str, Any]
) -> None:
    rows, outcome = run(clients, backward=True, share="all", rounds=8, **more)
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]
    assert outcome.test_accuracy == pytest.approx(uncut_accuracy(clients, outcome), abs=1e-9)


def test_the_way_back_is_one_more_message_each_way_for_a_hop(clients: list[ClientGraph]) -> None:
    method = make("fedavg", clients, **SMALL, model="appnp", backward=True)
    rounds(method, 2)
    traffic = method.federation.meter.ops["exchange"]
    assert traffic.messages_down == traffic.messages_up == 2 * 20 * len(clients)
    method.finish()  # nobody trains any more
    traffic = method.federation.meter.ops["exchange"]
    method.federation.close()
    assert traffic.messages_up == (2 * 20 + 2 * 10) * len(clients)


def test_without_sharing_nothing_is_exchanged(clients: list[ClientGraph]) -> None:
    method = make("fedavg", clients, **SMALL, share="none")
    rounds(method, 2)
    assert "exchange" not in method.federation.meter.ops
    method.federation.close()


@pytest.mark.parametrize(("model", "hops"), [("gcn", 1), ("appnp", 10), ("sgc", 1)])
def test_an_exchange_is_one_message_each_way(
    clients: list[ClientGraph], model: str, hops: int
) -> None:
    method = make("fedavg", clients, **SMALL, model=model)
    rounds(method, 2)
    traffic = method.federation.meter.ops["exchange"]
    method.federation.close()
    assert traffic.messages_down == traffic.messages_up == 2 * hops * len(clients)
    assert traffic.messages_peer == 0


def test_stale_rows_save_exchanges(clients: list[ClientGraph]) -> None:
    method = make("fedavg", clients, **{**SMALL, "rounds": 4}, refresh=2, share="all")
    rounds(method, 4)
    assert method.federation.meter.ops["exchange"].messages_up == 2 * 2 * len(clients)
    outcome = method.finish()
    method.federation.close()
    assert outcome.test_accuracy == pytest.approx(uncut_accuracy(clients, outcome), abs=1e-9)


EVERY = [name for name in FAMILIES if name != "sfgnn"]


@pytest.mark.parametrize(
    ("model", "backward"),
    [*((name, False) for name in EVERY), *((name, True) for name in ("gcn", "appnp", "gat"))],
)
def test_features_labels_and_edges_never_travel(
    clients: list[ClientGraph], model: str, backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sealed are node numbers once, and then rows of the network's own widths."""
    seal, texts = KeyRing.seal, []

    def watched(ring: KeyRing, peer: str, purpose: str, tag: str, text: bytes) -> bytes:
        if purpose == "rows":
            texts.append((ring.name, peer, tag, text))
        return seal(ring, peer, purpose, tag, text)

    monkeypatch.setattr(KeyRing, "seal", watched)
    seen: list[tuple[str, Payload]] = []
    method = make(
        "fedavg",
        clients,
        **SMALL,
        model=model,
        backward=backward,
        observer=lambda _direction, _party, op, payload: seen.append((op, payload)),
    )
    rounds(method, 1)
    exchanges = parties(method)[clients[0].name].sharing.exchanges
    method.federation.close()
    graphs = {graph.name: graph for graph in clients}
    for sender, receiver, tag, text in texts:
        sent = np.frombuffer(text, np.int64 if tag == "meet" else np.float32)
        if tag == "meet":
            assert sent.max() < graphs[receiver].num_nodes
            continue
        back = int(tag.rpartition("-")[2]) >= exchanges
        knows, owner = (sender, receiver) if back else (receiver, sender)
        ends = graphs[knows].boundary
        theirs = ends.owner == ends.owners.index(owner)
        width = len(sent) // len(np.unique(ends.remote[theirs]))
        rows = sent.reshape(-1, width)
        assert width < graphs[sender].num_features
        assert not np.isin(rows, to_dense(graphs[sender].x)).all()
    exchanged = [payload for op, payload in seen if op in ("introduce", "meet", "exchange")]
    arrays = [
        one for payload in exchanged for one in leaves(payload) if isinstance(one, np.ndarray)
    ]
    assert arrays == []


def test_a_client_sends_each_peer_only_nodes_that_they_share_an_edge_with(
    clients: list[ClientGraph],
) -> None:
    method = make("fedavg", clients, **SMALL)
    for name, party in parties(method).items():
        for peer, nodes in party._rows.shown.items():
            boundary = next(one for one in clients if one.name == peer).boundary
            mine = boundary.remote[boundary.owner == boundary.owners.index(name)]
            assert np.array_equal(nodes, np.unique(mine))
    method.federation.close()


@pytest.mark.parametrize(("backward", "at"), [(False, 4), (True, 4), (True, 14)])
def test_a_client_lost_in_an_exchange_is_remembered(
    clients: list[ClientGraph], backward: bool, at: int
) -> None:
    settings = {**SMALL, "rounds": 4, "model": "appnp", "backward": backward}
    method = make("fedavg", clients, **settings)
    rounds(method, 2)
    lost = parties(method)[clients[1].name]

    def die(op: str, payload: Payload) -> None:
        if op == "exchange" and payload["round"] == 3 and payload["exchange"] == at:
            raise SystemExit

    intercept(lost, die)
    rest = to_the_end(method)
    outcome = method.finish()
    structure = parties(method)[clients[0].name].sharing._structure
    place = parties(method)[clients[0].name]._rows.places[clients[1].name]
    assert all(bool(rows[place].any()) for rows in structure.rows.values())
    method.federation.close()
    assert [row["clients"] for row in rest] == [2, 2]
    assert 0 < outcome.test_accuracy <= 1


@pytest.mark.parametrize(
    ("secure", "backward"), [("none", False), ("none", True), ("shares", True)]
)
def test_a_client_that_comes_back_with_nothing_goes_on(
    clients: list[ClientGraph], secure: str, backward: bool
) -> None:
    """It takes weights and moments from another client, and is sent all rows again."""
    settings = {**SMALL, "backward": backward}
    undisturbed = make("fedavg", clients, secure=secure, **settings)
    rounds(undisturbed, 3)
    method = make("fedavg", clients, secure=secure, **settings)
    rounds(method, 2)
    method.before_checkpoint()
    fresh = make("fedavg", clients, secure=secure, **settings)
    gone = parties(method)[clients[1].name]
    gone.load_state(parties(fresh)[clients[1].name].state())
    assert not any(bool(rows.any()) for rows in gone.sharing._structure.rows.values())
    method.catch_up([clients[1].name])
    row = method.step()
    assert row["clients"] == 3
    results = [one.finish().models["model"] for one in (method, undisturbed)]
    for one in (method, undisturbed, fresh):
        one.federation.close()
    assert close(*results, tolerance=1e-6)


def test_nonsense_counts_as_not_sent(clients: list[ClientGraph]) -> None:
    """A client that sends boxes which nobody can open harms nobody else."""
    method = make("fedavg", clients, **SMALL, share="all", backward=True)
    liar = parties(method)[clients[1].name]
    seal = liar._rows.seal
    liar._rows.seal = lambda *what: {name: box[::-1] for name, box in seal(*what).items()}
    rows = rounds(method, 3)
    method.federation.close()
    assert [row["clients"] for row in rows] == [3, 3, 3]


def test_an_exchange_cannot_be_made_twice(clients: list[ClientGraph]) -> None:
    method = make("fedavg", clients, **SMALL)
    rounds(method, 1)
    message = {"stage": "", "round": 1, "exchange": 0}
    replies = method.federation.call("exchange", message)
    method.federation.close()
    assert {failure.kind for failure in replies.failed.values()} == {"refused"}


def test_trials_and_finals_of_a_search_convolve_across_clients(clients: list[ClientGraph]) -> None:
    settings: dict[str, Any] = {"candidates": 2, "candidate_rounds": 2, "layers": 2, "tune": 2}
    settings |= {"finalists": 2, "rounds": 3, "hidden": 8, "share": "all", "types": "gcn,appnp3"}
    method = make("fl-random", clients, sharing="across", **settings)
    method.setup()
    to_the_end(method)
    outcome = method.finish()
    method.federation.close()
    assert outcome.test_accuracy == pytest.approx(uncut_accuracy(clients, outcome), abs=1e-9)


def test_empty_and_lonely_clients_take_part(clients: list[ClientGraph]) -> None:
    rows, _ = run(clients[:1], model="gcn")
    assert [row["clients"] for row in rows] == [1, 1, 1]
    rows, _ = run([*clients, empty_client(clients[0], "nobody")], model="gat")
    assert [row["clients"] for row in rows] == [4, 4, 4]


@pytest.mark.parametrize(
    ("method", "settings", "what"),
    [
        ("fedavg", {"batch": 8}, "batch"),
        ("fedavg", {"backward": True, "aggregate": "parameters"}, "aggregate"),
        ("fedavg", {"backward": True, "participation": 0.5}, "participation"),
        ("fedavg", {"backward": True, "refresh": 2}, "refresh"),
        ("fedavg", {"dp_epsilon": 8}, "leave sharing"),
        ("fl-darts", {"dp_epsilon": 8}, "leave sharing"),
        ("fl-agcns", {"dp_epsilon": 8, "optimizers": "controller"}, "leave sharing"),
    ],
)
def test_what_cannot_be_is_refused(
    clients: list[ClientGraph], method: str, settings: dict[str, Any], what: str
) -> None:
    kind = find_method(method)
    with pytest.raises(UserError, match=what):
        kind.check(clients, kind.Settings(**{**SMALL, **settings}), "shares")


def test_weights_of_edges_are_refused(clients: list[ClientGraph]) -> None:
    method = find_method("fedavg")
    first = clients[0]
    weighed = replace(first, edge_weight=np.ones(first.num_edges, np.float32))
    with pytest.raises(UserError, match="weights"):
        method.check([weighed, *clients[1:]], method.Settings(**SMALL), "none")
