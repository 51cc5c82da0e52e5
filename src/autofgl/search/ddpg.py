"""Deep deterministic policy gradient, as FedGraph learns its sampling policies (Algorithm 4).

Chen et al., "FedGraph: Federated Graph Learning With Intelligent Sampling" (2021), after Lillicrap
et al., "Continuous control with deep reinforcement learning" (ICLR 2016). The agent knows neither
graphs nor clients: it is shown states, gives actions and is told their rewards.

It is written here since a federation owns the loop of rounds and checkpoints hold payloads only:
Stable-Baselines3 steps an environment inside its ``learn``; TorchRL leaves the loop to its user,
but asks for tensordicts and one more dependency in return for two short losses.

Eq. 12 is printed with the wrong sign: the actor *ascends* the critic.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autofgl.search.actor_critic import ActorCritic, weights
from autofgl.search.codes import SearchError
from autofgl.search.ddpg_settings import DDPGSettings
from autofgl.search.normaliser import Normaliser
from autofgl.search.replay import Floats, Replay
from autofgl.search.searcher import State, generator_state, load_generator_state

__all__ = ["DDPG", "DDPGSettings"]


class DDPG:
    """An agent with actions in [0, 1]^d that learns to earn large rewards.

    A round of Algorithm 4 is ``tell`` (line 11), ``learn`` (lines 12-14) and ``ask`` (line 15).

    Args:
        state_size: Components of a state.
        action_size: d, components of an action.
        seed_rng: Source of all chance: first weights, exploration, mini-batches.
        settings: Networks, learning and exploration.

    Raises:
        SearchError: A size is below 1.
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
        self.state_size = int(state_size)
        self.action_size = int(action_size)
        self.settings = settings or DDPGSettings()
        self._rng = seed_rng
        self._noise = self.settings.noise
        self._networks = self._new_networks(int(seed_rng.integers(1 << 63)))
        self._replay = self._new_replay()
        self._normaliser = Normaliser(state_size)

    @property
    def noise(self) -> float:
        """Standard deviation of the exploration noise in this episode."""
        return self._noise

    def ask(self, state: npt.ArrayLike, explore: bool = True) -> npt.NDArray[np.float64]:
        """The action [d] for a state: μ(s), and noise on top of it if it is to explore.

        Raises:
            SearchError: The state is of another size, or not finite.
        """
        seen = _vector("state", state, self.state_size)
        action = self._networks.act(self._normaliser(seen))
        if explore:
            action = action + self._rng.normal(0, self._noise, self.action_size)
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

        Args:
            state: Where the action was taken.
            action: What was done, in [0, 1].
            reward: What it earned.
            next_state: Where it led.
            done: Whether nothing can be earned after it. The paper has no such state: an episode
                that is merely cut off after its last round is not done.

        Raises:
            SearchError: A size is another, a number is not finite, or the action is outside.
        """
        seen = _vector("state", state, self.state_size)
        taken = _vector("action", action, self.action_size)
        earned = _vector("reward", [reward], 1)[0]
        then = _vector("next state", next_state, self.state_size)
        if np.any(taken < 0) or np.any(taken > 1):
            raise SearchError("an action lies in [0, 1] in every component")
        self._normaliser.add(seen)
        self._replay.add(seen, taken, earned, then, bool(done))

    def learn(self, steps: int = 1, critic_only: bool = False) -> dict[str, float] | None:
        """Update all networks by mini-batches of what was told (Eq. 10-14).

        Args:
            steps: Number of mini-batches; Algorithm 4 takes one in every round.
            critic_only: Leave the actor as it is: following a critic that has seen little, it
                would run into a corner of the actions, where its gradient vanishes.

        Returns:
            Means over the steps of ``critic_loss`` (Eq. 10) and of ``value``, the critic's opinion
            of the actor; nothing while fewer transitions are known than a batch has.

        Raises:
            SearchError: ``steps`` is below 1.
        """
        if steps < 1:
            raise SearchError(f"learning takes at least 1 step, not {steps}")
        if len(self._replay) < self.settings.batch:
            return None
        learnt = [self._learn(critic_only) for _ in range(steps)]
        loss, value = np.mean(learnt, axis=0).tolist()
        return {"critic_loss": loss, "value": value}

    def end_episode(self) -> None:
        """Explore a little less from here on."""
        self._noise = max(self._noise * self.settings.noise_decay, self.settings.noise_floor)

    def state(self) -> State:
        """Networks, moments, transitions, scale of the states, noise and generator."""
        return {
            "layers": self._layers(),
            "rng": generator_state(self._rng),
            "noise": self._noise,
            "replay": self._replay.state(),
            "normaliser": self._normaliser.state(),
            **self._networks.state(),
        }

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken.

        Raises:
            SearchError: The state belongs to another agent; then nothing has changed.
        """
        self._check_layers(state)
        networks, replay = self._new_networks(0), self._new_replay()
        normaliser = Normaliser(self.state_size)
        networks.load_state(state)
        replay.load_state(state["replay"])
        normaliser.load_state(state["normaliser"])
        load_generator_state(self._rng, state["rng"])
        self._networks, self._replay, self._normaliser = networks, replay, normaliser
        self._noise = float(state["noise"])

    def policy(self) -> State:
        """What it takes to act without exploration: the actor and the scale of the states."""
        return {
            "layers": self._layers(),
            "normaliser": self._normaliser.state(),
            "actor": weights(self._networks.actor),
        }

    def load_policy(self, policy: State) -> None:
        """Act as the agent whose :meth:`policy` it is.

        Meant for acting. The critic knows nothing of this policy: an agent that is to go on
        learning wants :meth:`load_state`.

        Raises:
            SearchError: The policy belongs to an agent of other sizes; then nothing has changed.
        """
        self._check_layers(policy)
        normaliser = Normaliser(self.state_size)
        normaliser.load_state(policy["normaliser"])
        self._networks.load_actor(policy["actor"])
        self._normaliser = normaliser

    def _learn(self, critic_only: bool) -> tuple[float, float]:
        batch = self._replay.sample(self.settings.batch, self._rng)
        states, next_states = self._normaliser(batch.states), self._normaliser(batch.next_states)
        scaled = batch._replace(states=states, next_states=next_states)
        return self._networks.update(scaled, critic_only)

    def _layers(self) -> list[int]:
        return [self.state_size, *self.settings.hidden, self.action_size]

    def _check_layers(self, saved: State) -> None:
        if saved.get("layers") != self._layers():
            raise SearchError(
                f"the saved agent has layers {saved.get('layers')}, this one {self._layers()}"
            )

    def _new_networks(self, seed: int) -> ActorCritic:
        generator = torch.Generator().manual_seed(seed)
        return ActorCritic(self._layers(), self.settings, generator)

    def _new_replay(self) -> Replay:
        return Replay(self.settings.buffer, self.state_size, self.action_size)


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
