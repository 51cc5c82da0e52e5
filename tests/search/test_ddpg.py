from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from autofgl.federation.payload import decode, encode
from autofgl.search.ddpg import (
    DDPG,
    LIMIT,
    ActorCritic,
    DDPGSettings,
    Normalizer,
    Replay,
    Transitions,
    perceptron,
)
from autofgl.search.searcher import SearchError
from families import family

SMALL = DDPGSettings(hidden=(8, 6), batch=4, buffer=16, actor_lr=1e-2, critic_lr=1e-2)


def make(seed: int = 0, settings: DDPGSettings = SMALL) -> DDPG:
    return DDPG(3, 2, np.random.default_rng(seed), settings)


def drive(agent: DDPG, rounds: int, seed: int = 0) -> Any:
    """All actions that the agent takes in some rounds of a made-up world; five are an episode."""
    rng = np.random.default_rng([6, seed])
    state, actions = rng.normal(size=3), []
    for t in range(rounds):
        actions.append(agent.ask(state))
        then = rng.normal(size=3)
        agent.tell(state, actions[-1], float(actions[-1] @ state[:2]), then, t % 5 == 4)
        agent.learn(2)
        if t % 5 == 4:
            agent.end_episode()
        state = then
    return np.array(actions).reshape(-1, 2)


# What it does


def test_the_paper_s_numbers_are_the_defaults() -> None:
    assert asdict(DDPGSettings()) == {
        "hidden": (512, 256),
        "discount": 0.99,
        "soft_update": 0.005,
        "batch": 32,
        "actor_lr": 1e-4,
        "critic_lr": 1e-3,
        "critic_weight_decay": 1e-2,
        "buffer": 10_000,
        "noise": 0.3,
        "noise_decay": 0.99,
        "noise_floor": 0.02,
    }


def test_actions_stay_in_the_cube() -> None:
    agent = make(settings=DDPGSettings(hidden=(8,), noise=2.0))
    actions = np.array([agent.ask([1e6, -1e6, 0.0]) for _ in range(200)])
    assert actions.shape == (200, 2)
    assert actions.dtype == np.float64
    assert actions.min() == 0
    assert actions.max() == 1


def test_without_exploration_the_policy_is_deterministic() -> None:
    agent = make()
    drive(agent, 12)
    data = encode(agent.state())
    actions = [agent.ask([0.1, 0.2, 0.3], explore=False) for _ in range(3)]
    assert np.array_equal(actions[0], actions[1])
    assert encode(agent.state()) == data
    assert not np.array_equal(agent.ask([0.1, 0.2, 0.3]), actions[0])


def test_exploration_has_the_size_of_the_noise() -> None:
    agent = make(settings=DDPGSettings(hidden=(8,), noise=0.1))
    middle = agent.ask([0.0, 0.0, 0.0], explore=False)
    assert middle == pytest.approx([0.5, 0.5], abs=0.01)
    noise = np.array([agent.ask([0.0, 0.0, 0.0]) for _ in range(2000)]) - middle
    assert noise.std(axis=0) == pytest.approx([0.1, 0.1], rel=0.06)
    assert noise.mean(axis=0) == pytest.approx([0, 0], abs=0.01)


def test_noise_decays_to_its_floor() -> None:
    agent = make(settings=DDPGSettings(hidden=(8,), noise=0.4, noise_decay=0.5, noise_floor=0.15))
    seen = []
    for _ in range(4):
        seen.append(agent.noise)
        agent.end_episode()
    assert seen == [0.4, 0.2, 0.15, 0.15]


def test_it_learns_as_soon_as_it_has_a_batch() -> None:
    agent = make()
    for t in range(4):
        assert agent.learn() is None
        agent.tell([t, 0, 1], [0.5, 0.5], t, [t + 1, 0, 1])
    losses = agent.learn()
    assert losses is not None
    assert set(losses) == {"critic_loss", "value"}
    assert all(type(loss) is float for loss in losses.values())


