"""Deep deterministic policy gradient, as FedGraph learns its sampling policies (Algorithm 4).

Chen et al., "FedGraph: Federated Graph Learning With Intelligent Sampling" (2021), after Lillicrap
et al., "Continuous control with deep reinforcement learning" (ICLR 2016). The agent knows neither
graphs nor clients: it is shown states, gives actions and is told their rewards.

========== =====================================================================
μ(s)       actor: the action [action size] in a state [state size]
q(s, a)    critic: discounted sum of the rewards that follow
μ~, q~     target networks, slow copies of the two
========== =====================================================================

It is written here since a federation owns the loop of rounds and checkpoints hold payloads only:
Stable-Baselines3 steps an environment inside its ``learn``; TorchRL leaves the loop to its user,
but asks for tensordicts and one more dependency in return for two short losses.
"""

import copy
import functools
import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autofgl.search.searcher import SearchError, State, load_rng, rng_state

Floats: TypeAlias = npt.NDArray[np.float32]

#: A normalized component is cut off here: a policy may be used where it has never been.
LIMIT = 5.0
#: Half-width of the weights of an output layer, as in DDPG (Lillicrap et al., ICLR 2016), so that
#: first actions are close to 1/2 and first values close to 0.
OUTPUT_WIDTH = 3e-3
_NETWORKS = ("actor", "critic", "target_actor", "target_critic")


@dataclass(frozen=True)
class DDPGSettings:
    """Settings of the agent of FedGraph's Algorithm 4.

    The hidden layers are the paper's; learning rates, discount, soft update, batch and weight decay
    those of the authors' public code; buffer and noise are ours.
    """

    hidden: tuple[int, ...] = (512, 256)  # units of the hidden layers of actor and critic
    discount: float = 0.99  # γ, weight of the next round's value
    soft_update: float = 0.005  # φ, how far the target networks move at each step (Eq. 13, 14)
    batch: int = 32  # K, transitions in a mini-batch
    actor_lr: float = 1e-4  # η_μ of Eq. 12
    critic_lr: float = 1e-3  # η_q of Eq. 11
    critic_weight_decay: float = 1e-2  # L2 penalty of the critic
    buffer: int = 10_000  # transitions that are kept; the oldest goes when one more comes
    noise: float = 0.3  # standard deviation of the exploration in the first episode
    noise_decay: float = 0.99  # the noise shrinks by this factor with every episode,
    noise_floor: float = 0.02  # but not below this

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        layers = bool(self.hidden) and all(map(_is_count, self.hidden))
        fits = _is_count(self.buffer) and self.buffer >= self.batch
        rules = {
            "hidden": (layers, "at least one layer, each of at least one unit"),
            "discount": (0 <= self.discount <= 1, "in [0, 1]"),
            "soft_update": (0 < self.soft_update <= 1, "in (0, 1]"),
            "batch": (_is_count(self.batch), "a whole number, at least 1"),
            "actor_lr": (0 < self.actor_lr < math.inf, "above 0"),
            "critic_lr": (0 < self.critic_lr < math.inf, "above 0"),
            "critic_weight_decay": (0 <= self.critic_weight_decay < math.inf, "at least 0"),
            "buffer": (fits, f"a whole number, at least the batch of {self.batch}"),
            "noise_floor": (0 <= self.noise_floor < math.inf, "at least 0"),
            "noise": (self.noise_floor <= self.noise < math.inf, "at least its floor"),
            "noise_decay": (0 < self.noise_decay <= 1, "in (0, 1]"),
        }
        for name, (holds, wanted) in rules.items():
            if not holds:
                value = getattr(self, name)
                raise SearchError(f"DDPG's '{name}' is {value}, it has to be {wanted}")


class Transitions(NamedTuple):
    """Rounds that were seen: in a state s an action a earned r and led to s'."""

    states: Floats  # [n, state size]
    actions: Floats  # [n, action size]
    rewards: Floats  # [n]
    next_states: Floats  # [n, state size]
    done: Floats  # [n], 1 where nothing follows s', else 0


