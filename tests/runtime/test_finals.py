"""The finals: standings by hand, passes over initial weights, and what a budget leaves."""

import math
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import CandidateSettings
from autofgl.runtime.finals import Finalist, Finals, choose, named, standings
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.race import calibrate
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.trial_model import TrialModel
from autofgl.sharing.common import COMMON
from federations import make, parties

SMALL: dict[str, Any] = {"layers": 2, "hidden": 8, "rounds": 4, "lr": 0.05, "compress": "none"}
GCN = Recipe(network="relu | gcn<0 | identity")
SAGE = Recipe(network="relu | sage<0 | identity", settings={"dropout": 0.2})
FIXED = Recipe(network="sgc", settings={"dropout": 0.0})


def trained(recipe: str, loss: float, size: int = 10, init: int = 0) -> Finalist:
    """A training that is over."""
    return Finalist(recipe, init, over=True, loss=loss, parameters=size)


class TestChoice:
    def test_means_and_their_pooled_standard_errors(self) -> None:
        """Variances of 0.0008 and 0.0002 have a mean of 0.0005; two of each make a mean."""
        finalists = [
            trained("a", 0.60), trained("b", 0.55), trained("a", 0.56, init=1),
            trained("b", 0.57, init=1), trained("c", 0.9),
        ]  # fmt: skip
        ranked = standings(finalists)
        assert [one.recipe for one in ranked] == ["b", "a", "c"]
        assert [one.loss for one in ranked] == pytest.approx([0.56, 0.58, 0.9])
        deviation = math.sqrt(0.0005)
        errors = [deviation / math.sqrt(2), deviation / math.sqrt(2), deviation]
        assert [one.error for one in ranked] == pytest.approx(errors)
        assert [one.inits for one in ranked] == [2, 2, 1]

    @pytest.mark.parametrize(("second", "chosen"), [(0.56, 1), (0.54, 2)])
    def test_the_simplest_within_a_standard_error_of_the_best(
        self, second: float, chosen: int
    ) -> None:
        """b has 0.56 ± 0.016: a mean of 0.58 is worse, and 0.57 is not."""
        finalists = [
            trained("a", 0.60, size=5), trained("b", 0.55), trained("a", second, size=5, init=1),
            trained("b", 0.57, init=1),
        ]  # fmt: skip
        assert choose(finalists) == chosen

    def test_with_one_training_each_the_best_then_the_smaller(self) -> None:
        assert choose([trained("a", 0.7, size=1), trained("b", 0.6)]) == 1
        assert choose([trained("a", 0.6, size=9), trained("b", 0.6, size=3)]) == 1

    def test_of_a_recipes_trainings_the_best(self) -> None:
        assert (
            choose([trained("a", 0.8), trained("a", 0.7, init=1), trained("a", 0.9, init=2)]) == 1
        )

    def test_what_has_diverged_or_is_not_over_does_not_count(self) -> None:
        lost, waiting = trained("a", math.inf), Finalist("c", 0, loss=0.01)
        assert choose([lost, trained("b", 3.0), waiting]) == 1
        assert standings([lost, waiting]) == []
        with pytest.raises(AutoFGLError, match="all finalists diverged: lower 'lr'"):
            choose([lost])

    def test_a_diverged_draw_of_the_initial_weights_is_not_taken(self) -> None:
        finalists = [trained("a", 0.6), trained("a", math.inf, init=1)]
        assert choose(finalists) == 0
        assert standings(finalists)[0].inits == 1


class Averaging(SharedTraining):
    """Federated averaging of the networks of recipes, without a search."""

    Settings = CandidateSettings
    ways: ClassVar = {"common": COMMON}


def finals_of(method: Any, inits: int = 1) -> Finals:
    return Finals(lambda stage, recipe: method.engine(recipe, stage=stage), inits)


def begin(
    clients: list[ClientGraph], *recipes: Recipe, inits: int = 1, **about: Any
) -> tuple[Any, Finals]:
    method = make(Averaging, clients, **{**SMALL, **about})
    finals = finals_of(method, inits)
    finals.begin([(recipe, None) for recipe in recipes])
    return method, finals


def run(finals: Finals, most: int = 10**6) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while not finals.done and len(rows) < most:
        rows.append(finals.step())
    return rows