def forward(network: dict[str, Any], inputs: Any) -> Any:
    for layer in ("0", "2"):
        inputs = np.maximum(inputs @ network[f"{layer}.weight"].T + network[f"{layer}.bias"], 0)
    return inputs @ network["4.weight"].T + network["4.bias"]


def test_one_step_of_learning_recomputed() -> None:
    """Eq. 10, 13 and 14 through the whole agent: buffer of one batch, states normalized."""
    agent = make()
    rng = np.random.default_rng(0)
    states, then, actions = rng.normal(2, 3, (4, 3)), rng.normal(2, 3, (4, 3)), rng.random((4, 2))
    rewards, done = rng.normal(size=4), np.array([0, 0, 1, 0])
    for row in zip(states, actions, rewards, then, done, strict=True):
        agent.tell(*row)
    before = agent.state()["networks"]
    losses = agent.learn()
    after = agent.state()["networks"]

    s, s_next = ((x - states.mean(axis=0)) / states.std(axis=0) for x in (states, then))
    mu = 1 / (1 + np.exp(-forward(before["target_actor"], s_next)))
    q_next = forward(before["target_critic"], np.hstack([s_next, mu]))[:, 0]
    targets = rewards + 0.99 * (1 - done) * q_next
    errors = targets - forward(before["critic"], np.hstack([s, actions]))[:, 0]
    assert losses is not None
    assert losses["critic_loss"] == pytest.approx(np.mean(errors**2), rel=1e-5)
    mu = 1 / (1 + np.exp(-forward(before["actor"], s)))
    value = forward(after["critic"], np.hstack([s, mu])).mean()
    assert losses["value"] == pytest.approx(value, rel=1e-4)
    for name in ("actor", "critic"):
        for key, weight in after[name].items():
            assert not np.array_equal(weight, before[name][key])
            followed = 0.005 * weight + 0.995 * before[f"target_{name}"][key]
            assert after[f"target_{name}"][key] == pytest.approx(followed, abs=1e-7)


# Chance and state


def test_the_seed_decides() -> None:
    actions = drive(make(1), 12)
    assert np.array_equal(actions, drive(make(1), 12))
    assert not np.array_equal(actions, drive(make(2), 12))


def test_global_generators_are_left_alone() -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    drive(make(), 12)
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())


@pytest.mark.parametrize("rounds", [0, 3, 12, 30])
def test_a_loaded_state_goes_on_exactly(rounds: int) -> None:
    first = make(3)
    drive(first, rounds)
    data = encode(first.state())
    ahead = drive(first, 12, seed=1)
    second = make(4)
    drive(second, 7)
    second.load_state(decode(data))
    assert encode(second.state()) == data
    assert np.array_equal(drive(second, 12, seed=1), ahead)
    assert encode(second.state()) == encode(first.state())


def test_a_state_does_not_change_afterwards() -> None:
    agent = make()
    drive(agent, 12)
    state, policy = agent.state(), agent.policy()
    data = encode(state), encode(policy)
    drive(agent, 12)
    assert (encode(state), encode(policy)) == data


def test_a_policy_acts_as_its_agent() -> None:
    agent, other = make(0), make(1)
    drive(agent, 30)
    drive(other, 12, seed=2)
    policy = encode(agent.policy())
    other.load_policy(decode(policy))
    assert encode(other.policy()) == policy
    for state in np.random.default_rng(0).normal(size=(20, 3)):
        assert np.array_equal(agent.ask(state, explore=False), other.ask(state, explore=False))
    assert len(policy) < len(encode(agent.state())) / 4


