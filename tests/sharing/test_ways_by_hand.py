"""Every way of sharing against its paper's equations, computed here once more."""

import math
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.outcome import paired_interval
from autofgl.sharing.head import head_of
from autofgl.sharing.likeness import (
    ALIKE,
    KEPT,
    ORDERS,
    SHARPNESS,
    STEPS,
    alike_by_function,
    alike_by_moments,
    mixed_moments,
)
from federations import close, local_model, make, parties, rounds

QUICK: dict[str, Any] = {"rounds": 4, "lr": 0.05, "hidden": 8, "local_epochs": 2}
PARAMETERS: dict[str, Any] = {**QUICK, "aggregate": "parameters"}
HEAD = ("convs.1.bias", "convs.1.lin.weight")


def is_own(way: str, name: str) -> bool:
    return (name in HEAD) == (way == "head")


def average(models: list[Weights], clients: list[ClientGraph]) -> Weights:
    counts = np.array([client.train_mask.sum() for client in clients], np.float32)
    shares = counts / counts.sum()
    pairs = list(zip(models, shares, strict=True))
    return {name: sum(share * one[name] for one, share in pairs) for name in models[0]}


def local_models(clients: list[ClientGraph]) -> list[Any]:
    return [local_model(client, FederatedSettings(**PARAMETERS)) for client in clients]


def now(method: Any, attribute: str = "local") -> list[Weights]:
    return [getattr(one.sharing, attribute).weights() for one in parties(method).values()]


@pytest.mark.parametrize("way", ["head", "encoder"])
def test_what_is_own_stays_and_the_rest_is_averaged(
    way: str, small_clients: list[ClientGraph]
) -> None:
    """FedPer, Algorithms 1 and 2, and LG-FedAvg, Algorithm 1, over two rounds."""
    method = make("fedavg", small_clients, sharing=way, **PARAMETERS)
    mine = local_models(small_clients)
    for at in (1, 2):
        for local in mine:
            local.train(2, at)
        mean = average([local.weights() for local in mine], small_clients)
        for local in mine:
            own = local.weights()
            local.load_weights({name: (own if is_own(way, name) else mean)[name] for name in own})
    rounds(method, 2)
    method.training.evaluate()
    for ours, local in zip(now(method), mine, strict=True):
        assert close(ours, local.weights(), 1e-6)
    assert not close(*(one.weights() for one in mine[:2]), 1e-3)


@pytest.mark.parametrize("way", ["head", "encoder"])
def test_with_gradients_what_is_own_follows_its_own(
    way: str, small_clients: list[ClientGraph]
) -> None:
    method = make("fedavg", small_clients, sharing=way, **QUICK)
    mine = local_models(small_clients)
    gradients = [local.gradient(1) for local in mine]
    common = average(gradients, small_clients)
    for local, own in zip(mine, gradients, strict=True):
        local.apply({name: (own if is_own(way, name) else common)[name] for name in own})
    rounds(method, 1)
    method.training.evaluate()
    for ours, local in zip(now(method), mine, strict=True):
        assert close(ours, local.weights(), 1e-6)


def test_the_mean_of_the_heads_is_left_behind(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, sharing="head", **PARAMETERS)
    rounds(method, 3)
    left = method.finish().models["model"]
    assert close(left, average(now(method), small_clients), 1e-6)


@pytest.mark.parametrize(
    ("names", "head"),
    [
        (["lins.0.weight", "lins.0.bias", "lins.1.weight"], {"lins.1.weight"}),
        (["lin1.weight", "convs.1.beta", "lin2.weight", "lin2.bias"], {"lin2.weight", "lin2.bias"}),
        (["net.a.weight", "net.b.weight"], {"net.b.weight"}),
        (["input.weight", "convs.0.lin.weight", "output.weight"], {"output.weight"}),
        (["discriminator.first.weight", "convs.0.bias"], {"discriminator.first.weight"}),
    ],
)
def test_the_head_is_the_last_layer(names: list[str], head: set[str]) -> None:
    assert head_of(names) == head


