"""Clients that configure themselves: rounds by hand, modes, advice to new clients."""

import itertools
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl import client as client_half
from autofgl.methods.graphfl.client import SelfConfiguredClient
from autofgl.methods.graphfl.configurations import take
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.method import GraphFLGA
from autofgl.methods.graphfl.search_jobs import SearchJob, SearchLost
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.steps import distance
from autofgl.methods.graphfl.trials import Situation
from autofgl.secure import MODES
from autofgl.sharing.meta.model import MetaModel
from families import family
from federations import local_model, make, rounds, without

QUICK: dict[str, Any] = {"population": 3, "iterations": 2, "inner_steps": 1, "adapt_steps": 2}
QUICK |= {"hidden": 4, "rounds": 4, "structure_after": 0, "structure_margin": 0.0}
QUICK |= {"families": "sgc,gcn,appnp"}


def settings_of(**changed: Any) -> GraphFLGASettings:
    return GraphFLGASettings(**{**QUICK, **changed})


@pytest.mark.parametrize(
    ("model", "structure"),
    family(
        itertools.product(("sgc", "gcn", "appnp"), (True, False)),
        [("sgc", True), ("gcn", False), ("appnp", True)],
    ),
)
def test_without_searches_it_is_graphfl(
    small_clients: list[ClientGraph], model: str, structure: bool
) -> None:
    common = {"model": model, "hidden": 4, "inner_steps": 2, "adapt_steps": 2, "participation": 0.6}
    common["dropout"] = 0.0
    plain = make("graphfl", small_clients, **common)
    ours = make(
        "graphfl-ga", small_clients, **common, mode="threshold", threshold=0.0,
        evolve_structure=structure, optimizer="adam", lr=0.01, adapt="always",
        common_rate=False,
    )  # fmt: skip
    rows, expected = rounds(ours, 4), rounds(plain, 4)
    for row, other in zip(rows, expected, strict=True):
        assert {key: row[key] for key in other} == other
    found, other = ours.finish(), plain.finish()
    assert found.test_accuracy == other.test_accuracy
    for name, value in other.models["model"].items():
        assert np.array_equal(found.models["model"][name], value)
    assert found.architecture.split(",")[0] == model


def test_clients_move_the_average_equally_far(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as they went on average, by training nodes, in the last round."""
    went: list[tuple[float, float, int]] = []
    vectors = SelfConfiguredClient.vectors

    def watched(self: SelfConfiguredClient) -> Any:
        own = vectors(self)
        parts = self._space.parts_of(self._active)
        sent = distance(take(self._blocks, parts), take(own, parts))
        went.append((float(own["lengths"].sum()), sent, self.local.taught_nodes))
        return own

    monkeypatch.setattr(SelfConfiguredClient, "vectors", watched)
    method = make("graphfl-ga", small_clients, **QUICK, evolve_structure=False, environment=False)
    rounds(method, 2)
    first, second = went[: len(small_clients)], went[len(small_clients) :]
    assert [sent for _, sent, _ in first] == pytest.approx([own for own, _, _ in first])
    mean = np.average([own for own, _, _ in first], weights=[nodes for _, _, nodes in first])
    assert [sent for _, sent, _ in second] == pytest.approx([mean] * len(second), rel=1e-4)
    assert len({round(own, 6) for own, _, _ in second}) > 1


def weights_left(search: Configurator, share: float) -> list[float]:
    """In the first round: all hold the environment's network, whoever leaves it is alone."""
    home = search.space.shape_of(search.space.environment)
    return [share**0.5 if shape == home else 1.0 for shape in search.space.shapes]


def test_a_round_by_hand(small_clients: list[ClientGraph]) -> None:
    """Search, train on from the winner's network, average each entry over its holders."""
    method = make("graphfl-ga", small_clients, **QUICK, inner_lr=0.4)
    assert isinstance(method, GraphFLGA)
    method.setup()
    whole = method.training.sharing.weights
    method.step()
    found = method.training.sharing.weights
    total = {name: np.zeros(value.shape) for name, value in whole.items()}
    weight = {name: np.zeros(value.shape) for name, value in whole.items()}
    shapes = set()
    for client in small_clients:
        search = Configurator(client, settings_of(inner_lr=0.4), 0)
        own = client.train_mask.sum() / sum(each.train_mask.sum() for each in small_clients)
        winner = search.evolve(Situation(1, whole, weights_left(search, own)))
        space, chromosome = search.space, winner.chromosome
        settings = space.settings_of(chromosome)
        model = local_model(client, settings, space.spec_of(chromosome), MetaModel)
        model.load_state(winner.trained)
        model.learn(1, again=1)
        share = client.train_mask.sum()
        shapes.add(space.shape_of(chromosome))
        for name, part in space.parts_of(chromosome).items():
            total[part.block][part.index] += share * model.weights()[name].astype("f8")
            weight[part.block][part.index] += share
    assert len(shapes) > 1, "else it is FedAvg"
    for name, value in found.items():
        expected = np.where(
            weight[name] > 0, total[name] / np.maximum(weight[name], 1), whole[name]
        )
        np.testing.assert_allclose(value, expected, atol=1e-6, err_msg=name)


def test_the_same_seed_gives_the_same_run(small_clients: list[ClientGraph]) -> None:
    for mode in ("continuous", "threshold"):
        runs: list[Any] = []
        for seed in (0, 0, 1):
            method = make("graphfl-ga", small_clients, **QUICK, mode=mode, threshold=1.0, seed=seed)
            rounds(method, 2)
            outcome = method.finish()
            weights = method.training.sharing.weights
            found = [row["configuration"] for row in outcome.per_client]
            runs.append((found, {name: value.tobytes() for name, value in weights.items()}))
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]


