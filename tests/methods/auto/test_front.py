"""Several objectives: the Pareto front of the candidates, and which one is recommended."""

from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.bench import Entrant
from autofgl.methods.auto.front import costs_of, front_of, recommended, together, within
from autofgl.methods.auto.settings import AutoSettings

SCORES = [0.90, 0.89, 0.80, 0.90]
COSTS = [
    {"size": 1000.0, "latency": 2.0, "bytes": 10.0},
    {"size": 100.0, "latency": 1.0, "bytes": 90.0},
    {"size": 10.0, "latency": 3.0, "bytes": 10.0},
    {"size": 2000.0, "latency": 0.5, "bytes": 10.0},
]


def test_who_is_on_the_front() -> None:
    assert front_of(SCORES, COSTS, [], lead=0) == [0, 1, 2]
    assert front_of(SCORES, COSTS, ["latency"], lead=1) == [1, 0, 2, 3]
    assert front_of(SCORES, COSTS, [], lead=3) == [3, 0, 1, 2], "the lead is shown in any case"
    assert front_of([0.5, 0.5], COSTS[:1] * 2, [], lead=1) == [1], "of equals one"


def test_the_cheapest_within_a_standard_error_is_recommended() -> None:
    assert recommended(SCORES, COSTS, ["size"], nodes=500) == 1
    assert recommended(SCORES, COSTS, ["size"], nodes=8) == 2
    assert recommended(SCORES, COSTS, ["size"], nodes=10**6) == 0
    assert recommended(SCORES, COSTS, ["bytes"], nodes=500) == 0, "of equals the better one"
    assert recommended(SCORES, COSTS, ["size", "latency"], nodes=500) == 1
    assert within(COSTS, 1, ["size"]) == [1, 2]
    assert within(COSTS, 1, ["size", "latency"]) == [1]


def test_means_cost_what_their_members_do() -> None:
    assert together(COSTS[:2]) == {"size": 1100, "latency": 3, "bytes": 100}
    assert together([{}]) == {"size": 0, "latency": 0, "bytes": 0}
    assert costs_of([Entrant("common: gcn")], {}) == [{}]


def test_objectives_and_costs_in_one_word() -> None:
    made = AutoSettings(objective="macro_f1,size, latency")  # type: ignore[arg-type]
    assert (made.objective, made.counted_costs, made.select) == (
        "macro_f1", ["size", "latency"], "objective",
    )  # fmt: skip
    assert AutoSettings().counted_costs == []
    with pytest.raises(ValueError, match="unknown cost 'beauty', choose from size, latency, bytes"):
        AutoSettings(costs="beauty")


def test_clients_take_nothing_that_costs_more(small_clients: list[ClientGraph], out: Path) -> None:
    settings: dict[str, Any] = {"recipes": 4, "trial_rounds": 4, "tune": 2, "trials": 0}
    settings |= {"rounds": 6, "finalists": 2, "hidden": 8, "lr": 0.05}
    result = autofgl.auto(
        small_clients, out=out, objective="macro_f1,size", secure="none", **settings
    )
    assert result.figures["objective"] == "macro_f1"
    front = result.figures["front"]
    (best,) = [one for one in front if one["recommended"]]
    assert best["label"] == result.figures["choice"]["label"]
    assert best["parameters"] > 0
    assert best["bytes"] > 0
    assert "mean of" not in "".join(one["label"] for one in result.figures["candidates"])
    assert "Good against small" in (out / "report.html").read_text()


def test_an_unknown_objective_is_a_users_mistake(
    small_clients: list[ClientGraph], out: Path
) -> None:
    with pytest.raises(UserError, match="unknown cost"):
        autofgl.auto(small_clients, objective="accuracy,beauty", out=out)