@pytest.mark.parametrize("way", ["head", "encoder"])
def test_a_single_layer_has_no_halves(way: str) -> None:
    with pytest.raises(autofgl.errors.UserError, match=f"sharing={way} takes .* two layers"):
        head_of(["convs.0.lin.weight", "convs.0.lin.bias"], way)


def test_encoders_do_not_travel(small_clients: list[ClientGraph]) -> None:
    sent = {}
    for way in ("common", "encoder"):
        method = make("fedavg", small_clients, sharing=way, **QUICK)
        rounds(method, 3)
        sent[way] = method.federation.meter.ops["round"].bytes_up
    head = sum(local_models(small_clients)[0].weights()[name].size for name in HEAD)
    assert sent["encoder"] < 0.5 * sent["common"]
    assert sent["encoder"] > 3 * 3 * head, "one byte a value of the head at least, each round"


def test_ditto_by_hand(small_clients: list[ClientGraph]) -> None:
    """Algorithm 1: v ← v − η (∇F(v) + λ (v − w)), here with Adam, from w of the round's begin."""
    method = make("fedavg", small_clients, sharing="ditto", ditto_pull=0.5, **PARAMETERS)
    common, own = local_models(small_clients), local_models(small_clients)
    for at in (1, 2):
        start = common[0].weights()
        for local, v in zip(common, own, strict=True):
            local.train(2, at)
            generator = v.dropout_generator(at)
            for _ in range(2):
                v.backward(generator)
                for name, value in v.trained():
                    value.grad += 0.5 * (value.detach() - value.new_tensor(start[name]))
                v.step()
        mean = average([local.weights() for local in common], small_clients)
        for local in common:
            local.load_weights(mean)
    rounds(method, 2)
    for ours, v in zip(now(method, "own"), own, strict=True):
        assert close(ours, v.weights(), 1e-5)


def test_ditto_reports_and_keeps_own_models(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, sharing="ditto", **PARAMETERS)
    rounds(method, 4)
    outcome = method.finish()
    for line, party in zip(outcome.per_client, parties(method).values(), strict=True):
        own = Metrics.of(party.sharing.local.evaluate())
        assert line["val_accuracy"] == own.val_accuracy
        assert not close(party.sharing.local.weights(), outcome.models["model"], 1e-4)


def test_mixed_moments_by_hand(small_clients: list[ClientGraph]) -> None:
    """FedGTA's Eq. 3 to 5, with dense matrices and loops."""
    graph = small_clients[0]
    n, classes = graph.num_nodes, graph.classes
    labels = np.random.default_rng(3).dirichlet(np.ones(classes), n)
    adjacency = np.eye(n)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    degree = adjacency.sum(1)
    matrix = adjacency / np.sqrt(np.outer(degree, degree))
    spread, expected = labels, []
    for _ in range(STEPS):
        spread = KEPT * labels + (1 - KEPT) * matrix @ spread
        for order in range(1, ORDERS + 1):
            mean = [spread[:, c].mean() for c in range(classes)]
            centered = [(spread[:, c] - mean[c]) ** order for c in range(classes)]
            expected += mean if order == 1 else [float(one.mean()) for one in centered]
    confidence = sum(
        degree[v] * (1 / math.e + spread[v, c] * math.log(spread[v, c]))
        for v in range(n)
        for c in range(classes)
    )
    moments, ours = mixed_moments(graph, labels)
    assert np.allclose(moments, expected)
    assert ours == pytest.approx(confidence)


def test_who_is_averaged_with_whom() -> None:
    told = [
        {"moments": np.array([1.0, 0.0]), "confidence": 1.0},
        {"moments": np.array([1.0, 0.1]), "confidence": 3.0},
        {"moments": np.array([0.0, 1.0]), "confidence": 5.0},
    ]
    assert ALIKE == 0.5
    expected = [[0.25, 0.75, 0], [0.25, 0.75, 0], [0, 0, 1]]
    assert np.allclose(alike_by_moments(told), expected)
    functions = [{"function": one["moments"]} for one in told]
    cosine = 1 / math.sqrt(1.01)
    row = np.exp(SHARPNESS * np.array([1, cosine, 0]))
    assert np.allclose(alike_by_function(functions)[0], row / row.sum())


