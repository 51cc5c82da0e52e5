"""From a search's best recipes to one trained network."""

import math
from typing import Any

import pytest

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.race import Entry
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.selection import BRACKET, Selection, distinct, diverse, entry_json
from autofgl.runtime.variants import variants
from federations import make, parties

SMALL: dict[str, Any] = {
    "layers": 2, "hidden": 8, "rounds": 6, "lr": 0.05, "finalists": 2, "inits": 1,
    "candidate_rounds": 4,
}  # fmt: skip
GCN, SAGE = "relu | gcn<0 | identity", "relu | sage<0 | identity"


def entry(number: int, recipe: str, loss: float = 0.5, rung: int = 2, **more: Any) -> Entry:
    return Entry(number, recipe, rung=rung, rounds=4, loss=loss, val_loss=loss, **more)


def selection_of(clients: list[ClientGraph], tune: int = 6, **about: Any) -> tuple[Any, Selection]:
    method = make("fl-random", clients, **{**SMALL, "tune": tune, **about})
    selection: Selection = method._selection
    return method, selection


def run(selection: Selection, most: int = 10**6) -> list[tuple[str, dict[str, Any]]]:
    rows: list[tuple[str, dict[str, Any]]] = []
    while not selection.done and len(rows) < most:
        rows.append(selection.step())
    return rows


def test_of_equal_figures_one_network_is_enough() -> None:
    first, same = entry(1, "a", 0.5, val_accuracy=0.8), entry(2, "b", 0.5 + 1e-8, val_accuracy=0.8)
    other = entry(3, "c", 0.6, val_accuracy=0.8)
    assert distinct([first, same, other]) == [first, other]


def test_the_best_of_each_network_comes_first() -> None:
    entries = [
        entry(1, "gcn"), entry(2, "gcn; lr=0.1"), entry(3, "sage; lr=0.1"), entry(4, "gcn; lr=0.2"),
        entry(5, "sage"),
    ]  # fmt: skip
    assert [one.number for one in diverse(entries)] == [1, 3, 2, 4, 5]


def test_how_a_result_names_what_raced() -> None:
    told = entry_json(entry(1, GCN, 0.4, val_accuracy=0.8, parameters=7))
    assert told == {
        "genotype": GCN, "score": 0.4, "val_accuracy": 0.8, "val_loss": 0.4, "rounds": 4,
        "parameters": 7,
    }  # fmt: skip
    assert entry_json(entry(1, f"{GCN}; lr=0.1"))["recipe"] == f"{GCN}; lr=0.1"
    assert entry_json(entry(1, "appnp"))["recipe"] == "appnp"


class TestProposals:
    """Which other settings race; the entries are made up."""

    def test_single_changes_of_the_best_then_of_the_best_other_network(
        self, small_clients: list[ClientGraph]
    ) -> None:
        method, selection = selection_of(small_clients, tune=100)
        selection.race.entries = [
            entry(1, GCN, 0.4),
            entry(2, f"{GCN}; lr=0.1", 0.5),
            entry(3, SAGE, 0.6),
        ]
        own = variants(Recipe(network=GCN), method.settings)
        others = variants(Recipe(network=SAGE), method.settings)
        assert selection._proposals() == [*own, *others]
        assert selection.race_settings()
        begun = [Recipe.parse(one.recipe) for one in selection.race.entries[3:]]
        assert begun == own[:BRACKET]

    def test_what_helped_alone_is_tried_together_first(
        self, small_clients: list[ClientGraph]
    ) -> None:
        _, selection = selection_of(small_clients, tune=100)
        selection.race.entries = [entry(1, GCN, 0.5)]
        selection._proposals()
        selection.race.entries += [
            entry(2, f"{GCN}; dropout=0.2", 0.4), entry(3, f"{GCN}; lr=0.15", 0.45),
            entry(4, f"{GCN}; hidden=16", 0.6), entry(5, f"{SAGE}; weight_decay=0.0", 0.3),
        ]  # fmt: skip
        assert str(selection._proposals()[0]) == f"{GCN}; dropout=0.2 lr=0.15"

    def test_nothing_is_proposed_twice(self, small_clients: list[ClientGraph]) -> None:
        method, selection = selection_of(small_clients, tune=100)
        raced = variants(Recipe(network=GCN), method.settings)[:3]
        spelled = f"{GCN}; lr=0.05"  # the run's own rate
        selection.race.entries = [
            entry(1, spelled, 0.1), *(entry(at, str(one), 0.5) for at, one in enumerate(raced, 2)),
        ]  # fmt: skip
        proposals = selection._proposals()
        assert len({str(one) for one in proposals}) == len(proposals)
        assert not any(one in raced for one in proposals)
        assert Recipe(network=GCN) not in proposals

    def test_no_more_than_there_are_left(self, small_clients: list[ClientGraph]) -> None:
        _, selection = selection_of(small_clients, tune=BRACKET + 1)
        selection.race.entries = [entry(1, GCN)]
        sizes = []
        while selection.race_settings():
            sizes.append(len(selection.race._bracket))
            for one in selection.race.entries:
                one.loss, one.rounds = 1.0, 1
            selection.race.wrap_up()
        assert sizes == [BRACKET, 1]


