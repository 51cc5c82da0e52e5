"""Eq. 10-14 on networks that are small enough to compute by hand.

One state, one action, two hidden layers of one unit. The critic is relu(relu(s + 2 a)), its target
the same plus 1; whatever the state, the actor is the sigmoid of 0 and its target that of 100.
"""

import numpy as np
import pytest
import torch

from autofgl.search.ddpg import ActorCritic, DDPGSettings, Transitions, perceptron
from autofgl.search.searcher import SearchError


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
