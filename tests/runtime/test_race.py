"""Races: who is promoted, that trainings go on where they were, and what may disturb them."""

import math
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

from autofgl.federation.payload import Payload, decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import CandidateSettings
from autofgl.runtime.local_model import Weights
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.race import Race
from autofgl.runtime.recipe import Recipe
from autofgl.search.halving import bracket_rounds
from autofgl.sharing.common import COMMON
from autofgl.tasks.losses import TEMPERATURES
from federations import make, parties

ROUNDS = 8  # rungs of 2, 4 and 8 rounds
SMALL: dict[str, Any] = {"layers": 2, "hidden": 8, "rounds": 20, "lr": 0.05, "select": "accuracy"}
SMALL["compress"] = "none"  # what is rounded at random differs from training to training
RECIPES = [
    Recipe(network="relu | gcn<0 | identity"),
    Recipe(network="tanh | sage<0 | identity", settings={"dropout": 0.2}),
    Recipe(network="relu | - | identity", settings={"normalize_features": False}),
    Recipe(network="gcn", settings={"lr": 0.02}),
    Recipe(network="sgc", settings={"dropout": 0.0, "hidden": 16}),
]
WILD = Recipe(network="relu | gcn<0 gcn<1 | identity", settings={"lr": 1e30})


class Averaging(SharedTraining):
    """Federated averaging of the networks of recipes, without a search."""

    Settings = CandidateSettings
    ways: ClassVar = {"common": COMMON}


def begin(
    clients: list[ClientGraph], *recipes: Recipe, kept: int = 2, **about: Any
) -> tuple[Any, Race]:
    """A federation, and a race on it."""
    method = make(Averaging, clients, **{**SMALL, **about})
    race = race_of(method, kept)
    race.begin(recipes or RECIPES)
    return method, race


def race_of(method: Any, kept: int = 2) -> Race:
    return Race(lambda at, one: method.engine(one, stage=f"candidate-{at}-"), ROUNDS, kept)


def run(race: Race, most: int = 10**6) -> list[tuple[int, dict[str, Any]]]:
    """Rounds until the bracket is over: the number of the entry, and the row."""
    rows = []
    while race.running and len(rows) < most:
        row, entry = race.step()
        rows.append((entry.number, row))
    return rows


def plain_weights(clients: list[ClientGraph], recipe: Recipe, rounds: int, **about: Any) -> Weights:
    """A client's weights after so many rounds of a training that nothing interrupts."""
    method = make(Averaging, clients, **{**SMALL, **about})
    method.training = method.engine(recipe)
    method.training.start(recipe)
    for _ in range(rounds):
        method.training.step()
    method.before_checkpoint()
    found: Weights = parties(method)["client-1"].sharing.local.weights()
    return found


def weights_at(method: Any, number: int, name: str = "client-1") -> Weights:
    """A client's weights of an entry, present or parked."""
    party, stage = parties(method)[name], f"candidate-{number}-"
    trainings = party.trainings
    sharing = party.sharing if party.stage == stage else trainings.parked[stage].sharing
    found: Weights = sharing.local.weights()
    return found


