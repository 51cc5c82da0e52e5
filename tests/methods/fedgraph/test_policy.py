"""FedGraph's reward, and a sampling policy that is learned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import pool
from autofgl.methods.fedgraph.policy import LEAST_KEPT, SamplingPolicy
from autofgl.methods.fedgraph.reward import Reward
from autofgl.methods.fedgraph.settings import FedGraphSettings

LEARNED: dict[str, Any] = {
    "sampler": "ddpg", "hidden": 8, "batch": 16, "rounds": 3, "profile_rounds": 3, "episodes": 2,
    "episode_rounds": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def clients() -> list[ClientGraph]:
    settings = DataSettings(nodes=60, classes=3, features=12, degree=4)
    graph = autofgl.load("synthetic", seed=1, settings=settings)
    return autofgl.partition(graph, clients=3, method="random", seed=0)


@pytest.fixture(scope="module")
def learned(clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return autofgl.run(
        "fedgraph", clients, out=tmp_path_factory.mktemp("learned") / "run", **LEARNED
    )


def test_a_run_profiles_learns_and_trains(learned: Any) -> None:
    rows = learned.history
    assert [row["phase"] for row in rows] == ["profile"] * 3 + ["episode"] * 4 + ["train"] * 3
    assert [row["episode"] for row in rows[3:7]] == [1, 1, 2, 2]
    assert all(row["test_accuracy"] is None for row in rows[:7])
    assert all(row["test_accuracy"] is not None for row in rows[7:])
    for row in rows:
        assert set(row["policies"]) == {"client-0", "client-1", "client-2"}
        for batch, *kept in row["policies"].values():
            assert 1 <= batch <= 16
            assert all(LEAST_KEPT <= probability <= 1 for probability in kept)
    first, second = rows[3], rows[4]
    np.testing.assert_allclose(second["return"], first["reward"] + 0.99 * second["reward"])


def test_a_learned_policy_is_kept_and_used_again(
    learned: Any, clients: list[ClientGraph], out: Path
) -> None:
    path = learned.folder / "policy.afp"
    settings = {**LEARNED, "policy": str(path)}
    again = autofgl.run("fedgraph", clients, out=out, **settings)
    assert [row["phase"] for row in again.history] == ["train"] * 3
    before = [row["policies"] for row in learned.history[-3:]]
    assert [row["policies"] for row in again.history] == before
    assert again.figures["test_accuracy"] == learned.figures["test_accuracy"]


def test_a_policy_for_another_federation_is_refused(
    learned: Any, clients: list[ClientGraph], out: Path, tmp_path: Path
) -> None:
    path = learned.folder / "policy.afp"
    settings = {**LEARNED, "policy": str(path)}
    two = autofgl.partition(pool(clients), clients=2, method="random", seed=0)
    with pytest.raises(UserError, match="learned with 3 clients"):
        autofgl.run("fedgraph", two, out=out, **settings)
    with pytest.raises(UserError, match="2 convolutions, this run has 3 and 3"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "layers": 3})
    with pytest.raises(UserError, match="cannot read the policy"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "policy": "nowhere.afp"})
    cut = tmp_path / "cut.afp"
    cut.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match="damaged"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "policy": str(cut)})
    assert not out.exists()
    with pytest.raises(UserError, match="network of"):
        autofgl.run("fedgraph", clients, out=out, **{**settings, "hidden": 9})


def test_it_learns_what_is_cheap() -> None:
    """A federation of numbers: accuracy is always the same, so small batches pay."""
    settings = FedGraphSettings(
        sampler="ddpg", batch=100, layers=1, target_accuracy=0.5, learn_steps=1, warm_up=2,
        profile="random", penalty=0.3, episodes=16, episode_rounds=25,
    )  # fmt: skip
    policy = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)

    def round_of(policies: dict[str, Any]) -> float:
        return sum(one["batch"] / 100 + one["keep"][0] for one in policies.values())

    for at in range(20):
        policy.profiled({"w": rng.normal(size=30)}, round_of(policy.profile(at)))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    costs = []
    for _ in range(8):
        policy.begin_episode(weights)
        for _ in range(25):
            costs.append(round_of(policy.choose(explore=True)))
            policy.observe(weights, policy.axes.moments(weights), 1)  # type: ignore[union-attr]
            policy.learn(0.5, costs[-1])
        policy.end_episode()
    policy.begin_episode(weights)
    assert round_of(policy.choose(explore=False)) < 1.0  # half of what a random policy costs


def test_the_actor_of_the_best_episode_is_kept() -> None:
    settings = FedGraphSettings(
        sampler="ddpg", batch=100, layers=1, warm_up=1, noise=0.02, judged=0, profile="random"
    )
    policy: Any = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    actors = []
    for accuracy in (1.0, 0.3, 0.8, 0.5):  # the first is random and counts for nothing
        policy.begin_episode(weights)
        for _ in range(20):
            policy.choose(explore=True)
            policy.observe(weights, policy.axes.moments(weights), 1)
            policy.learn(accuracy, 1.0)
        policy.end_episode()
        actors.append(policy._agent.policy()["actor"]["4.bias"])
    assert not np.array_equal(actors[2], actors[3])
    saved = autofgl.federation.payload.decode(policy.to_bytes())
    np.testing.assert_array_equal(saved["actor"]["actor"]["4.bias"], actors[2])


def played(policy: Any, accuracy: float, rounds: int = 4) -> list[dict[str, Any]]:
    """An episode in which accuracy is always the same; the first client's part of each policy."""
    weights = {"w": np.zeros(30)}
    policy.begin_episode(weights)
    chosen = []
    for _ in range(rounds):
        chosen.append(policy.choose(explore=True)["a"])
        policy.observe(weights, policy.axes.moments(weights), 1)
        policy.learn(accuracy, 1.0)
    policy.end_episode()
    return chosen


