"""FL-Random and FL-RL; :mod:`tests.runtime.test_recipe_search` has what they share."""

import math
from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from federations import make, rounds

SMALL: dict[str, Any] = {
    "candidates": 20, "candidate_rounds": 1, "layers": 2, "hidden": 8, "rounds": 4,
}  # fmt: skip


def test_epsilon_falls(small_clients: list[ClientGraph]) -> None:
    rows = rounds(make("fl-rl", small_clients, **SMALL), 20)
    epsilons = [row["epsilon"] for row in rows]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[:10] == [1.0] * 10
    assert epsilons[-1] == 0.1


@pytest.mark.parametrize(("fitness", "reward"), [("accuracy", 0.75), ("loss", math.exp(-0.25))])
def test_the_agents_reward(small_clients: list[ClientGraph], fitness: str, reward: float) -> None:
    """Accuracy as in BlockQNN; of a loss, the likelihood."""
    agent = make("fl-rl", small_clients, fitness=fitness, memory=2, rate=0.3, replay=7).searcher
    assert agent.reward(0.25) == pytest.approx(reward)
    assert (agent.memory, agent.rate, agent.replay) == (2, 0.3, 7)


def test_bad_settings_are_named(small_clients: list[ClientGraph], out: Path) -> None:
    with pytest.raises(UserError, match="did you mean candidates"):
        autofgl.run("fl-random", small_clients, out=out, candidate=3)
    with pytest.raises(UserError, match="memory"):
        autofgl.run("fl-random", small_clients, out=out, memory=1)
    with pytest.raises(UserError, match="rate=0"):
        autofgl.run("fl-rl", small_clients, out=out, rate=0)
