"""Deep deterministic policy gradient, as FedGraph learns its sampling policies (Algorithm 4).

Chen et al., "FedGraph: Federated Graph Learning With Intelligent Sampling" (2021), after Lillicrap
et al., "Continuous control with deep reinforcement learning" (ICLR 2016). The agent knows neither
graphs nor clients: it is shown states, gives actions and is told their rewards.

It is written here since a federation owns the loop of rounds and checkpoints hold payloads only:
Stable-Baselines3 steps an environment inside its ``learn``; TorchRL leaves the loop to its user,
but asks for tensordicts and one more dependency in return for two short losses.
"""

import copy
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autofgl.search.actor_critic import ActorCritic, DDPGSettings, Floats, Transitions
from autofgl.search.searcher import SearchError, State, load_rng, rng_state

__all__ = ["DDPG", "DDPGSettings", "Normalizer", "Replay"]

#: A normalized component is cut off here: a policy may be used where it has never been.
LIMIT = 5.0


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