@pytest.mark.parametrize("way", ["fedgta", "fed-pub"])
def test_each_client_gets_its_own_average(way: str, small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, sharing=way, **QUICK)
    mine = local_models(small_clients)
    for local in mine:
        local.train(2, 1)
    rounds(method, 1)
    described = [party.sharing._describe(party.sharing) for party in parties(method).values()]
    mixing = (alike_by_moments if way == "fedgta" else alike_by_function)(described)
    method.training.evaluate()
    for ours, row in zip(now(method), mixing, strict=True):
        pairs = list(zip(mine, row, strict=True))
        expected = {name: sum(w * one.weights()[name] for one, w in pairs) for name in ours}
        assert close(ours, expected, 1e-5)


def test_figures_before_averaging(small_clients: list[ClientGraph]) -> None:
    """Figures of round 2 are those of the clients' models after their first local epochs."""
    method = make("fedavg", small_clients, evaluate="local-before-averaging", **PARAMETERS)
    plain = make("fedavg", small_clients, **PARAMETERS)
    mine = local_models(small_clients)
    for local in mine:
        local.train(2, 1)
    rows = rounds(method, 4)
    expected = Metrics.of(np.sum([local.evaluate() for local in mine], axis=0))
    assert rows[1]["val_accuracy"] == pytest.approx(expected.val_accuracy)
    assert rows[1]["train_loss"] == pytest.approx(expected.train_loss)
    rounds(plain, 4)
    last = [one.training.sharing.handout()["weights"] for one in (method, plain)]
    assert close(*last, 0), "it is no other way to train"


@pytest.mark.parametrize("way", ["fedgta", "fed-pub"])
def test_clients_keep_what_they_make_of_their_average(
    way: str, small_clients: list[ClientGraph]
) -> None:
    """The best round's figures are of the models after local epochs, which clients end with; the
    averages are the same as without.
    """
    settings = {**QUICK, "sharing": way}
    method = make("fedavg", small_clients, evaluate="local-before-averaging", **settings)
    plain = make("fedavg", small_clients, **settings)
    mine = local_models(small_clients)
    for local in mine:
        local.train(2, 1)
    rows = rounds(method, 4)
    expected = Metrics.of(np.sum([local.evaluate() for local in mine], axis=0))
    assert rows[1]["val_accuracy"] == pytest.approx(expected.val_accuracy)
    rounds(plain, 4)
    models = [one.training.sharing._models for one in (method, plain)]
    assert all(close(models[0][name], models[1][name], 0) for name in models[1])
    outcome = method.finish()
    lowest = min(row["val_loss"] for row in rows)
    assert outcome.extra["val_loss"] <= lowest * (1 + 1e-6), "what was best, or the last"
    if outcome.extra["best_round"] < len(rows):
        assert outcome.extra["val_loss"] == pytest.approx(lowest)
    for party in parties(method).values():
        sharing = party.sharing
        assert close(sharing.local.weights(), sharing.trained.model.weights(), 0)


def test_alone_is_what_separate_gives(small_clients: list[ClientGraph]) -> None:
    alone = make("separate", small_clients, rounds=4, lr=0.05, hidden=8)
    rounds(alone, 4)
    expected = alone.finish()
    method = make("fedavg", small_clients, compare_alone=True, **QUICK)
    rounds(method, 4)
    outcome = method.finish()
    assert outcome.extra["alone_test_accuracy"] == pytest.approx(expected.test_accuracy)
    for line, other in zip(outcome.per_client, expected.per_client, strict=True):
        assert line["alone_test_accuracy"] == other["test_accuracy"]
        assert line["gain"] == line["test_accuracy"] - other["test_accuracy"]
        assert line["gain_low"] <= line["gain_high"]
    counts = [outcome.extra[f"clients_{how}"] for how in ("better", "same", "worse")]
    assert sum(counts) == len(small_clients)


def test_the_interval_by_hand() -> None:
    """Agresti and Min, 2005: 8 against 2 of 100 nodes."""
    low, high = paired_interval(8, 2, 100)
    middle = 6 / 102
    half = 1.96 * math.sqrt(11 - 36 / 102) / 102
    assert (low, high) == pytest.approx((middle - half, middle + half))