@pytest.mark.parametrize(
    "other",
    [
        DDPG(4, 2, np.random.default_rng(0), SMALL),
        DDPG(3, 1, np.random.default_rng(0), SMALL),
        DDPG(3, 2, np.random.default_rng(0), DDPGSettings(hidden=(8, 7))),
    ],
    ids=["state", "action", "hidden"],
)
def test_what_another_agent_left_is_refused_and_nothing_changes(other: DDPG) -> None:
    agent = make()
    drive(agent, 12)
    data = encode(agent.state())
    with pytest.raises(SearchError, match="layers"):
        agent.load_state(other.state())
    with pytest.raises(SearchError, match="layers"):
        agent.load_policy(other.policy())
    philox = DDPG(3, 2, np.random.Generator(np.random.Philox(0)), SMALL)
    with pytest.raises(SearchError, match="PCG64"):
        agent.load_state(philox.state())
    assert encode(agent.state()) == data


# Bad input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", ()),
        ("hidden", (8, 0)),
        ("hidden", (8.5,)),
        ("discount", 1.1),
        ("discount", float("nan")),
        ("soft_update", 0.0),
        ("batch", 0),
        ("actor_lr", 0.0),
        ("critic_lr", float("inf")),
        ("critic_weight_decay", -1.0),
        ("buffer", 31),
        ("noise", 0.01),
        ("noise_decay", 0.0),
        ("noise_floor", -0.1),
    ],
)
def test_settings_are_checked(name: str, value: Any) -> None:
    with pytest.raises(SearchError, match=f"'{name}' is"):
        DDPGSettings(**{name: value})


def test_sizes_are_checked() -> None:
    with pytest.raises(SearchError, match="at least 1"):
        DDPG(0, 1, np.random.default_rng(0))
    with pytest.raises(SearchError, match="at least 1 step"):
        make().learn(0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"state": [1.0, 2.0]}, "state has shape"),
        ({"state": [1.0, 2.0, np.nan]}, "state is not finite"),
        ({"state": [1.0, 2.0, 1e39]}, "state is not finite"),
        ({"state": [1.0, 2.0, "x"]}, "no vector of numbers"),
        ({"action": [[0.5, 0.5]]}, "action has shape"),
        ({"action": [0.5, 1.01]}, "lies in"),
        ({"action": [-0.01, 1.0]}, "lies in"),
        ({"reward": np.nan}, "reward is not finite"),
        ({"reward": None}, "reward"),
        ({"next_state": [1.0, 2.0, np.inf]}, "next state is not finite"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], message: str) -> None:
    agent = make()
    data = encode(agent.state())
    told = {"state": [0, 0, 0], "action": [0.5, 0.5], "reward": 1.0, "next_state": [0, 0, 0]}
    with pytest.raises(SearchError, match=message):
        agent.tell(**{**told, **wrong})
    if "state" in wrong:
        with pytest.raises(SearchError, match=message):
            agent.ask(wrong["state"])
    assert encode(agent.state()) == data


# Does it learn?


def train(agent: DDPG, play: Callable[[], Any], warm_up: int, episodes: int, steps: int) -> None:
    """Play some episodes for experience only, then learn after each."""
    for episode in range(warm_up + episodes):
        play()
        if episode >= warm_up:
            agent.learn(steps)
            agent.end_episode()


@pytest.mark.parametrize("seed", family(range(3), [0]))
def test_it_finds_the_best_action_of_every_state(seed: int) -> None:
    """Reward 1 - |a - a*(s)|^2 in six dimensions, a* well inside the cube; the best return is 1.

    The components of a state have the scales 30, 1 and 0.03 and lie off the origin, as principal
    components of weights may.
    """
    rng = np.random.default_rng([9, seed])
    mixing = rng.normal(0, 0.7, (6, 3))
    settings = DDPGSettings(
        (64, 64), batch=256, actor_lr=2e-3, critic_lr=1e-2, critic_weight_decay=0, noise_decay=0.995
    )
    agent = DDPG(3, 6, np.random.default_rng(seed), settings)

    def draw() -> tuple[Any, Any]:
        hidden = rng.normal(size=3)
        return hidden * [30, 1, 0.03] + [50, -2, 0.1], 0.5 + 0.35 * np.tanh(mixing @ hidden)

    def play() -> None:
        for _ in range(4):
            state, best = draw()
            action = agent.ask(state)
            agent.tell(state, action, 1 - np.sum((action - best) ** 2), state, done=True)

    trials = [draw() for _ in range(100)]

    def mean_return(policy: Callable[[Any], Any]) -> float:
        return float(np.mean([1 - np.sum((policy(state) - best) ** 2) for state, best in trials]))

    at_first = mean_return(lambda state: agent.ask(state, explore=False))
    by_chance = mean_return(lambda _: rng.random(6))
    train(agent, play, warm_up=200, episodes=150, steps=1)
    learned = mean_return(lambda state: agent.ask(state, explore=False))
    print(f"return {learned:.3f}, at first {at_first:.3f}, by chance {by_chance:.3f}")
    assert by_chance < 0.3
    assert at_first < 0.7
    assert learned > 0.9


