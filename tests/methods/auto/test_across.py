"""Recipes that convolve across clients race where edges run between them and all allow it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.look import Look, look_at
from autofgl.methods.auto.portfolio import portfolio
from autofgl.runs.export import predict_together, read_description
from autofgl.runtime.recipe import Recipe
from federations import make, parties, to_the_end

TINY: dict[str, Any] = {"recipes": 4, "trial_rounds": 12, "tune": 0, "trials": 0, "rounds": 30}
TINY |= {"finalists": 1, "hidden": 8, "lr": 0.05, "ensemble": 0}


@pytest.fixture(scope="module")
def cut_at_random() -> list[ClientGraph]:
    """Words say little, neighbors much, and most of them are elsewhere."""
    knobs = DataSettings(nodes=360, classes=3, features=60, degree=6, homophily=0.9)
    graph = autofgl.load("synthetic", seed=1, settings=knobs)
    return autofgl.partition(graph, clients=5, method="random")


def ways_of(rows: list[dict[str, Any]]) -> set[str]:
    return {Recipe.parse(row["code"]).sharing for row in rows if row.get("code")}


def test_they_come_first_where_most_neighbors_are_elsewhere(
    cut_at_random: list[ClientGraph],
) -> None:
    parts = [look_at(one, True) for one in cut_at_random]
    look = Look.of({key: np.sum([one[key] for one in parts], axis=0) for key in parts[0]})
    ways = [Recipe.parse(row.recipe).sharing for row in portfolio(look, 5)]
    assert ways == ["common", "alone", "across", "across", "across"]
    few = [Recipe.parse(row.recipe).sharing for row in portfolio(replace(look, cross=0.1), 5)]
    assert few[:3] == ["common", "alone", "common"]


def test_neighbors_elsewhere_win_on_a_random_cut(
    cut_at_random: list[ClientGraph], out: Path
) -> None:
    result = autofgl.auto(cut_at_random, out=out, secure="none", **TINY)
    assert result.figures["look"]["across"]
    assert ways_of(result.history) == {"common", "alone", "across"}
    assert Recipe.parse(result.figures["choice"]["label"]).sharing == "across"
    against = result.figures["certificate"]["against"]["fedavg"]
    assert result.test_accuracy > against["test_accuracy"] + 0.02

    # What is left predicts as it was proven: with the neighbors, and for all who took it.
    assert read_description(out)["shares"]["model"] == "hidden"
    told = predict_together(out, cut_at_random, "model")
    right = sum((told[one.name].label == one.y)[one.test_mask].sum() for one in cut_at_random)
    tested = sum(one.test_mask.sum() for one in cut_at_random)
    taken = result.figures["certificate"]["taken"]
    if [one["kind"] for one in taken] == ["common"]:
        assert result.test_accuracy == pytest.approx(right / tested)
    assert right / tested > against["test_accuracy"]


def test_one_client_that_does_not_want_it_decides_for_all(
    cut_at_random: list[ClientGraph],
) -> None:
    method = make("auto", cut_at_random, **TINY)
    party = parties(method)["client-1"]
    party.settings = party.settings.model_copy(update={"across": False})
    method.setup()
    rows = to_the_end(method)
    outcome = method.finish()
    assert not outcome.extra["look"]["across"]
    assert ways_of(rows) == {"common", "alone"}
    assert not outcome.across
    with pytest.raises(autofgl.AutoFGLError, match="does not convolve across clients"):
        party.permit("introduce", {})
    with pytest.raises(autofgl.AutoFGLError, match="does not convolve across clients"):
        party.permit("start", {"stage": "x", "sharing": "across"})


@pytest.mark.parametrize("settings", [{"across": False}, {"share": "none"}, {"batch": 16}])
def test_settings_that_leave_it_out(
    cut_at_random: list[ClientGraph], settings: dict[str, Any]
) -> None:
    method = make("auto", cut_at_random, **{**TINY, **settings})
    method.setup()
    assert not method._look["across"]
    assert "left out" in method.step()["reason"]


def test_few_edges_between_clients_are_not_worth_it(cut_at_random: list[ClientGraph]) -> None:
    method = make("auto", cut_at_random, **TINY)
    method.setup()
    look = Look(**method._look)
    few = portfolio(replace(look, cross=0.01), 16)
    many = portfolio(look, 16)
    assert not [row for row in few if row.recipe.startswith("across")]
    assert len([row for row in many if row.recipe.startswith("across")]) >= 3
