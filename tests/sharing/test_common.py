"""Federated averaging, against training by hand; lost clients, early ends, divergence."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

import autofgl
from autofgl.errors import FederationError
from autofgl.federation.payload import Payload
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.methods.fl_agcns.rivals import FLRandom
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.settings import FederatedSettings
from autofgl.sharing.common import COMMON, PERSONAL, PERSONAL_EPOCHS
from federations import (
    close,
    die_in,
    intercept,
    leaves,
    local_model,
    make,
    parties,
    rounds,
    to_the_end,
    without,
)

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
    method = make("fedavg", [broken, *small_clients[1:]], rounds=3)
    with pytest.raises(FederationError, match=r"client-0.*not finite.*lower 'lr'"):
        rounds(method, 3)


# Personal fine-tuning: by hand, never for the worse, and nobody else's affair.


QUICK: dict[str, Any] = {"rounds": 5, "lr": 0.05, "hidden": 8, "local_epochs": 1}


class PersonalSettings(FederatedSettings):
    personal_epochs: int = PERSONAL_EPOCHS


class Personal(SharedTraining):
    Settings = PersonalSettings
    ways: ClassVar = {"personal": PERSONAL}


@pytest.fixture(scope="module")
def skewed(small_graph: ClientGraph) -> list[ClientGraph]:
    """Three clients, each with most of one class."""
    settings = PartitionSettings(label_alpha=0.8)
    return autofgl.partition(small_graph, clients=3, method="labels", seed=0, settings=settings)


def models(method: Any) -> dict[str, LocalModel]:
    return {name: party.sharing.local for name, party in parties(method).items()}


def val_loss(model: LocalModel) -> float:
    return Metrics.of(model.evaluate()).val_loss


def with_weights(client: ClientGraph, weights: Any) -> Any:
    model = local_model(client, PersonalSettings(**QUICK))
    model.load_weights(weights)
    return model


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_the_fine_tuning_by_hand(skewed: list[ClientGraph], aggregate: str) -> None:
    """From the common weights, the best of 20 epochs on own validation nodes, or none of them."""
    method = make(Personal, skewed, aggregate=aggregate, **QUICK)
    before: dict[str, Any] = {}

    for name, party in parties(method).items():

        def remember(op: str, payload: Payload, name: str = name, party: Any = party) -> None:
            if op == "conclude":
                before[name] = party.sharing.local.state()

        intercept(party, remember)
    rounds(method, 5)
    common = method.finish().models["model"]
    for client in skewed:
        model = with_weights(client, common)
        model.load_state({**before[client.name], "weights": common})
        weights, losses = [common], [val_loss(model)]
        for epoch in range(PERSONAL_EPOCHS):
            model.train(1, QUICK["rounds"] + 1 + epoch)
            weights.append(model.weights())
            losses.append(val_loss(model))
        expected = weights[int(np.argmin(losses))]
        assert close(models(method)[client.name].weights(), expected, 0)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("secure", ["none", "shares"])
def test_nobody_is_worse_off_on_its_own_validation_nodes(
    skewed: list[ClientGraph], aggregate: str, secure: str
) -> None:
    method = make(Personal, skewed, secure=secure, aggregate=aggregate, **QUICK)
    rounds(method, 5)
    outcome = method.finish()
    gains = [
        val_loss(with_weights(client, outcome.models["model"])) - val_loss(own)
        for client, own in zip(skewed, models(method).values(), strict=True)
    ]
    assert min(gains) >= 0
    assert max(gains) > 0.05, "else this test shows nothing"


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_the_common_model_is_that_of_federated_averaging(
    skewed: list[ClientGraph], aggregate: str
) -> None:
    method, plain = (
        make(name, skewed, aggregate=aggregate, **QUICK) for name in (Personal, "fedavg")
    )
    assert rounds(method, 5) == rounds(plain, 5)
    outcome, expected = method.finish(), plain.finish()
    assert close(outcome.models["model"], expected.models["model"], 0)
    assert outcome.extra["common_test_accuracy"] == expected.test_accuracy
    assert outcome.extra["common_val_accuracy"] == expected.val_accuracy
    right, count = np.sum(
        [model.evaluate().reshape(3, 3)[2, 1:] for model in models(method).values()], axis=0
    )
    assert outcome.test_accuracy == pytest.approx(right / count), "the figure of personal weights"
    assert outcome.test_accuracy > expected.test_accuracy
    for line, model in zip(outcome.per_client, models(method).values(), strict=True):
        assert line["test_accuracy"] == Metrics.of(model.evaluate()).test_accuracy


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_personal_weights_do_not_travel(skewed: list[ClientGraph], aggregate: str) -> None:
    arrays: list[Any] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        seen = (value for value in leaves(payload) if isinstance(value, np.ndarray))
        arrays.extend(value.reshape(-1).astype(np.float32) for value in seen)

    method = make(Personal, skewed, aggregate=aggregate, observer=watch, **QUICK)
    rounds(method, 5)
    common = method.finish().models["model"]

    def shown(weights: Any) -> float:
        """Share of the entries that are together in a message; biases may be alike."""
        secret = weights["convs.0.lin.weight"].reshape(-1)
        return max(float(np.isin(secret, array).mean()) for array in arrays)

    assert shown(common) == 1, "the common ones do, and so the test can fail"
    personal = [model.weights() for model in models(method).values()]
    assert not any(close(weights, common, 1e-3) for weights in personal)
    assert all(shown(weights) < 0.1 for weights in personal)
    exported = [reply["weights"] for reply in method.federation.call("export").ok.values()]
    assert all(close(weights, common, 0) for weights in exported)


@pytest.mark.parametrize("missing", ["train_mask", "val_mask"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_who_cannot_train_or_choose_keeps_the_common_model(
    skewed: list[ClientGraph], missing: str, aggregate: str
) -> None:
    clients = [skewed[0], without(skewed[1], missing), skewed[2]]
    method = make(Personal, clients, aggregate=aggregate, **QUICK)
    rounds(method, 5)
    common = method.finish().models["model"]
    kept = [close(model.weights(), common, 0) for model in models(method).values()]
    assert kept == [False, True, False]


def test_without_epochs_everybody_keeps_it(skewed: list[ClientGraph]) -> None:
    method = make(Personal, skewed, personal_epochs=0, **QUICK)
    rounds(method, 5)
    outcome = method.finish()
    assert outcome.test_accuracy == outcome.extra["common_test_accuracy"]
    assert all(
        close(model.weights(), outcome.models["model"], 0) for model in models(method).values()
    )


class PersonalSearch(FLRandom):
    """Any searcher pairs with any way of sharing: trials share, the finalists personalize."""

    ways: ClassVar = {"common": COMMON, "personal": PERSONAL}

    def final_recipe(self, recipe: Recipe) -> Recipe:
        return recipe.model_copy(update={"sharing": "personal"})


def test_a_search_may_end_in_personal_networks(skewed: list[ClientGraph]) -> None:
    small = {"candidates": 3, "candidate_rounds": 2, "layers": 2, "finalists": 2}
    method = make(PersonalSearch, skewed, **small, rounds=4, lr=0.05, hidden=8)
    method.setup()
    to_the_end(method)
    extra = method.finish().extra
    networks = [one["genotype"] for one in extra["top"][:2]]
    assert [one["recipe"] for one in extra["finalists"]] == [f"personal: {n}" for n in networks]
    assert 0 <= extra["common_test_accuracy"] <= 1
