"""GraphFL's rounds and test phase: averages by hand, new clients, unseen classes, lost clients."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autofgl
from autofgl.errors import FederationError, UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.settings import GraphFLSettings
from autofgl.secure import MODES
from autofgl.sharing.meta.model import MetaModel, unseen
from federations import (
    close,
    die_in,
    empty_client,
    leaves,
    local_model,
    make,
    parties,
    rounds,
    to_the_end,
    without,
)

#: Few and short steps, for tests in which nothing has to be learned.
QUICK: dict[str, Any] = {"tasks": 2, "inner_steps": 2, "adapt_steps": 2, "rounds": 4}


def local(client: ClientGraph, **settings: Any) -> Any:
    return local_model(client, GraphFLSettings(**settings), kind=MetaModel)


def with_labels(client: ClientGraph, train: int) -> ClientGraph:
    """The client with only so many training nodes."""
    mask = np.zeros_like(client.train_mask)
    mask[np.flatnonzero(client.train_mask)[:train]] = True
    return client.with_masks(mask, client.val_mask, client.test_mask)


@pytest.mark.parametrize("model", ["sgc", "gcn"])
@pytest.mark.parametrize("first_order", [False, True])
def test_without_inner_steps_a_round_is_one_of_fedavg(
    small_clients: list[ClientGraph], model: str, first_order: bool
) -> None:
    """One task, all training nodes judge: the outer step is an ordinary local epoch."""
    common: dict[str, Any] = {"model": model, "hidden": 8, "normalize_features": False}
    meta = make(
        "graphfl", small_clients, tasks=1, inner_steps=0, first_order=first_order, **common
    )  # fmt: skip
    plain = make("fedavg", small_clients, aggregate="parameters", local_epochs=1, **common)
    rows, expected = rounds(meta, 3), rounds(plain, 3)
    assert close(meta.training.sharing.weights, plain.training.sharing.handout()["weights"], 1e-6)
    for row, other in zip(rows, expected, strict=True):
        assert row["unadapted_val_accuracy"] == other["val_accuracy"]
        assert row["unadapted_test_accuracy"] == other["test_accuracy"]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_round_averages_the_clients_outer_steps_by_training_nodes(
    small_clients: list[ClientGraph], optimizer: str
) -> None:
    settings = {**QUICK, "outer_steps": 2, "optimizer": optimizer, "lr": 0.05}
    method = make("graphfl", small_clients, **settings)
    row = rounds(method, 1)[0]
    total = sum(client.train_mask.sum() for client in small_clients)
    expected: dict[str, Any] = {}
    loss = 0.0
    for client in small_clients:
        model = local(client, **settings)
        share = client.train_mask.sum() / total
        loss += share * model.learn(1)
        for name, value in model.weights().items():
            expected[name] = expected.get(name, 0) + share * value.astype(np.float64)
    assert close(method.training.sharing.weights, expected, 1e-6)
    assert row["query_loss"] == pytest.approx(loss, rel=1e-5)


def test_adaptation_helps_where_clients_differ() -> None:
    """Label skew and weak features: which classes a client has tells more than one network can."""
    data = DataSettings(
        nodes=240, classes=4, features=60, degree=4, homophily=0.4, topic_strength=0.15
    )
    adapted, unadapted, plain = [], [], []
    for seed in range(3):
        graph = autofgl.load("synthetic", seed=seed, settings=data)
        skew = PartitionSettings(dirichlet_beta=0.2)
        clients = autofgl.partition(graph, 4, "dirichlet", seed, settings=skew)
        common: dict[str, Any] = {"seed": seed, "model": "sgc", "lr": 0.05, "strict": False}
        meta = make("graphfl", clients, **common, inner_steps=5, adapt_steps=5)
        rounds(meta, 8)
        found = meta.finish()
        adapted.append(found.test_accuracy)
        unadapted.append(found.extra["unadapted_test_accuracy"])
        usual = make(
            "fedavg", clients, **common, aggregate="parameters", normalize_features=False
        )  # fmt: skip
        rounds(usual, 8)
        plain.append(usual.finish().test_accuracy)
    print("adapted, unadapted, fedavg:", np.round([adapted, unadapted, plain], 3).tolist())
    assert np.min(np.subtract(adapted, unadapted)) > 0.15
    assert np.mean(adapted) > np.mean(unadapted) + 0.25
    assert np.mean(adapted) > np.mean(plain) + 0.15


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_nobody_adapts_where_the_federation_is_better_without(
    small_graph: ClientGraph, secure: str
) -> None:
    """Whoever adapts far to a single node knows one class only."""
    clients = autofgl.partition(small_graph, 3, "random", 0)
    spoilt: dict[str, Any] = {"adapt_lr": 50.0, "adapt_support": 1, "lr": 0.1, "secure": secure}
    wise = make("graphfl", clients, adapt="if-better", **spoilt)
    row = rounds(wise, 3)[-1]
    assert row["val_accuracy"] == row["unadapted_val_accuracy"]
    other = make("graphfl", clients, adapt="if-better", **spoilt)
    other.setup()
    other.load_state(wise.state())
    assert other.training.sharing._best_kind == "unadapted", "known to a resumed run"
    found = wise.finish()
    assert found.extra["adapted"] is False
    assert found.test_accuracy == found.extra["unadapted_test_accuracy"]
    for client in found.per_client if secure == "none" else []:
        assert client["test_accuracy"] == client["unadapted_test_accuracy"]
    stubborn = make("graphfl", clients, **spoilt)
    rounds(stubborn, 3)
    outcome = stubborn.finish()
    assert outcome.extra["adapted"] is True
    assert outcome.extra["unadapted_test_accuracy"] == found.test_accuracy
    assert outcome.val_accuracy < found.val_accuracy


def test_it_learns(small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    method = make("graphfl", clients, inner_steps=4, lr=0.05, strict=False)
    rows = rounds(method, 15)
    assert rows[-1]["query_loss"] < 0.8 * rows[0]["query_loss"]
    assert rows[-1]["unadapted_test_accuracy"] > rows[0]["unadapted_test_accuracy"] + 0.2
    assert method.finish().test_accuracy > 0.7


def test_the_last_round_counts_unless_validation_is_to_choose(
    small_clients: list[ClientGraph],
) -> None:
    last = make("graphfl", small_clients, **QUICK, lr=0.3)
    rounds(last, 4)
    expected = last.training.sharing.weights
    found = last.finish()
    assert found.extra["best_round"] == 4
    assert close(found.models["model"], expected, 0)
    chosen = make("graphfl", small_clients, **QUICK, lr=0.3, select="accuracy")
    rows = rounds(chosen, 4)
    outcome = chosen.finish()
    assert outcome.val_accuracy >= max(row["val_accuracy"] for row in rows)
    best = outcome.extra["best_round"]
    if best < 4:
        assert rows[best]["test_accuracy"] == pytest.approx(outcome.test_accuracy)


def test_patience_ends_the_run(small_clients: list[ClientGraph]) -> None:
    method = make("graphfl", small_clients, **{**QUICK, "rounds": 99}, patience=2, lr=2.0)
    method.setup()
    to_the_end(method)
    assert method.round < 40


def label_clients(graph: ClientGraph) -> list[ClientGraph]:
    """Three clients with a class of their own each."""
    return autofgl.partition(graph, clients=3, method="labels", seed=0)


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_new_clients_only_adapt(small_graph: ClientGraph, secure: str) -> None:
    """The last client's class is in nobody's training: only adaptation can find it."""
    clients = label_clients(small_graph)
    messages: list[tuple[str, bool]] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "down" and party == "client-2" and op in ("round", "conclude"):
            messages.append((op, "weights" in payload))

    settings: dict[str, Any] = {"new_clients": 1, "tasks": 1, "rounds": 8, "lr": 0.05}
    settings["secure_threshold"] = 2  # two clients train: by default three would be asked for
    method = make("graphfl", clients, secure=secure, observer=watch, **settings)
    rows = rounds(method, 8)
    assert all(row["clients"] == 2 for row in rows)
    found = method.finish()
    assert messages == [("round", False)] * 9 + [("conclude", True)]
    alone = make("graphfl", clients[:2], **{**settings, "new_clients": 0})
    rounds(alone, 8)
    expected = alone.finish()
    assert close(found.models["model"], expected.models["model"], 1e-5)
    seen, new = found.extra["seen"], found.extra["new"]
    assert (seen["clients"], new["clients"]) == (2, 1)
    assert seen["test_accuracy"] == pytest.approx(expected.test_accuracy)
    assert rows[-1]["val_accuracy"] <= 1
    assert new["unadapted_test_accuracy"] < 0.2
    assert new["test_accuracy"] > 0.9
    tests = [int(client.test_mask.sum()) for client in clients]
    both = (seen["test_accuracy"] * sum(tests[:2]) + new["test_accuracy"] * tests[2]) / sum(tests)
    assert found.test_accuracy == pytest.approx(both)
    assert [row["new"] for row in found.per_client] == [False, False, True]
    assert ("unadapted_test_accuracy" in found.per_client[0]) == (secure == "none")


def test_unseen_classes_are_in_no_task_but_in_the_test_phase(small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    hidden = set(unseen(3, 1, 0).tolist())
    assert len(hidden) == 1
    for client in clients:
        model = local(client, tasks=2, unseen_classes=1)
        labels = client.y[client.train_mask]
        assert model.taught_nodes == sum(label not in hidden for label in labels)
        assert 0 < model.taught_nodes < model.train_nodes
        for steps in ({}, {"inner_steps": 0}):
            other = local(client, tasks=2, unseen_classes=1, **steps)
            for task in other.tasks(1, 0):
                drawn = labels[torch.cat([task.support, task.query]).numpy()]
                assert not hidden & set(drawn.tolist())
        assert all(
            torch.equal(value, local(client).adapted()[name])
            for name, value in model.adapted().items()
        ), "the test phase adapts to all labelled nodes"
    settings = {**QUICK, "adapt_steps": 20, "adapt_lr": 0.5}
    method = make("graphfl", clients, **settings, unseen_classes=1, lr=0.05)
    rounds(method, 4)
    found = method.finish()
    assert found.test_accuracy > found.extra["unadapted_test_accuracy"]


def test_somebody_has_to_train(small_clients: list[ClientGraph], out: Path) -> None:
    with pytest.raises(UserError, match="new_clients=3 leaves none of the 3 clients"):
        autofgl.run("graphfl", small_clients, out=out, new_clients=3)
    assert not out.exists()
    method = make("graphfl", small_clients, **QUICK, new_clients=2)
    rounds(method, 1)
    method.federation.drop("client-0")
    with pytest.raises(FederationError, match="no client is left that may train"):
        method.step()


def test_partial_participation_is_seeded_and_counts(small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=6, method="random", seed=0)
    trained: list[list[str]] = [[], []]
    for run in (0, 1):

        def watch(way: str, party: str, op: str, payload: Payload, run: int = run) -> None:
            if way == "down" and op == "round" and payload["train"]:
                trained[run].append(party)

        method = make(
            "graphfl", clients, **QUICK, participation=0.4, new_clients=1, observer=watch
        )  # fmt: skip
        rows = rounds(method, 4)
        assert [row["clients"] for row in rows] == [2] * 4
    assert trained[0] == trained[1]
    assert len(set(trained[0])) > 2
    assert "client-5" not in trained[0]


@pytest.mark.parametrize("secure", [mode for mode in MODES if mode != "none"])
def test_secure_modes_give_the_plain_run(secure: str, small_clients: list[ClientGraph]) -> None:
    found = []
    for mode in ("none", secure):
        share = 1.0 if secure == "shares-additive" else 0.6  # which needs all clients
        settings = {**QUICK, "rounds": 3, "participation": share, "secure_threshold": 2}
        method = make("graphfl", small_clients, secure=mode, **settings)
        rows = rounds(method, 3)
        found.append((rows, method.finish()))
    (plain_rows, plain), (rows, outcome) = found
    assert outcome.test_accuracy == plain.test_accuracy
    assert outcome.extra["unadapted_test_accuracy"] == plain.extra["unadapted_test_accuracy"]
    assert close(outcome.models["model"], plain.models["model"], 1e-4)
    for row, other in zip(rows, plain_rows, strict=True):
        assert row["query_loss"] == pytest.approx(other["query_loss"], rel=1e-3)
    assert outcome.per_client == [{"name": c.name, "new": False} for c in small_clients]


def test_a_lost_client_is_dropped_and_the_run_goes_on(
    small_clients: list[ClientGraph],
) -> None:
    method = make("graphfl", small_clients, **QUICK)
    die_in(parties(method)["client-1"], 3)
    rows = rounds(method, 4)
    assert rows[2]["failed"] == ["client-1"]
    assert "failed" not in rows[3]
    assert [row["clients"] for row in rows] == [3, 3, 2, 2]
    assert [row["name"] for row in method.finish().per_client] == ["client-0", "client-2"]


def test_clients_with_few_or_no_labels_take_part(small_clients: list[ClientGraph]) -> None:
    first, second, third = small_clients
    blind = without(third, "train_mask", "val_mask", "test_mask")
    clients = [first, with_labels(second, 1), blind, empty_client(third, "client-3")]
    method = make("graphfl", clients, **QUICK)
    rows = rounds(method, 4)
    assert all(np.isfinite(row["query_loss"]) for row in rows)
    assert [row["train"] for row in method.finish().per_client][1:] == [1, 0, 0]
    others = make("graphfl", [first, clients[1]], **QUICK)
    rounds(others, 4)
    ours, theirs = method.training.sharing.weights, others.training.sharing.weights
    assert close(ours, theirs, 1e-6), "they weigh nothing"


def test_nobody_has_labels(small_clients: list[ClientGraph]) -> None:
    clients = [with_labels(client, 0) for client in small_clients]
    method = make("graphfl", clients, **QUICK)
    method.setup()
    before = method.training.sharing.weights
    row = method.step()
    assert row["query_loss"] == 0
    assert row["test_accuracy"] == row["unadapted_test_accuracy"]
    assert close(method.training.sharing.weights, before, 0)


def test_a_diverging_client_is_named(small_clients: list[ClientGraph]) -> None:
    broken = replace(small_clients[0], x=np.full(small_clients[0].x.shape, np.nan, "f4"))
    method = make("graphfl", [broken, *small_clients[1:]], on_bad_client="end", **QUICK)
    with pytest.raises(FederationError, match=r"client-0 diverges as it adapts: lower 'adapt_lr'"):
        rounds(method, 1)
    method = make("graphfl", [broken, *small_clients[1:]], **{**QUICK, "adapt_steps": 0})
    rounds(method, 1)
    assert [*method.clients.dropped] == ["client-0"]


def test_features_labels_and_edges_never_travel(small_clients: list[ClientGraph]) -> None:
    arrays: list[Any] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        for value in leaves(payload):
            if isinstance(value, np.ndarray):
                arrays.append(value)
            assert not isinstance(value, bytes) or not value

    method = make("graphfl", small_clients, observer=watch, **QUICK)
    rounds(method, 3)
    adapted = {}
    for client in small_clients:
        model = local(client, **QUICK)
        model.load_weights(method.training.sharing.weights)
        adapted[client.name] = np.concatenate([v.reshape(-1) for v in model.adapted().values()])
    method.finish()
    assert arrays, "the observer saw nothing"
    lengths = {length for array in arrays for length in array.shape}
    for client in small_clients:
        assert not lengths & {client.num_nodes, client.num_edges}
        own = adapted[client.name]
        for array in arrays:
            flat = array.reshape(-1)
            begins = flat[: max(0, len(flat) - len(own) + 1)]
            for begin in np.flatnonzero(np.isclose(begins, own[0], rtol=1e-4, atol=1e-6)):
                assert not np.allclose(flat[begin : begin + len(own)], own, rtol=1e-4, atol=1e-6)
    weights = [array for array in arrays if array.shape == (36, 3)]
    assert weights, "the global weights do travel, and so the test can fail"


def test_a_run_ends_with_both_figures(small_clients: list[ClientGraph], out: Path) -> None:
    result = autofgl.run("graphfl", small_clients, out=out, **QUICK, model="gcn", hidden=8)
    assert result.figures["architecture"].startswith("gcn, 2 layers")
    assert result.figures["best_round"] == 4
    for row in (result.figures, *result.figures["per_client"], *result.history):
        assert 0 <= row["unadapted_test_accuracy"] <= 1
        assert 0 <= row["test_accuracy"] <= 1
    assert "new" not in result.figures
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (small_clients[0].num_nodes, 3)


@pytest.mark.parametrize(
    "settings", [{"inner_lr": 0}, {"tasks": 0}, {"optimizer": "adagrad"}, {"model": "cgs"}]
)
def test_wrong_settings_are_refused(
    settings: dict[str, Any], small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError):
        autofgl.run("graphfl", small_clients, out=out, **settings)