@pytest.mark.parametrize("secure", [mode for mode in MODES if mode != "none"])
def test_secure_modes_give_the_plain_run(secure: str, small_clients: list[ClientGraph]) -> None:
    found = []
    for mode in ("none", secure):
        share = 1.0 if secure == "shares-additive" else 0.6  # which needs all clients
        about = {**QUICK, "participation": share, "secure_threshold": 2}
        method = make("graphfl-ga", small_clients, secure=mode, **about)
        rows = rounds(method, 2)
        weights = method.training.sharing.weights
        found.append((rows, weights, method.finish()))
    (plain_rows, plain_weights, plain), (rows, weights, outcome) = found
    for name, value in plain_weights.items():
        np.testing.assert_allclose(weights[name], value, atol=1e-4, err_msg=name)
    assert outcome.architecture == plain.architecture
    for row, other in zip(rows, plain_rows, strict=True):
        assert row["query_loss"] == pytest.approx(other["query_loss"], rel=1e-3)
        assert row["trials"] == other["trials"]
    assert outcome.per_client == [{"name": c.name, "new": False} for c in small_clients]


def test_the_two_lists_of_the_threshold_method(small_graph: ClientGraph) -> None:
    """Train, fall below, search in the next round, return: nobody reaches an accuracy of 1."""
    clients = autofgl.partition(small_graph, clients=4, method="random", seed=0)
    asked: list[tuple[int, str, bool, bool]] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "down" and op == "round":
            asked.append((payload["round"], party, payload["train"], payload["evolve"]))

    method = make(
        "graphfl-ga", clients, **QUICK, mode="threshold", threshold=1.0, participation=0.5,
        observer=watch,
    )  # fmt: skip
    rows = rounds(method, 6)
    for row in rows:
        now = {party: (train, evolve) for at, party, train, evolve in asked if at == row["round"]}
        assert not any(train and evolve for train, evolve in now.values())
        assert row["changed"] == sum(evolve for _, evolve in now.values())
        assert (row["trials"] > 0) == (row["changed"] > 0)
    trained = {(at, party) for at, party, train, _ in asked if train}
    searched = {(at, party) for at, party, _, evolve in asked if evolve}
    assert searched <= {(at + 1, party) for at, party in trained}, "only after a training"
    assert searched, "somebody was below"
    never = make("graphfl-ga", clients, **QUICK, mode="threshold", threshold=0.0)
    assert all(row["changed"] == row["trials"] == 0 for row in rounds(never, 3))


def test_when_all_change_nobody_trains(small_clients: list[ClientGraph]) -> None:
    method = make(
        "graphfl-ga", small_clients, **QUICK, mode="threshold", threshold=1.0, dropout=0.0, lr=1e-3
    )  # fmt: skip
    method.setup()
    method.training.sharing._changing = {client.name for client in small_clients}
    before = method.training.sharing.weights
    row = method.step()
    assert (row["clients"], row["changed"]) == (0, 3)
    assert all(
        np.array_equal(value, before[name])
        for name, value in method.training.sharing.weights.items()
    )
    assert method.step()["clients"] == 3


@pytest.mark.slow
def test_parallel_adopts_what_the_process_finds(small_clients: list[ClientGraph]) -> None:
    """With the weights of the first round and so many rounds later, as a search here would find."""
    method = make("graphfl-ga", small_clients, **QUICK, mode="parallel", adopt_after=2)
    method.setup()
    whole = method.training.sharing.weights
    rows = [method.step() for _ in range(3)]
    assert [row["trials"] > 0 for row in rows] == [False, False, True]
    plain = make("graphfl", small_clients, hidden=4, inner_steps=1, adapt_steps=2)
    for row, other in zip(rows[:2], rounds(plain, 2), strict=True):
        assert row["test_accuracy"] == other["test_accuracy"], "the training went on"
    found = [row["configuration"] for row in method.finish().per_client]
    for client, configuration in zip(small_clients, found, strict=True):
        search = Configurator(client, settings_of(mode="parallel", adopt_after=2), 0)
        own = client.train_mask.sum() / sum(each.train_mask.sum() for each in small_clients)
        winner = search.evolve(Situation(1, whole, weights_left(search, own))).chromosome
        voted = {"sgd_lr": configuration["sgd_lr"]}  # which goes on changing
        assert configuration == {**search.space.full(winner), **voted}
    method.federation.close()