def profiled(**settings: Any) -> Any:
    about = FedGraphSettings(
        sampler="ddpg", batch=100, layers=1, episode_rounds=4, warm_up=2, episodes=7, **settings
    )
    policy = SamplingPolicy(["a", "b"], about, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at), accuracy=0.5)
    policy.end_profile()
    return policy


@pytest.mark.parametrize("best", [3, 4, 5, 6])
def test_what_is_judged_best_is_kept(best: int) -> None:
    """Episodes 3 to 6 play the best random policy, the best actor, the last, and the largest
    samples, without noise.
    """
    policy = profiled()
    rows = [played(policy, 0.9 if at in (1, 2, best) else 0.5) for at in range(7)]
    assert rows[6] == [{"batch": 100, "keep": [1.0]}] * 4
    drawn = policy._random("warm-up", 1)
    assert [row["batch"] for row in rows[3]] == [policy._policies(drawn)["a"]["batch"]] * 4
    weights = {"w": np.zeros(30)}
    policy.begin_episode(weights)
    kept = policy.choose(explore=False)["a"]
    assert kept == rows[best][0]
    again = SamplingPolicy(["a", "b"], policy._settings, seed=0)
    again.load_bytes(policy.to_bytes())
    again.begin_episode(weights)
    assert again.choose(explore=False)["a"] == kept


def test_an_episode_ends_and_the_state_says_how_far_it_is() -> None:
    policy = profiled()
    played(policy, 0.5)
    rows = policy._agent._replay._rows
    states = [row[2 * 10] for row in rows]
    np.testing.assert_allclose(states, [0.0, 0.25, 0.5, 0.75])
    assert [row[-1] for row in rows] == [0, 0, 0, 1]
    without = profiled(horizon=False)
    played(without, 0.5)
    assert [row[-1] for row in without._agent._replay._rows] == [0, 0, 0, 0]
    assert without._agent.state_size == policy._agent.state_size - 1