def perceptron(sizes: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, their weights uniform and from this generator alone."""
    layers: list[nn.Module] = []
    for depth, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 2):
        layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
        width = inputs**-0.5 if depth < len(sizes) else OUTPUT_WIDTH
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -width, width, generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ActorCritic:
    """Actor, critic, their targets and their optimizers.

    Eq. 11 and 12 are plain gradient steps; like the original DDPG we take them with Adam.
    ``layers`` are sizes from the state over the hidden layers, the critic's too, to the action.
    """

    def __init__(
        self, layers: Sequence[int], settings: DDPGSettings, generator: torch.Generator
    ) -> None:
        state_size, *hidden, action_size = layers
        self.settings = settings
        self.actor = perceptron(layers, generator).append(nn.Sigmoid())
        self.critic = perceptron([state_size + action_size, *hidden, 1], generator)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        adam = functools.partial(torch.optim.Adam, fused=True)
        self._actor_adam = adam(self.actor.parameters(), settings.actor_lr)
        self._critic_adam = adam(
            self.critic.parameters(), settings.critic_lr, weight_decay=settings.critic_weight_decay
        )

    @torch.no_grad()
    def act(self, state: Floats) -> npt.NDArray[np.float64]:
        """μ(s), in [0, 1]."""
        action: Tensor = self.actor(torch.from_numpy(state))
        return action.double().numpy()

    def critic_loss(self, batch: Transitions) -> Tensor:
        """Eq. 10: how far the critic is from r + γ q~(s', μ~(s')), or from r where all is done.

        The paper's rounds never end; without ``done`` anywhere this is its equation.
        """
        states, actions, rewards, next_states, done = map(torch.from_numpy, batch)
        with torch.no_grad():
            next_values = _q(self.target_critic, next_states, self.target_actor(next_states))
            targets = rewards + self.settings.discount * (1 - done) * next_values
        return torch.mean((targets - _q(self.critic, states, actions)) ** 2)

    def value(self, batch: Transitions) -> Tensor:
        """Mean of q(s, μ(s)): what the actor is to make large."""
        states = torch.from_numpy(batch.states)
        return torch.mean(_q(self.critic, states, self.actor(states)))

    def update(self, batch: Transitions, critic_only: bool = False) -> tuple[float, float]:
        """Lines 13 and 14 of Algorithm 4; gives the loss and the value, each before its step.

        Eq. 12 as printed *subtracts* the gradient of q, which would lead the actor to the action
        that the critic likes least. The actor here ascends, as in the original DDPG.
        """
        loss = self.critic_loss(batch)
        _descend(loss, self._critic_adam)  # Eq. 11
        value = self.value(batch)
        if not critic_only:
            _descend(-value, self._actor_adam)  # Eq. 12, with the sign put right
        _follow(self.target_actor, self.actor, self.settings.soft_update)  # Eq. 13
        _follow(self.target_critic, self.critic, self.settings.soft_update)  # Eq. 14
        return loss.item(), value.item()

    def state(self) -> State:
        """Weights of all networks, moments of the optimizers."""
        return {
            "networks": {name: _copied(getattr(self, name).state_dict()) for name in _NETWORKS},
            "moments": {"actor": _moments(self._actor_adam), "critic": _moments(self._critic_adam)},
        }

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken."""
        for name in _NETWORKS:
            _load_weights(getattr(self, name), state["networks"][name])
        _load_moments(self._actor_adam, state["moments"]["actor"])
        _load_moments(self._critic_adam, state["moments"]["critic"])

    def load_actor(self, saved: State) -> None:
        """Copy an actor's weights; its target follows, its optimizer starts afresh."""
        _load_weights(self.actor, saved)
        _load_weights(self.target_actor, saved)
        _load_moments(self._actor_adam, {})


class Replay:
    """Keeps the latest transitions, each as one row, and discards the oldest when it is full."""

    def __init__(self, capacity: int, state_size: int, action_size: int) -> None:
        *self._splits, self._width = np.cumsum([state_size, action_size, 1, state_size, 1]).tolist()
        self._rows: deque[Floats] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, state: Floats, action: Floats, reward: float, next_state: Floats, done: bool
    ) -> None:
        """Keep one more transition."""
        self._rows.append(np.array([*state, *action, reward, *next_state, done], np.float32))

    def sample(self, n: int, rng: np.random.Generator) -> Transitions:
        """``n`` different transitions, all equally likely."""
        if n > len(self):
            raise SearchError(f"cannot draw {n} of {len(self)} transitions")
        ages = rng.choice(len(self), n, replace=False, shuffle=False).tolist()
        rows = np.stack([self._rows[age] for age in ages])
        states, actions, rewards, next_states, done = np.split(rows, self._splits, axis=1)
        return Transitions(states, actions, rewards[:, 0], next_states, done[:, 0])

    def state(self) -> State:
        """All transitions, the oldest first."""
        return {"rows": np.array(self._rows, np.float32).reshape(-1, self._width)}

    def load_state(self, state: State) -> None:
        """Hold the transitions of :meth:`state`, only the latest of them if not all fit."""
        rows = np.array(state["rows"], np.float32)
        if rows.shape[1:] != (self._width,):
            shape = f"(n, {self._width})"
            raise SearchError(f"saved transitions have shape {rows.shape}, expected {shape}")
        self._rows = deque(rows, self._rows.maxlen)