def test_a_lost_search_leaves_the_configuration(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: SearchJob) -> Payload:
        raise SearchLost("gone")

    monkeypatch.setattr(SearchJob, "result", lost)
    never: Any = Future()
    monkeypatch.setattr(client_half, "submit_search", lambda message: SearchJob(message, never))
    method = make("graphfl-ga", small_clients, **QUICK, mode="parallel", adopt_after=1)
    assert [row["trials"] for row in rounds(method, 3)] == [0, 0, 0]
    assert {row["configuration"]["model"] for row in method.finish().per_client} == {"sgc"}


def test_a_new_client_follows_the_advice(small_clients: list[ClientGraph]) -> None:
    method = make("graphfl-ga", small_clients, **QUICK, new_clients=1)
    rounds(method, 3)
    sharing = method.training.sharing
    advice, weights = sharing._advice, sharing.weights
    found = method.finish()
    space = Configurator(small_clients[0], settings_of(), 0).space
    shape = space.shapes[advice["shape"]]
    last = found.per_client[2]
    assert last["new"]
    assert space.shape_of(last["configuration"]) == shape
    assert last["configuration"]["inner_lr"] == advice["inner_lr"]
    held = [space.shape_of(row["configuration"]) for row in found.per_client[:2]]
    assert shape in held
    rates = [row["configuration"]["inner_lr"] for row in found.per_client[:2]]
    nodes = [client.train_mask.sum() for client in small_clients[:2]]
    mean = np.exp(np.average(np.log(rates), weights=nodes))
    assert advice["inner_lr"] == pytest.approx(mean, rel=1e-5)
    expected = take(weights, space.parts[advice["shape"]])
    for name, value in found.models["model"].items():
        assert np.array_equal(value, expected[name])


@pytest.mark.slow
def test_adaptation_helps_an_unseen_client() -> None:
    """Label skew and weak features; what it adapts to is not what it is tested on."""
    data = DataSettings(
        nodes=240, classes=4, features=60, degree=4, homophily=0.4, topic_strength=0.15
    )
    gains = []
    for seed in range(3):
        graph = autofgl.load("synthetic", seed=seed, settings=data)
        skew = PartitionSettings(dirichlet_beta=0.2)
        clients = autofgl.partition(graph, 4, "dirichlet", seed, settings=skew)
        assert not (clients[3].train_mask & clients[3].test_mask).any()
        method = make(
            "graphfl-ga", clients, **QUICK, new_clients=1, seed=seed, strict=False, inner_lr=0.3,
            adapt="always", common_rate=False, lr=1.0,
        )  # fmt: skip
        rounds(method, 3)
        new = method.finish().extra["new"]
        gains.append(new["test_accuracy"] - new["unadapted_test_accuracy"])
    print("gain of an unseen client by adaptation:", np.round(gains, 3).tolist())
    assert np.mean(gains) > 0.1


def test_clients_that_cannot_search_train_as_they_are(small_clients: list[ClientGraph]) -> None:
    first, second, third = small_clients
    blind, dumb = without(second, "val_mask"), without(third, "train_mask")
    for mode in ("continuous", "threshold", "parallel"):
        method = make(
            "graphfl-ga", [first, blind, dumb], **QUICK, mode=mode, threshold=1.0, adopt_after=1
        )  # fmt: skip
        rows = rounds(method, 3)
        assert all(np.isfinite(row["query_loss"]) for row in rows)
        method.finish()


def test_a_run_leaves_a_model_and_the_configurations(
    small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run("graphfl-ga", small_clients, out=out, **QUICK)
    figures = result.figures
    assert figures["trials"] == sum(row["trials"] for row in result.history)
    assert all(row["search_s"] > 0 for row in result.history)
    assert {"model", "inner_lr", "support"} <= set(figures["per_client"][0]["configuration"])
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (small_clients[0].num_nodes, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"select": "accuracy"}, "select=accuracy: a client's configuration"),
        ({"model": "gat"}, "unknown model of graphfl-ga 'gat'"),
        ({"unseen_classes": 2}, "leaves fewer than two of the 3 classes"),
    ],
)
def test_what_cannot_work_is_refused(
    settings: dict[str, Any], message: str, small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError, match=message):
        autofgl.run("graphfl-ga", small_clients, out=out, **settings)
    assert not out.exists()