def plain(clients: list[ClientGraph], recipe: Recipe, **about: Any) -> Outcome:
    """The outcome of a training of its own, whose rounds are compared as in the finals."""
    method = make(Averaging, clients, **{**SMALL, **about})
    training = calibrate(method.engine(recipe))
    training.start(recipe)
    while not training.done:
        training.step()
    outcome: Outcome = training.finish()
    return outcome


def same(found: Outcome, expected: Outcome) -> bool:
    weights, other = found.models["model"], expected.models["model"]
    figures = (found.test_accuracy, found.val_accuracy) == (
        expected.test_accuracy, expected.val_accuracy
    )  # fmt: skip
    return figures and all(np.array_equal(weights[key], other[key]) for key in other)


@pytest.mark.parametrize(
    ("secure", "aggregate"),
    [("none", "gradients"), ("shares", "gradients"), ("none", "parameters")],
)
def test_the_outcome_is_that_of_a_plain_training_of_the_chosen_one(
    small_clients: list[ClientGraph], secure: str, aggregate: str
) -> None:
    about = {"secure": secure, "aggregate": aggregate}
    _, finals = begin(small_clients, GCN, SAGE, FIXED, **about)
    rows = run(finals)
    assert [row["finalist"] for row in rows] == [0] * 4 + [1] * 4 + [2] * 4
    assert all(row["test_accuracy"] is not None for row in rows)
    outcome = finals.outcome()
    chosen = Recipe.parse(finals.finalists[choose(finals.finalists)].recipe)
    assert same(outcome, plain(small_clients, chosen, **about))
    assert outcome.extra["recipe"] == str(chosen)
    assert outcome.features == "unit"
    told = outcome.extra["finalists"]
    assert {str(one.get("recipe", one.get("genotype"))) for one in told} == {
        str(GCN), str(SAGE), str(FIXED)
    }  # fmt: skip
    assert told[0]["score"] <= told[1]["score"] <= told[2]["score"]
    assert all(one["parameters"] > 0 and one["inits"] == 1 for one in told)


def test_those_that_validation_cannot_tell_apart_are_trained_again(
    small_clients: list[ClientGraph],
) -> None:
    """By hand: all of them twice, then those within two standard errors of the best."""
    _, finals = begin(small_clients, GCN, SAGE, FIXED, inits=4)
    run(finals)
    assert Counter(one.init for one in finals.finalists[:6]) == {0: 3, 1: 3}
    for done in (2, 3):
        ranked = standings([one for one in finals.finalists if one.init < done])
        most = ranked[0].loss + 2 * ranked[0].error
        alike = [one.recipe for one in ranked if one.loss <= most]
        again = [one.recipe for one in finals.finalists if one.init == done]
        assert again == (alike if len(alike) > 1 and ranked[0].inits == done else [])


def test_another_draw_is_a_training_with_that_setting(small_clients: list[ClientGraph]) -> None:
    method, finals = begin(
        small_clients, GCN, GCN.model_copy(update={"settings": {"lr": 0.04}}), inits=2
    )
    run(finals)
    drawn = [at for at, one in enumerate(finals.finalists) if one.init == 1]
    assert drawn
    for at in drawn:
        one = finals.finalists[at]
        recipe = Recipe.parse(one.recipe)
        recipe = recipe.model_copy(update={"settings": {**recipe.settings, "init": 1}})
        expected = plain(small_clients, recipe, rounds=3)  # no round evaluates the last update
        assert one.val_accuracy == expected.val_accuracy
    first, second = (
        parties(method)["client-0"].build({"network": GCN.network, "settings": {"init": init}})
        for init in (0, 1)
    )
    names = first.local.weights()
    assert not all(
        np.array_equal(value, second.local.weights()[key]) for key, value in names.items()
    )