def test_while_random_policies_are_played_only_the_critic_learns() -> None:
    settings = FedGraphSettings(sampler="ddpg", batch=100, layers=1, warm_up=1, episodes=16)
    policy: Any = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    networks = policy._agent._networks
    before = [network[4].bias.detach().clone() for network in (networks.actor, networks.critic)]
    policy.begin_episode(weights)
    for _ in range(40):
        policy.choose(explore=True)
        policy.observe(weights, policy.axes.moments(weights), 1)
        policy.learn(0.5, 1.0)
    assert before[0].equal(networks.actor[4].bias)
    assert not before[1].equal(networks.critic[4].bias)


def test_profiling_goes_from_cheap_to_dear() -> None:
    """Clients are sampled together: twenty apart would cost about the same in every round."""
    names = [f"client-{index:02}" for index in range(20)]
    settings = FedGraphSettings(sampler="ddpg", batch=100, profile="random")
    policy = SamplingPolicy(names, settings, seed=0)
    costs = [sum(one["batch"] for one in policy.profile(at).values()) / 20 for at in range(40)]
    assert min(costs) < 15
    assert max(costs) > 85
    for at in range(5):
        assert np.std([one["batch"] for one in policy.profile(at).values()]) < 15


def test_the_first_episodes_keep_to_a_random_policy_each() -> None:
    settings = FedGraphSettings(
        sampler="ddpg", batch=1000, layers=1, warm_up=2, episodes=16, episode_rounds=20
    )
    policy: Any = SamplingPolicy(["a", "b"], settings, seed=0)
    rng = np.random.default_rng(0)
    for at in range(12):
        policy.profiled({"w": rng.normal(size=30)}, float(at))
    policy.end_profile()
    weights = {"w": np.zeros(30)}
    batches, noise = [], []
    for _ in range(4):
        policy.begin_episode(weights)
        rows = []
        for _ in range(20):
            rows.append(policy.choose(explore=True)["a"]["batch"])
            policy.observe(weights, policy.axes.moments(weights), 1)
            policy.learn(0.5, 1.0)
        policy.end_episode()
        batches.append(rows)
        noise.append(policy._agent.noise)
    sampled = [policy._random("warm-up", episode)[0] * 1000 for episode in range(2)]
    for rows, centre in zip(batches, sampled, strict=False):
        assert abs(np.median(rows) - centre) < 80
        assert 0 < np.std(rows) < 150
    np.testing.assert_allclose(noise, [0.3, 0.3, 0.3 * 0.93, 0.3 * 0.93**2])


def test_the_reward_is_eq_9() -> None:
    reward = Reward(base=128, target=0.9, alpha=0.5, beta=2.0)
    assert reward.of(accuracy=0.9, cost=2.0) == 1.0
    np.testing.assert_allclose(reward.of(accuracy=0.7, cost=4.0), 128**-0.2 - 1.0)


def test_profiling_fixes_the_mean_penalty() -> None:
    costs = [4.0, 2.0, 9.0]
    reward = Reward.profiled(128, 0.9, costs)
    assert reward.beta == 2.0
    penalties = [reward.alpha * (cost - reward.beta) for cost in costs]
    np.testing.assert_allclose(np.mean(penalties), 1.0)
    np.testing.assert_allclose(Reward.profiled(128, 0.9, costs, 0.3).alpha, 0.3 * reward.alpha)
    assert Reward.profiled(128, 0.9, [3.0, 3.0]).alpha == 0.0


def test_the_reward_is_relative_to_the_largest_samples() -> None:
    reward = Reward.relative(128, [0.3, 0.6], [50.0, 70.0], penalty=0.5)
    assert reward.of(accuracy=0.3, cost=60.0, step=0) == pytest.approx(1 - 0.5)
    assert reward.of(accuracy=0.3, cost=6.0, step=1) == pytest.approx(128**-0.3 - 0.05)
    assert reward.of(accuracy=0.7, cost=0.0, step=9) == pytest.approx(128**0.1)


def test_the_profile_is_that_of_the_largest_samples() -> None:
    policy = SamplingPolicy(["a", "b"], FedGraphSettings(sampler="ddpg", batch=100), seed=0)
    assert policy.profile(1) == {name: {"batch": 100, "keep": [1.0, 1.0]} for name in "ab"}