GROWTH, ROUNDS = 2.0, 4
BEST = np.sqrt(15)


def spend(
    share_of: Callable[[float, int], float], tell: Callable[..., None] = lambda *_: None
) -> float:
    """Return of an episode: to spend w earns √w, and the wealth that is left doubles."""
    wealth, total = 1.0, 0.0
    for t in range(ROUNDS):
        share = share_of(wealth, t)
        reward, left = np.sqrt(share * wealth), GROWTH * (1 - share) * wealth
        tell([wealth, t], [share], reward, [left, t + 1], t == ROUNDS - 1)
        wealth, total = left, total + reward
    return float(total)


def saver(seed: int, discount: float, episodes: int) -> float:
    """Return of a learned policy."""
    settings = DDPGSettings(
        (32, 32), discount, 0.1, 64, 3e-3, 1e-2, critic_weight_decay=0, noise=0.4, noise_decay=0.99
    )
    agent = DDPG(2, 1, np.random.default_rng(seed), settings)

    def share(wealth: float, t: int, explore: bool = False) -> float:
        return float(agent.ask([wealth, t], explore)[0])

    train(agent, lambda: spend(partial(share, explore=True), agent.tell), 60, episodes, ROUNDS)
    return spend(share)


def test_the_best_savings_are_known() -> None:
    """With n rounds left the best return is √(w (1 + g + ... + g^(n-1))).

    The best share is one over that sum. An untrained agent spends half, a greedy one all at once.
    """
    rng = np.random.default_rng(0)
    by_chance = [spend(lambda *_: rng.random()) for _ in range(500)]
    assert spend(lambda _, t: 1 / np.sum(GROWTH ** np.arange(ROUNDS - t))) == pytest.approx(BEST)
    assert max(by_chance) < BEST
    assert np.mean(by_chance) < 0.65 * BEST
    assert spend(lambda *_: 0.5) < 0.74 * BEST
    assert spend(lambda *_: 1) == 1


@pytest.mark.parametrize("seed", range(3))
def test_it_looks_ahead(seed: int) -> None:
    learned = saver(seed, discount=1.0, episodes=60)
    print(f"return {learned:.2f} of {BEST:.2f}")
    assert learned > 0.86 * BEST


def test_a_greedy_agent_does_not() -> None:
    assert saver(0, discount=0.0, episodes=20) == pytest.approx(1.0, abs=0.15)


# The replay buffer


def filled(capacity: int, count: int) -> Replay:
    """A buffer that was given ``count`` transitions; the t-th has the reward t."""
    replay = Replay(capacity, 2, 1)
    for t in range(count):
        state, then = (np.array([at, -at], np.float32) for at in (t, t + 1))
        replay.add(state, np.array([t / 100], np.float32), t, then, t % 3 == 2)
    return replay


def everything(replay: Replay) -> list[float]:
    return sorted(replay.sample(len(replay), np.random.default_rng(0)).rewards.tolist())


