"""Ways in which clients keep something for themselves race where clients are unlike."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.look import Look, look_at
from autofgl.methods.auto.portfolio import portfolio
from autofgl.runtime.recipe import Recipe
from federations import make, parties, to_the_end

TINY: dict[str, Any] = {"recipes": 5, "trial_rounds": 12, "tune": 0, "trials": 0, "rounds": 40}
TINY |= {"finalists": 5, "hidden": 8, "lr": 0.05, "ensemble": 0}


@pytest.fixture(scope="module")
def turned_round() -> list[ClientGraph]:
    """The third client's classes have each other's words."""
    knobs = DataSettings(nodes=360, classes=3, features=60, degree=6, homophily=0.9)
    graph = autofgl.load("synthetic", seed=1, settings=knobs)
    first, second, third = autofgl.partition(graph, clients=3, method="random")
    return [first, second, replace(third, y=(third.y + 1) % 3)]


def raced(clients: list[ClientGraph], skew: float) -> set[str]:
    parts = [look_at(one) for one in clients]
    total: dict[str, Any] = {key: np.sum([p[key] for p in parts], axis=0) for key in parts[0]}
    rows = portfolio(replace(Look.of(total), skew=skew), 16)
    return {Recipe.parse(row.recipe).sharing for row in rows}


def test_they_race_where_mixes_of_classes_are_unlike(small_clients: list[ClientGraph]) -> None:
    assert {"head", "ditto"} <= raced(small_clients, 0.3)
    assert not {"head", "ditto"} & raced(small_clients, 0.0)


def test_one_whose_classes_mean_something_else_gains(turned_round: list[ClientGraph]) -> None:
    method = make("auto", turned_round, across=False, **TINY)
    method.setup()
    for at, way in ((2, "head"), (3, "ditto"), (4, "encoder")):
        method._selection.race.entries[at].recipe = f"{way}: gcn; normalize_features=false"
    to_the_end(method)
    outcome = method.finish()
    every = {one["kind"]: one["accuracy"] for one in reversed(outcome.extra["candidates"])}
    assert {"common", "personal", "alone", "head", "encoder", "ditto"} == every.keys()
    for way in ("personal", "head", "encoder", "ditto"):
        assert every[way] > every["common"] + 0.1
    against = outcome.extra["certificate"]["against"]["fedavg"]
    assert outcome.test_accuracy > against["test_accuracy"] + 0.1
    assert outcome.models["model"], "there is a common model for clients that come later"
    took = {line["name"]: line["takes"] for line in outcome.per_client}
    assert took["client-2"] != "common"
    own, other = (parties(method)[name].own_networks()["0"] for name in ("client-2", "client-0"))
    assert took["client-2"] != took["client-0"] or any(
        not np.array_equal(one, other["weights"][key]) for key, one in own["weights"].items()
    )