class Normalizer:
    """Subtracts the running mean of all states seen and divides by their standard deviation.

    FedGraph feeds the principal components as they are. Their variances differ by orders of
    magnitude, and a network with one learning rate hardly sees the small ones.
    """

    def __init__(self, size: int) -> None:
        self._count = 0
        self._mean = np.zeros(size)
        self._squares = np.zeros(size)

    def add(self, state: npt.NDArray[np.floating]) -> None:
        """Count one more state (Welford's update)."""
        self._count += 1
        before = state - self._mean
        self._mean = self._mean + before / self._count
        self._squares = self._squares + before * (state - self._mean)

    def __call__(self, states: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """The states [..., size] on the common scale; a constant component is only shifted."""
        deviation = np.sqrt(self._squares / max(self._count, 1))
        varies = deviation > 1e-6 * np.abs(self._mean) + 1e-12
        scaled = (states - self._mean) / np.where(varies, deviation, 1.0)
        return np.clip(scaled, -LIMIT, LIMIT).astype(np.float32)

    def state(self) -> State:
        """Number of states, their mean, and the sum of squares about it."""
        return {"count": self._count, "mean": self._mean, "squares": self._squares}

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken."""
        mean, squares = (np.array(state[key], np.float64) for key in ("mean", "squares"))
        if mean.shape != self._mean.shape or squares.shape != self._mean.shape:
            raise SearchError(f"saved mean of shape {mean.shape}, expected {self._mean.shape}")
        self._count, self._mean, self._squares = int(state["count"]), mean, squares


class DDPG:
    """An agent with actions in [0, 1]^d that learns to earn large rewards.

    A round of Algorithm 4 is ``tell`` (line 11), ``learn`` (lines 12-14) and ``ask`` (line 15).
    The generator is for first weights, exploration and mini-batches. States, actions and rewards of
    another size, or that are not finite, are a :class:`SearchError`.
    """

    def __init__(
        self,
        state_size: int,
        action_size: int,
        seed_rng: np.random.Generator,
        settings: DDPGSettings | None = None,
    ) -> None:
        if state_size < 1 or action_size < 1:
            raise SearchError(f"state size {state_size} and action size {action_size}: at least 1")
        self.state_size = state_size
        self.action_size = action_size
        self.settings = settings or DDPGSettings()
        self._rng = seed_rng
        #: Standard deviation of the exploration noise in this episode.
        self.noise = self.settings.noise
        self._layers = [state_size, *self.settings.hidden, action_size]
        generator = torch.Generator().manual_seed(int(seed_rng.integers(1 << 63)))
        self._networks = ActorCritic(self._layers, self.settings, generator)
        self._replay = Replay(self.settings.buffer, state_size, action_size)
        self._normalizer = Normalizer(state_size)

    def ask(self, state: npt.ArrayLike, explore: bool = True) -> npt.NDArray[np.float64]:
        """The action [d] for a state: μ(s), and noise on top of it if it is to explore."""
        seen = _vector("state", state, self.state_size)
        action = self._networks.act(self._normalizer(seen))
        if explore:
            action = action + self._rng.normal(0, self.noise, self.action_size)
        return np.clip(action, 0, 1)

    def tell(
        self,
        state: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: float,
        next_state: npt.ArrayLike,
        done: bool = False,
    ) -> None:
        """Store a transition, whether its action was asked or not.

        ``done`` says that nothing can be earned after it. The paper has no such state: an episode
        that is merely cut off after its last round is not done.
        """
        seen = _vector("state", state, self.state_size)
        taken = _vector("action", action, self.action_size)
        earned = _vector("reward", [reward], 1)[0]
        then = _vector("next state", next_state, self.state_size)
        if np.any(taken < 0) or np.any(taken > 1):
            raise SearchError("an action lies in [0, 1] in every component")
        self._normalizer.add(seen)
        self._replay.add(seen, taken, earned, then, bool(done))

    def learn(self, steps: int = 1, critic_only: bool = False) -> dict[str, float] | None:
        """Update all networks by mini-batches of what was told (Eq. 10-14); one step in the paper.

        ``critic_only`` leaves the actor as it is: following a critic that has seen little, it would
        run into a corner of the actions, where its gradient vanishes.

        Returns:
            Means over the steps of ``critic_loss`` (Eq. 10) and of ``value``, the critic's opinion
            of the actor; nothing while there are fewer transitions than a batch has.
        """
        if steps < 1:
            raise SearchError(f"learning takes at least 1 step, not {steps}")
        if len(self._replay) < self.settings.batch:
            return None
        results = []
        for _ in range(steps):
            batch = self._replay.sample(self.settings.batch, self._rng)
            states, then = self._normalizer(batch.states), self._normalizer(batch.next_states)
            scaled = batch._replace(states=states, next_states=then)
            results.append(self._networks.update(scaled, critic_only))
        loss, value = np.mean(results, axis=0).tolist()
        return {"critic_loss": loss, "value": value}

    def end_episode(self) -> None:
        """Explore a little less from here on."""
        self.noise = max(self.noise * self.settings.noise_decay, self.settings.noise_floor)

    def state(self) -> State:
        """Networks, moments, transitions, scale of the states, noise and generator."""
        return {
            "layers": self._layers,
            "rng": rng_state(self._rng),
            "noise": self.noise,
            "replay": self._replay.state(),
            "normaliser": self._normalizer.state(),
            **self._networks.state(),
        }

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken; another agent's is refused, nothing changes."""
        normalizer = self._saved_scale(state)
        networks, replay = copy.deepcopy((self._networks, self._replay))
        networks.load_state(state)
        replay.load_state(state["replay"])
        load_rng(self._rng, state["rng"])
        self._networks, self._replay, self._normalizer = networks, replay, normalizer
        self.noise = float(state["noise"])

    def policy(self) -> State:
        """What it takes to act without exploration: the actor and the scale of the states."""
        actor = self._networks.state()["networks"]["actor"]
        return {"layers": self._layers, "normaliser": self._normalizer.state(), "actor": actor}

    def load_policy(self, policy: State) -> None:
        """Act as the agent whose :meth:`policy` it is; to learn on, :meth:`load_state`."""
        normalizer = self._saved_scale(policy)
        self._networks.load_actor(policy["actor"])
        self._normalizer = normalizer

    def _saved_scale(self, saved: State) -> Normalizer:
        """The scale of the states of an agent of the same sizes."""
        if saved.get("layers") != self._layers:
            given = saved.get("layers")
            raise SearchError(f"the saved agent has layers {given}, this one {self._layers}")
        normalizer = Normalizer(self.state_size)
        normalizer.load_state(saved["normaliser"])
        return normalizer


def _q(critic: nn.Module, states: Tensor, actions: Tensor) -> Tensor:
    """q(s, a) [n]."""
    values: Tensor = critic(torch.cat([states, actions], 1))
    return values[:, 0]


def _descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """One step of the optimizer's network; the others get no gradient."""
    optimizer.zero_grad()
    loss.backward(inputs=optimizer.param_groups[0]["params"])  # type: ignore[no-untyped-call]
    optimizer.step()


@torch.no_grad()
def _follow(target: nn.Module, network: nn.Module, share: float) -> None:
    """θ~ ← φ θ + (1 - φ) θ~."""
    for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
        slow.lerp_(fast, share)


def _copied(tensors: Mapping[str, Tensor]) -> State:
    return {name: value.numpy().copy() for name, value in tensors.items()}


def _load_weights(network: nn.Module, saved: State) -> None:
    """Copy saved weights, unless names or shapes are others."""
    own = network.state_dict()
    shapes = {name: np.shape(value) for name, value in saved.items()}
    if {name: value.shape for name, value in own.items()} != shapes:
        raise SearchError("the saved weights belong to a network of another shape")
    for name, value in own.items():
        value.copy_(torch.from_numpy(np.array(saved[name], np.float32)))


def _moments(optimizer: torch.optim.Optimizer) -> State:
    """Copies of Adam's counts and moments, by the number of their parameter."""
    return {str(at): _copied(entry) for at, entry in optimizer.state_dict()["state"].items()}


def _load_moments(optimizer: torch.optim.Optimizer, saved: State) -> None:
    """Copy what :func:`_moments` gave; the settings stay as they are."""
    moments = {
        int(index): {key: torch.from_numpy(np.array(value)) for key, value in entry.items()}
        for index, entry in saved.items()
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


def _vector(name: str, given: Any, size: int) -> Floats:
    """A checked copy [size]."""
    try:
        with np.errstate(over="ignore"):
            vector = np.array(given, np.float32)
    except (TypeError, ValueError) as error:
        raise SearchError(f"the {name} is no vector of numbers: {error}") from error
    if vector.shape != (size,):
        raise SearchError(f"the {name} has shape {vector.shape}, expected ({size},)")
    if not np.all(np.isfinite(vector)):
        raise SearchError(f"the {name} is not finite: {vector.tolist()}")
    return vector