def test_settings_race_then_the_finals(small_clients: list[ClientGraph]) -> None:
    _, selection = selection_of(small_clients)
    selection.race.begin([Recipe(network=GCN), Recipe(network=SAGE)])
    rows = run(selection)
    phases = [phase for phase, _ in rows]
    first, tuned = 2 + 1 + 2, 6 + 3 + 2 * 2  # rungs after 1, 2 and 4 rounds
    assert phases[: first + tuned] == ["trial"] * (first + tuned)
    assert set(phases[first + tuned :]) == {"train"}
    assert all(row["test_accuracy"] is None for phase, row in rows if phase == "trial")
    assert all(row["test_accuracy"] is not None for phase, row in rows if phase == "train")
    best = min((one for one in selection.race.entries), key=lambda one: one.loss)
    assert best.recipe in {one.recipe for one in selection.finals.finalists}
    assert selection.planned == 0
    outcome = selection.outcome()
    assert outcome.extra["recipe"] in {one.recipe for one in selection.finals.finalists}


def test_finalists_go_on_where_their_trials_ended(small_clients: list[ClientGraph]) -> None:
    """Nothing is trained twice: no finalist begins anew."""
    _, selection = selection_of(small_clients, tune=8)
    selection.race.begin([Recipe(network=GCN), Recipe(network=SAGE)])
    run(selection)
    assert all(one.stage.startswith("candidate-") for one in selection.finals.finalists)
    assert [one.rounds for one in selection.finals.finalists] == [6, 6]


def test_a_hurry_ends_the_races(small_clients: list[ClientGraph]) -> None:
    _, selection = selection_of(small_clients)
    selection.race.begin([Recipe(network=GCN), Recipe(network=SAGE)])
    run(selection, 3)
    before = selection.planned
    assert selection.hurry()
    assert not selection.hurry(), "that is no news"
    assert selection.planned < before
    assert {phase for phase, _ in run(selection)} == {"train"}


def test_a_hurry_without_a_result_waits_for_one(small_clients: list[ClientGraph]) -> None:
    _, selection = selection_of(small_clients)
    selection.race.begin([Recipe(network=GCN), Recipe(network=SAGE)])
    selection.wrap_up()
    phases = [phase for phase, _ in run(selection)]
    assert phases == ["trial"] + ["train"] * 5


def test_nothing_but_divergence(small_clients: list[ClientGraph]) -> None:
    _, selection = selection_of(small_clients)
    selection.race.entries = [entry(1, GCN, math.inf), entry(2, SAGE, math.inf)]
    with pytest.raises(AutoFGLError, match="all 2 candidates diverged: lower 'lr'"):
        selection.step()


def test_another_recipe_may_be_trained_at_the_end(small_clients: list[ClientGraph]) -> None:
    """What is no trial's recipe begins anew."""
    method, _ = selection_of(small_clients)
    wide = Recipe(network=SAGE, settings={"hidden": 16})
    selection = Selection(method, 4, 0, lambda recipe: wide if recipe.network == GCN else recipe)
    selection.race.begin([Recipe(network=GCN), Recipe(network=SAGE)])
    run(selection)
    stages = {one.recipe: one.stage for one in selection.finals.finalists}
    assert stages[str(wide)].startswith("final-")
    assert stages[SAGE].startswith("candidate-")


@pytest.mark.parametrize(
    ("secure", "rounds"), [("none", 4), ("none", 12), ("none", 20), ("shares", 20)]
)
def test_a_saved_selection_ends_as_one_that_was_left_alone(
    small_clients: list[ClientGraph], secure: str, rounds: int
) -> None:
    """In the first race, in that of other settings, and in the finals."""
    method, selection = selection_of(small_clients, secure=secure)
    selection.race.begin([Recipe(network=GCN), Recipe(network=SAGE)])
    run(selection, rounds)
    selection.before_checkpoint()
    other, again = selection_of(small_clients, secure=secure)
    for name, party in parties(other).items():
        party.load_state(decode(encode(parties(method)[name].state())))
    again.load_state(decode(encode(selection.state())))
    assert again.planned == selection.planned
    assert run(again) == run(selection)
    assert again.outcome().extra == selection.outcome().extra