def test_transitions_come_back_whole() -> None:
    batch = filled(20, 9).sample(9, np.random.default_rng(0))
    t = batch.rewards
    assert sorted(t.tolist()) == list(range(9))
    assert np.array_equal(batch.states, np.stack([t, -t], 1))
    assert np.array_equal(batch.next_states, np.stack([t + 1, -t - 1], 1))
    assert batch.actions[:, 0] == pytest.approx(t / 100)
    assert np.array_equal(batch.done, t % 3 == 2)
    assert {array.dtype for array in batch} == {np.dtype(np.float32)}


@pytest.mark.parametrize("count", [3, 5, 6, 13])
def test_the_oldest_are_discarded(count: int) -> None:
    replay = filled(5, count)
    assert len(replay) == min(count, 5)
    assert everything(replay) == list(range(count))[-5:]
    assert replay.state()["rows"][:, 3].tolist() == list(range(count))[-5:]


def test_all_transitions_are_equally_likely() -> None:
    replay, rng = filled(8, 20), np.random.default_rng(0)
    drawn = np.concatenate([replay.sample(4, rng).rewards for _ in range(2000)])
    counts = np.unique(drawn, return_counts=True)[1]
    assert counts.sum() == 8000
    assert counts == pytest.approx([1000] * 8, abs=100)


@pytest.mark.parametrize("count", [0, 4, 5, 12])
def test_a_loaded_buffer_draws_the_same(count: int) -> None:
    first, second = filled(5, count), filled(5, 7)
    data = encode(first.state())
    second.load_state(decode(data))
    assert encode(second.state()) == data
    for replay in (first, second):
        replay.add(np.ones(2, np.float32), np.ones(1, np.float32), 99, np.ones(2, np.float32), True)
    one, other = (replay.sample(len(first), np.random.default_rng(1)) for replay in (first, second))
    for mine, yours in zip(one, other, strict=True):
        assert np.array_equal(mine, yours)


def test_a_smaller_buffer_takes_the_latest() -> None:
    replay = Replay(3, 2, 1)
    replay.load_state(filled(5, 12).state())
    assert everything(replay) == [9, 10, 11]


def test_a_buffer_s_state_does_not_change_afterwards() -> None:
    replay = filled(5, 9)
    state = replay.state()
    data = encode(state)
    replay.load_state(filled(5, 3).state())
    assert encode(state) == data


def test_transitions_that_do_not_fit_are_refused() -> None:
    replay = filled(5, 4)
    with pytest.raises(SearchError, match="cannot draw 5 of 4"):
        replay.sample(5, np.random.default_rng(0))
    with pytest.raises(SearchError, match="shape"):
        replay.load_state(Replay(5, 3, 1).state())
    assert everything(replay) == [0, 1, 2, 3]


# The scale of the states


def fed(states: np.ndarray) -> Normalizer:
    normalizer = Normalizer(states.shape[1])
    for state in states:
        normalizer.add(state)
    return normalizer


def test_states_get_mean_0_and_deviation_1() -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (200, 3)) * [1e3, 1, 1e-3] + [5e3, 0, 1]
    scaled = fed(states)(states)
    by_hand = (states - states.mean(axis=0)) / states.std(axis=0)
    assert scaled == pytest.approx(by_hand, abs=1e-5)
    assert scaled.dtype == np.float32


def test_nothing_is_known_at_first() -> None:
    assert Normalizer(2)(np.array([3.0, -0.5])).tolist() == [3, -0.5]


def test_a_constant_component_is_only_shifted() -> None:
    assert fed(np.full((50, 1), 0.1))(np.array([[0.1], [2.1]])).ravel() == pytest.approx([0, 2])


def test_far_off_components_are_cut() -> None:
    normalizer = fed(np.array([[-1.0], [1.0]]))
    assert normalizer(np.array([[99.0], [-99.0], [0.5]]))[:, 0].tolist() == [LIMIT, -LIMIT, 0.5]