def equal(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def moved(method: Any, race: Race, clients: list[ClientGraph], **about: Any) -> tuple[Any, Race]:
    """The same race in another federation, by states that went through the codec."""
    race.before_checkpoint()
    other = make(Averaging, clients, **{**SMALL, **about})
    for name, party in parties(other).items():
        party.load_state(decode(encode(parties(method)[name].state())))
    again = race_of(other)
    again.load_state(decode(encode(race.state())))
    return other, again


def test_the_better_half_goes_on_by_hand(small_clients: list[ClientGraph]) -> None:
    """Entries compete by the best round so far; all of a rung train before any goes on."""
    method, race = begin(small_clients)
    expected_left = bracket_rounds(5, ROUNDS)
    assert race.planned == expected_left == 5 * 2 + 3 * 2 + 2 * 4
    seen: dict[int, list[float]] = {}
    alive, before = [1, 2, 3, 4, 5], 0
    for rung, end in enumerate((2, 4, 8)):
        for number in alive:
            for _ in range(end - before):
                row, entry = race.step()
                expected_left -= 1
                assert (entry.number, row["rung"]) == (number, rung)
                assert row["test_accuracy"] is None
                assert race.planned == expected_left
                seen.setdefault(number, []).append(row["val_accuracy"])
        before = end
        if rung < 2:
            order = sorted(alive, key=lambda number: race.entries[number - 1].loss)
            pruned = order[math.ceil(len(alive) / 2) :]
            assert {one.number for one in race.entries if one.ending == "pruned"} >= set(pruned)
            alive = sorted(set(alive) - set(pruned))
    assert not race.running
    assert race.planned == 0
    assert {one.number for one in race.entries if one.ending == "done"} == set(alive)
    for one in race.entries:
        assert one.val_accuracy == one.score == max(seen[one.number])
        assert one.loss == one.val_loss, "that after temperature scaling"
        assert one.rounds == len(seen[one.number])
    places = [one.number for one in race.best_first]
    assert set(places[:2]) == set(alive), "more rounds do not make the best round worse"
    assert race.entries[3].parameters > 0
    stages = {f"candidate-{number}-" for number in alive}
    assert all(set(party.trainings.parked) <= stages for party in parties(method).values())


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_recipes_compete_by_the_loss_after_temperature_scaling(
    small_clients: list[ClientGraph], secure: str
) -> None:
    """By hand, at the initial weights: the mean over all validation nodes, at the best of the
    temperatures.
    """
    method, race = begin(small_clients, RECIPES[0], secure=secure)
    row, entry = race.step()
    logits, labels = [], []
    for client in small_clients:
        data = client.to_pyg()
        scores = parties(method)[client.name].sharing.local.logits()
        logits.append(scores[data.val_mask])
        labels.append(data.y[data.val_mask])
    found, wanted = torch.cat(logits).detach(), torch.cat(labels)
    losses = [float(functional.cross_entropy(found / t, wanted)) for t in TEMPERATURES]
    assert entry.loss == pytest.approx(min(losses), abs=1e-5)
    plain = float(functional.cross_entropy(found, wanted))
    assert row["val_loss"] == pytest.approx(plain, abs=1e-5), "in the history it is as it is"
    assert entry.loss < plain, "initial weights are too sure of themselves, or not enough"


def test_with_another_objective_recipes_compete_by_it(small_clients: list[ClientGraph]) -> None:
    _, race = begin(small_clients, RECIPES[0], objective="macro_f1")
    _, entry = race.step()
    assert entry.loss == pytest.approx(1 - entry.score + 1e-6 * entry.val_loss, abs=1e-12)


@pytest.mark.parametrize(
    ("secure", "aggregate"),
    [("none", "gradients"), ("none", "parameters"), ("shares", "gradients")],
)
def test_nothing_is_trained_twice_and_nobody_disturbs_another(
    small_clients: list[ClientGraph], secure: str, aggregate: str
) -> None:
    """What was parked between rungs has the weights of a training that was left alone."""
    calls: Counter[tuple[str, int]] = Counter()

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "down" and op == "round" and party == "client-1":
            calls[payload["stage"], payload["round"]] += 1

    about = {"secure": secure, "aggregate": aggregate}
    method, race = begin(small_clients, observer=watch, **about)
    run(race)
    race.before_checkpoint()  # takes in the last update, as parking does
    assert set(calls.values()) == {1}
    made = Counter(stage for stage, _ in calls)
    assert sorted(made.values()) == [2, 2, 4, 8, 8]
    ended = [one for one in race.entries if one.ending == "done"]
    assert len(ended) == 2
    for one in ended:
        plain = plain_weights(small_clients, RECIPES[one.number - 1], ROUNDS, **about)
        assert equal(weights_at(method, one.number), plain)


@pytest.mark.parametrize(
    ("secure", "rounds"), [("none", 3), ("none", 10), ("none", 17), ("shares", 13)]
)
def test_a_saved_race_ends_as_one_that_was_left_alone(
    small_clients: list[ClientGraph], secure: str, rounds: int
) -> None:
    """In the first rung, between two, and while others are parked in the middle of theirs."""
    method, race = begin(small_clients, secure=secure)
    run(race, rounds)
    other, again = moved(method, race, small_clients, secure=secure)
    rest = run(race)
    assert run(again) == rest
    assert again.entries == race.entries
    best = race.best_first[0].number
    assert equal(weights_at(other, best), weights_at(method, best))


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_diverged_entry_has_no_result(small_clients: list[ClientGraph], secure: str) -> None:
    _, race = begin(small_clients, RECIPES[0], WILD, RECIPES[1], secure=secure)
    run(race)
    wild = race.entries[1]
    assert (wild.ending, wild.loss, wild.rung) == ("diverged", math.inf, 0)
    assert wild not in race.best_first
    assert race.training(wild) is None
    assert "candidate-2-" in race.room()["forget"]
    assert sorted(one.ending for one in race.entries) == ["diverged", "done", "pruned"]


def test_if_all_diverge_the_bracket_is_over(small_clients: list[ClientGraph]) -> None:
    _, race = begin(small_clients, WILD, WILD)
    rows = run(race)
    assert not race.running
    assert race.best_first == []
    assert len(rows) <= 2 * 2
    race.begin(RECIPES[:1])
    run(race)
    assert [one.number for one in race.best_first] == [3]


def test_brackets_compete_and_the_best_stay_parked(small_clients: list[ClientGraph]) -> None:
    method, race = begin(small_clients, *RECIPES[:2], kept=1)
    run(race)
    race.begin(RECIPES[2:4])
    assert [one.number for one in race.entries] == [1, 2, 3, 4]
    run(race)
    best, *others = race.best_first
    assert race.training(best) is not None
    assert all(race.training(one) is None for one in others)
    room = race.room()
    assert room["park"] == (best.number > 2), "whether it is the present training"
    method.engine(RECIPES[4], stage="other-").start(RECIPES[4], trial=True, room=room)
    for party in parties(method).values():
        assert set(party.trainings.parked) == {f"candidate-{best.number}-"}


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_without_a_client_that_is_lost_while_its_training_is_parked(
    small_clients: list[ClientGraph], secure: str
) -> None:
    about = {"secure_threshold": 2} if secure == "shares" else {}
    method, race = begin(small_clients, secure=secure, **about)
    run(race, 10)
    method.federation.drop("client-1")
    rows = run(race)
    assert {row["clients"] for _, row in rows} == {2}
    assert len(rows) == 3 * 2 + 2 * 4


@pytest.mark.parametrize(
    ("secure", "aggregate", "rounds"),
    [
        ("none", "gradients", 10), ("shares", "gradients", 10), ("shares", "gradients", 11),
        ("none", "parameters", 11),
    ],
)  # fmt: skip
def test_who_comes_back_with_nothing_catches_up(
    small_clients: list[ClientGraph], secure: str, aggregate: str, rounds: int
) -> None:
    """A client that lost its trainings takes them up from another, each when it goes on."""
    about = {"secure": secure, "aggregate": aggregate}
    undisturbed, calm = begin(small_clients, **about)
    run(calm)
    method, race = begin(small_clients, **about)
    run(race, rounds)
    race.before_checkpoint()
    gone, fresh = parties(method)["client-1"], make(Averaging, small_clients, **{**SMALL, **about})
    gone.load_state(parties(fresh)["client-1"].state())
    method.catch_up(["client-1"])
    race.catch_up(["client-1"])
    rows = run(race)
    assert {row["clients"] for _, row in rows} == {3}
    if aggregate == "parameters":  # the moments of its Adam were its own
        assert all(
            one.loss == pytest.approx(calm.entries[one.number - 1].loss, abs=0.2)
            for one in race.entries
        )
        return
    assert race.entries == calm.entries, "with dropout by name and round, nothing is different"
    best = race.best_first[0].number
    for name in ("client-0", "client-1"):
        assert equal(weights_at(method, best, name), weights_at(undisturbed, best, name))


def test_a_bracket_that_is_cut_short_leaves_what_it_has(small_clients: list[ClientGraph]) -> None:
    _, race = begin(small_clients)
    run(race, 5)
    race.wrap_up()
    assert not race.running
    assert [one.ending for one in race.entries] == ["done"] * 3 + ["pruned"] * 2
    assert [one.rounds for one in race.entries] == [2, 2, 1, 0, 0]
    assert {one.number for one in race.best_first} == {1, 2, 3}
    assert [race.training(one) is not None for one in race.best_first] == [True, True, False]


def test_little_time_leaves_the_best_so_far_and_they_go_on(
    small_clients: list[ClientGraph],
) -> None:
    _, race = begin(small_clients, *RECIPES[:4], select="loss")
    run(race, 5)  # two have made the rounds of the first rung, the third one round
    best = sorted(race.entries[:3], key=lambda one: one.loss)[:2]
    race.narrow(2)
    assert {one.number for one in race.entries if one.ending == "running"} == {
        one.number for one in best
    }
    while race.running:
        race.step()
    assert max(one.rounds for one in best) == 8
    assert [race.entries[3].rounds, race.entries[3].ending] == [0, "pruned"]
    race.narrow(1)
    assert not race.running
