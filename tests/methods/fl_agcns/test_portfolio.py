"""Well-known networks: they are what they are called, and all of them train."""

import math
from typing import Any

import pytest

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.portfolio import CODES, FIXED, KNOWN, known_codes
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_space
from autofgl.nn.models.spec import ModelSpec, SearchedSpec
from autofgl.nn.space import LAYER_TYPES, Space
from autofgl.runtime.recipe import Recipe
from autofgl.sharing.common import network_spec
from federations import make


def test_recipes_are_distinct_and_survive_as_text() -> None:
    assert len({str(one) for one in KNOWN}) == len(KNOWN)
    assert all(Recipe.parse(str(one)) == one for one in KNOWN)
    assert all(one in KNOWN for one in FIXED)


@pytest.mark.parametrize("recipe", KNOWN, ids=str)
def test_settings_of_a_known_network_apply(
    recipe: Recipe, small_clients: list[ClientGraph]
) -> None:
    for hidden in (3, 8, 20, 64):
        settings = recipe.apply(FLAGCNSSettings(hidden=hidden))
        spec = network_spec(small_clients[0], settings, recipe.network)
        if "|" in recipe.network:
            assert isinstance(spec, SearchedSpec)
        else:
            assert isinstance(spec, ModelSpec)
            assert (spec.family, spec.hidden) == (recipe.network, hidden)
        assert spec.dropout == recipe.settings.get("dropout", settings.dropout)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [6, 8])
def test_all_of_them_learn_on_a_small_graph(small_clients: list[ClientGraph], hidden: int) -> None:
    """Each by its training loss, and none diverges."""
    method = make(
        "fl-agcns", small_clients, layers=2, hidden=hidden, trial_rounds=8, population=4,
        generations=1, weight_steps=1, warmup=0, lr=0.03,
    )  # fmt: skip
    method.setup()
    assert [one.recipe for one in method._selection.race.entries] == list(map(str, KNOWN))
    losses: dict[int, list[float]] = {}
    while method._selection.race.running:
        row = method.step()
        assert row["phase"] == "trial"
        losses.setdefault(row["candidate"], []).append(row["train_loss"])
    assert sorted(losses) == list(range(1, len(KNOWN) + 1))
    entries = method._selection.race.entries
    assert {one.ending for one in entries} == {"done", "pruned"}
    assert all(math.isfinite(one.loss) and one.parameters for one in entries)
    assert all(max(many[1:]) < many[0] + 0.2 for many in losses.values())
    done = [one.number for one in entries if one.ending == "done"]
    assert all(losses[number][-1] < losses[number][0] - 0.05 for number in done)
    assert method.step()["phase"] == "search", "then the search begins"


def test_codes_are_those_that_a_space_has() -> None:
    space = Space(2, LAYER_TYPES)
    assert [str(one) for one in known_codes(space)] == list(CODES)
    small = Space(1, ("gcn", "gin"))
    assert [str(one) for one in known_codes(small)] == [
        "relu | - | identity",
        "relu | gin<0 | identity",
    ]


@pytest.mark.parametrize(("known", "population"), [(True, 20), (True, 6), (False, 20)])
def test_known_codes_begin_the_first_population(
    small_clients: list[ClientGraph], known: bool, population: int
) -> None:
    about: dict[str, Any] = {"population": population, "layers": 2, "hidden": 8, "trials": 0}
    method = make("fl-agcns", small_clients, **about, known=known, start="tanh | gat<0 | tanh")
    method.setup()
    space = make_space(FLAGCNSSettings(**about))
    found = [str(space.decode(code)) for code in method.search.population]
    expected = ["tanh | gat<0 | tanh", *(CODES if known else ())][: population // 2]
    assert found[: len(expected)] == expected
    assert len(set(found)) == population
    if not known:
        assert not set(CODES) <= set(found)