def test_a_loaded_normalizer_goes_on_the_same() -> None:
    states = np.random.default_rng(0).normal(size=(9, 2))
    first, second = fed(states), fed(states[:4])
    second.load_state(decode(encode(first.state())))
    for normalizer in (first, second):
        normalizer.add(np.array([1.0, 2.0]))
    assert encode(first.state()) == encode(second.state())
    with pytest.raises(SearchError, match="shape"):
        second.load_state(Normalizer(3).state())


# Eq. 10-14 on networks that are small enough to compute by hand.
#
# One state, one action, two hidden layers of one unit. The critic is relu(relu(s + 2 a)), its
# target the same plus 1; whatever the state, the actor is the sigmoid of 0 and its target that of
# 100.


def network(first: list[float], last: float, bias: float) -> dict[str, np.ndarray]:
    zero = np.zeros(1, np.float32)
    return {
        "0.weight": np.array([first], np.float32),
        "0.bias": zero,
        "2.weight": np.ones((1, 1), np.float32),
        "2.bias": zero,
        "4.weight": np.full((1, 1), last, np.float32),
        "4.bias": np.array([bias], np.float32),
    }


def by_hand(**options: float) -> ActorCritic:
    defaults = {"discount": 0.5, "soft_update": 0.25, "critic_weight_decay": 0.0}
    settings = DDPGSettings(hidden=(1, 1), batch=1, **{**defaults, **options})  # type: ignore[arg-type]
    agent = ActorCritic([1, 1, 1, 1], settings, torch.Generator())
    networks = {
        "actor": network([0], 0, 0),
        "target_actor": network([0], 0, 100),
        "critic": network([1, 2], 1, 0),
        "target_critic": network([1, 2], 1, 1),
    }
    agent.load_state({"networks": networks, "moments": {"actor": {}, "critic": {}}})
    return agent


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


BATCH = Transitions(
    states=column(1, 1),
    actions=column(0.25, 0.75),
    rewards=np.array([1, 1], np.float32),
    next_states=column(2, 2),
    done=np.array([0, 1], np.float32),
)


def test_the_critic_loss_by_hand() -> None:
    """Eq. 10.

    μ~(2) = 1 and q~(2, 1) = 2 + 2 + 1 = 5. The first target is 1 + 5/2 = 3.5, and q(1, 1/4) = 1.5;
    the second is done: 1, and q(1, 3/4) = 2.5. The loss is the mean of 2^2 and 1.5^2. Were the
    second not done, it would be that of 2^2 and 1^2.
    """
    assert by_hand().critic_loss(BATCH).item() == pytest.approx(3.125)
    going_on = BATCH._replace(done=np.zeros(2, np.float32))
    assert by_hand().critic_loss(going_on).item() == pytest.approx(2.5)
    assert by_hand(discount=0.0).critic_loss(going_on).item() == pytest.approx(
        (0.5**2 + 1.5**2) / 2
    )


def test_the_critic_descends_by_hand() -> None:
    """Eq. 11: for the first transition alone dL/dq = 2 (1.5 - 3.5) < 0, so that q grows.

    Adam's first step has the size of the learning rate in every parameter. Of the weights of the
    state, of the action and of both later layers each grows by 0.1, and so do the biases.
    """
    agent = by_hand(critic_lr=0.1)
    first = Transitions(*(array[:1] for array in BATCH))
    loss, _ = agent.update(first)
    assert loss == pytest.approx(2**2)
    moved = agent.state()["networks"]["critic"]
    assert moved["0.weight"] == pytest.approx(np.array([[1.1, 2.1]]), abs=1e-6)
    assert [moved[name].item() for name in ("2.weight", "4.weight")] == pytest.approx([1.1] * 2)
    assert [moved[f"{layer}.bias"].item() for layer in (0, 2, 4)] == pytest.approx([0.1] * 3)
    assert agent.critic_loss(first).item() < loss


