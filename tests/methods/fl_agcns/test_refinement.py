"""The brackets of networks that race after the search."""

import math
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import numpy as np
import pytest

from autofgl.federation.payload import decode, encode
from autofgl.methods.fl_agcns.refinement import BRACKET, Refinement
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_codes
from autofgl.nn.space import Space
from autofgl.runtime.race import Entry
from autofgl.runtime.recipe import Recipe
from autofgl.search.baselines import RandomSearch

SEARCHED = [
    "tanh | - | relu",
    "tanh | appnp<0 | relu",
    "tanh | appnp<0 | sigmoid",
    "relu | gcn<0 gat<0 | relu",
    "relu | gat<0 gcn<0 | relu",
    "relu | sgc<0 | relu",
    "relu | arma<0 | relu",
]
SETTINGS = FLAGCNSSettings(layers=3, trials=40)
ENDS = ("identity", "relu", "tanh", "sigmoid", "softmax")


def prefer(network: str) -> float:
    """identity outputs and relu inputs are good, and of the layers sgc."""
    start, layers, end = network.split(" | ")
    return 4 - 2 * (end == "identity") - (start == "relu") - 0.5 * ("sgc" in layers)


def play(
    refinement: Refinement, brackets: int, score: Callable[[str], float], raced: list[Entry]
) -> list[list[str]]:
    """Race so many brackets, each network scored by its text; what was asked for."""
    asked = []
    for _ in range(brackets):
        useful = [one for one in raced if math.isfinite(one.loss)]
        best = sorted(useful, key=lambda one: one.loss)
        recipes = refinement.ask(raced, best)
        asked.append([recipe.network for recipe in recipes])
        raced += [
            Entry(len(raced) + at, str(one), rounds=1, loss=score(one.network))
            for at, one in enumerate(recipes, 1)
        ]
    return asked


def shapes(networks: Sequence[str]) -> set[Any]:
    space = Space(3)
    return {space.parse(network).shape() for network in networks}


def test_searched_networks_then_activations_of_the_best_then_children() -> None:
    first, second, third = play(Refinement(SEARCHED, SETTINGS, seed=1), 3, prefer, [])
    assert first == [
        "tanh | - | relu", "relu | - | identity", "tanh | appnp<0 | relu",
        "relu | appnp<0 | identity", "relu | gcn<0 gat<0 | relu", "relu | gcn<0 gat<0 | identity",
        "relu | sgc<0 | relu", "relu | sgc<0 | identity",
    ]  # fmt: skip
    ends = {f"relu | sgc<0 | {end}" for end in ENDS if end not in ("relu", "identity")}
    assert set(second) == ends | {f"{one} | sgc<0 | identity" for one in ENDS if one != "relu"}
    assert len(third) == BRACKET


def test_nothing_races_twice_and_children_inherit() -> None:
    raced = [Entry(1, "relu | appnp<0 | identity", rounds=1, loss=1.0), Entry(2, "gcn", loss=0.1)]
    brackets = play(Refinement(SEARCHED, SETTINGS, seed=1), 5, prefer, raced)
    asked = [network for bracket in brackets for network in bracket]
    assert len(shapes(asked)) == len(asked)
    assert not shapes(asked) & shapes(["relu | appnp<0 | identity"]), "it was among the known ones"
    space, rng = Space(3), np.random.default_rng(0)
    sampled = [str(space.decode(code)) for code in RandomSearch(make_codes(space), rng).ask(200)]
    children = [network for bracket in brackets[2:] for network in bracket]
    assert mean(map(prefer, children)) < mean(map(prefer, sampled)) - 0.5


def test_there_are_as_many_as_there_are_trials() -> None:
    for trials in (3, 8, 20):
        refinement = Refinement(SEARCHED, SETTINGS.model_copy(update={"trials": trials}), seed=1)
        brackets = play(refinement, 9, prefer, [])
        assert sum(map(len, brackets)) == trials
        assert all(len(bracket) <= BRACKET for bracket in brackets)
        assert refinement.ask([], []) == []


@pytest.mark.slow
def test_a_space_that_is_used_up_ends_the_brackets() -> None:
    tiny = FLAGCNSSettings(layers=1, types="gcn", trials=10**3)
    brackets = play(Refinement(["relu | gcn<0 | relu"], tiny, seed=1), 300, prefer, [])
    assert brackets[-1] == []
    assert len(shapes([network for bracket in brackets for network in bracket])) <= 50


def test_networks_that_diverge_are_passed_over() -> None:
    def diverging(network: str) -> float:
        return math.inf if "sgc" in network else prefer(network)

    first, second, third = play(Refinement(SEARCHED, SETTINGS, seed=1), 3, diverging, [])
    assert len(first) == 8
    assert all("sgc" not in network for network in second), "activations of another one"
    assert third
    lost = play(Refinement(SEARCHED[1:2], SETTINGS, seed=1), 3, lambda _: math.inf, [])
    assert lost[0] == ["tanh | appnp<0 | relu", "relu | appnp<0 | identity"]
    assert lost[1:] == [[], []], "there is nothing to go on from"


def test_networks_have_the_settings_of_the_best_so_far() -> None:
    best = Recipe(network="gcn", settings={"lr": 0.03, "dropout": 0.2})
    alone = Recipe(network="sgc", settings={"lr": 0.2})
    entries = [Entry(1, str(alone), rounds=1, loss=0.1), Entry(2, str(best), rounds=1, loss=0.2)]
    bracket = Refinement(SEARCHED, SETTINGS, seed=1).ask(entries, entries)
    assert all(one.settings == best.settings for one in bracket), "not those of SGC"


def test_a_saved_state_goes_on_alike() -> None:
    for made in (1, 2, 3):
        refinement, raced = Refinement(SEARCHED, SETTINGS, seed=1), list[Entry]()
        play(refinement, made, prefer, raced)
        again = Refinement(SEARCHED, SETTINGS, seed=1)
        again.load_state(decode(encode(refinement.state())))
        copy = list(raced)
        assert play(again, 2, prefer, copy) == play(refinement, 2, prefer, raced)