def test_a_single_recipe_needs_no_comparison(small_clients: list[ClientGraph]) -> None:
    _, finals = begin(small_clients, GCN, inits=5)
    assert len(run(finals)) == 4
    assert [one.init for one in finals.finalists] == [0]


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_spent_budget_keeps_the_best_so_far(
    small_clients: list[ClientGraph], secure: str
) -> None:
    """One is over, the next is in its second round, and the third has not begun."""
    method, finals = begin(small_clients, GCN, SAGE, FIXED, inits=3, secure=secure)
    run(finals, 6)
    finals.wrap_up()
    assert finals.done
    assert [(one.recipe, one.rounds) for one in finals.finalists] == [(str(GCN), 4)]
    finals.before_checkpoint()
    other = make(Averaging, small_clients, **SMALL, secure=secure)
    for name, party in parties(other).items():
        party.load_state(decode(encode(parties(method)[name].state())))
    again = finals_of(other, 3)
    again.load_state(decode(encode(finals.state())))
    outcome, resumed = finals.outcome(), again.outcome()
    rounds = {str(GCN): 4, str(SAGE): 2}[outcome.extra["recipe"]]
    assert same(
        outcome,
        plain(small_clients, Recipe.parse(outcome.extra["recipe"]), rounds=rounds, secure=secure),
    )
    assert same(resumed, outcome)


def test_what_is_left_of_parked_trainings_is_no_part_of_a_state(
    small_clients: list[ClientGraph],
) -> None:
    """Two finalists come from a race; the budget ends with the first."""
    method = make(Averaging, small_clients, **SMALL)
    parked = []
    for at, recipe in enumerate((GCN, SAGE)):
        training = method.engine(recipe, stage=f"candidate-{at}-")
        training.start(recipe, trial=True, room={"park": bool(at)})
        training.step()
        parked.append((recipe, training))
    finals = finals_of(method)
    finals.begin(parked, {"park": True})
    assert [one.rounds for one in finals.finalists] == [1, 1], "they go on"
    finals.step()
    finals.wrap_up()
    again = finals_of(method)
    again.load_state(decode(encode(finals.state())))
    assert again.finalists == finals.finalists
    assert same(finals.outcome(), plain(small_clients, GCN, rounds=2))


@pytest.mark.parametrize("secure", ["none", "shares"])
@pytest.mark.parametrize("rounds", [2, 4, 7])
def test_saved_finals_end_as_those_that_were_left_alone(
    small_clients: list[ClientGraph], secure: str, rounds: int
) -> None:
    method, finals = begin(small_clients, GCN, SAGE, inits=2, secure=secure)
    run(finals, rounds)
    finals.before_checkpoint()
    other = make(Averaging, small_clients, **SMALL, secure=secure)
    for name, party in parties(other).items():
        party.load_state(decode(encode(parties(method)[name].state())))
    again = finals_of(other, 2)
    again.load_state(decode(encode(finals.state())))
    assert run(again) == run(finals)
    assert again.finalists == finals.finalists
    assert same(again.outcome(), finals.outcome())


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_client_that_comes_back_catches_up_with_a_finalist(
    small_clients: list[ClientGraph], secure: str
) -> None:
    _, calm = begin(small_clients, GCN, SAGE, secure=secure)
    expected = run(calm)
    method, finals = begin(small_clients, GCN, SAGE, secure=secure)
    rows = run(finals, 2)
    finals.before_checkpoint()
    fresh = make(Averaging, small_clients, **SMALL, secure=secure)
    parties(method)["client-1"].load_state(parties(fresh)["client-1"].state())
    finals.catch_up(["client-1"])
    rows += run(finals)
    assert [row["val_loss"] for row in rows] == [row["val_loss"] for row in expected]
    assert same(finals.outcome(), calm.outcome())


def test_who_diverges_is_trained_no_further(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, finals = begin(small_clients, GCN, SAGE)
    run(finals, 5)
    monkeypatch.setattr(TrialModel, "flags", lambda _: {"diverged": np.ones(1)})
    assert len(run(finals)) == 1
    assert math.isfinite(finals.finalists[0].loss)
    assert finals.finalists[1].loss == math.inf
    assert finals.outcome().extra["recipe"] == str(GCN)
    _, finals = begin(small_clients, GCN, SAGE, inits=3)
    assert len(run(finals)) == 2
    with pytest.raises(AutoFGLError, match="all finalists diverged: lower 'lr'"):
        finals.outcome()


def test_names() -> None:
    assert named(GCN) == {"genotype": GCN.network}
    assert named(SAGE) == {"recipe": str(SAGE)}
    assert named(FIXED) == {"recipe": "sgc; dropout=0.0"}