def test_the_actor_ascends_by_hand() -> None:
    """Eq. 12 with the sign put right: q grows with a, so that the actor's last bias grows.

    Its first step is the learning rate; all other weights of the actor have no gradient or zero
    inputs. The critic hardly moves, so that q(1, μ) = 1 + 2 μ = 2 becomes 1 + 2 sigmoid(0.2).
    """
    agent = by_hand(actor_lr=0.2, critic_lr=1e-9)
    _, value = agent.update(BATCH)
    assert value == pytest.approx(2.0)
    moved = agent.state()["networks"]["actor"]
    assert moved["4.bias"].item() == pytest.approx(0.2)
    assert moved["4.weight"].item() == 0
    assert agent.act(np.ones(1, np.float32)).item() == pytest.approx(1 / (1 + np.exp(-0.2)))
    assert agent.value(BATCH).item() == pytest.approx(1 + 2 / (1 + np.exp(-0.2)))


def test_targets_follow_by_hand() -> None:
    """Eq. 13 and 14 with φ = 1/4.

    One step of its optimiser takes the actor's bias from 0 to 1; its target's goes from 100 to
    1/4 + 75. The critic's bias is 0 and its target's 1: 3/4.
    """
    agent = by_hand(actor_lr=1.0, critic_lr=1e-9)
    agent.update(BATCH)
    networks = agent.state()["networks"]
    assert networks["actor"]["4.bias"].item() == pytest.approx(1)
    assert networks["target_actor"]["4.bias"].item() == pytest.approx(75.25)
    assert networks["target_critic"]["4.bias"].item() == pytest.approx(0.75)


def test_a_step_of_the_actor_raises_the_value() -> None:
    settings = DDPGSettings(hidden=(16, 16), critic_lr=1e-9)
    agent = ActorCritic([3, 16, 16, 4], settings, torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    states, actions = (rng.random((32, n), np.float32) for n in (3, 4))
    batch = Transitions(states, actions, states[:, 0], states, actions[:, 0])
    values = [agent.update(batch)[1] for _ in range(20)]
    assert np.all(np.diff(values) > 0)


def test_targets_start_as_copies() -> None:
    agent = ActorCritic([2, 8, 4, 3], DDPGSettings(), torch.Generator().manual_seed(0))
    networks = agent.state()["networks"]
    assert [array.shape for array in networks["actor"].values()][::2] == [(8, 2), (4, 8), (3, 4)]
    assert [array.shape for array in networks["critic"].values()][::2] == [(8, 5), (4, 8), (1, 4)]
    for name in ("actor", "critic"):
        for key, array in networks[name].items():
            assert np.array_equal(array, networks[f"target_{name}"][key])


def test_first_weights_are_uniform() -> None:
    """Within 1/sqrt(inputs) in hidden layers, within 0.003 in the last."""
    drawn = perceptron([100, 400, 50], torch.Generator().manual_seed(0)).state_dict()
    for name, width in [("0.weight", 0.1), ("0.bias", 0.1), ("2.weight", 3e-3), ("2.bias", 3e-3)]:
        assert 0.9 * width < drawn[name].abs().max() <= width, name
        assert abs(drawn[name].mean()) < 0.3 * width, name


def test_a_loaded_actor_starts_afresh() -> None:
    agent = by_hand(actor_lr=0.2)
    agent.update(BATCH)
    agent.load_actor(network([3], 2, 1))
    state = agent.state()
    for name in ("actor", "target_actor"):
        assert state["networks"][name]["0.weight"].item() == 3
        assert state["networks"][name]["4.bias"].item() == 1
    assert state["moments"]["actor"] == {}


def test_other_weights_are_refused() -> None:
    agent = by_hand()
    other = ActorCritic([1, 2, 1, 1], DDPGSettings(), torch.Generator())
    with pytest.raises(SearchError, match="another shape"):
        agent.load_actor(other.state()["networks"]["actor"])
    assert agent.act(np.ones(1, np.float32)).item() == 0.5
