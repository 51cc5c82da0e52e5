"""How FedGraph's server learns what every client samples (section 4, Algorithm 4).

A round of the federation is one step of the agent: it sees the weights, by
:mod:`autofgl.sharing.across.weight_state`, says for every client i its P_i = (κ_i, p_i^(1..K)), and
is paid by Eq. 9 (:mod:`autofgl.methods.fedgraph.reward`). Before the first episode some rounds
serve to fit the axes of the state and to find Λ, α and β, which then stay: a policy can be kept in
a file for another run.

The last episodes judge: the best random policy of the warm-up, the actor of the best episode, the
last actor and the policy that samples everything play one each, without noise and without learning,
and the one with the best return is kept. So what is kept is no worse than the best that was drawn,
or than not to sample, as far as an episode can tell.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.errors import AutoFGLError, PayloadError, UserError
from autofgl.federation.payload import Payload, decode, encode
from autofgl.methods.fedgraph.reward import Reward
from autofgl.methods.fedgraph.settings import FedGraphSettings
from autofgl.runtime.state import restore_state, saved_state
from autofgl.search.ddpg import DDPG, DDPGSettings
from autofgl.search.searcher import SearchError
from autofgl.seeding import numpy_generator
from autofgl.sharing.across.weight_state import Axes, Vector, state_of, weight_vector

#: A neighbor is kept with at least this probability, and a mini-batch has this share of its
#: largest size.
LEAST_KEPT, LEAST_BATCH = 0.02, 1 / 32
#: How far clients lie apart from each other, and rounds of an episode, where policies are random.
SPREAD = 0.1
#: Says what a policy file is.
KIND = "autofgl sampling policy 3"
#: Axes of the state; it has twice as many dimensions, the paper's 20.
AXES = 10


class SamplingPolicy:
    """The agent, and all that stands between it and the clients, in the order of its action."""

    saved = (
        "_agent", "_seen", "_costs", "_accuracies", "_state", "_action", "_return", "_step",
        "_episode", "_best", "_best_random", "_candidates", "_chosen", "_fixed", "_length",
    )  # fmt: skip

    def __init__(self, clients: Sequence[str], settings: FedGraphSettings, seed: int) -> None:
        self._clients = list(clients)
        self._settings = settings
        self._seed = seed
        #: Along which clients say where their weights are, once there are any.
        self.axes: Axes | None = None
        self._reward: Reward | None = None
        self._seen: list[npt.NDArray[np.float32]] = []
        self._costs: list[float] = []
        self._accuracies: list[float] = []
        self._state: Vector | None = None
        self._before: Vector | None = None
        self._action: Vector = np.zeros(0)
        self._return = 0.0
        self._step = self._episode = 0
        self._warm_up = min(settings.warm_up, settings.episodes // 2)
        left = settings.episodes - self._warm_up - 1  # one at least in which an actor learns
        self._judged = min(settings.judged, max(left, 0))
        self._best: Payload = {}
        self._best_random: Payload = {}
        self._candidates: list[Payload] = []
        self._chosen: Payload = {}
        #: The action of a policy that is the same in every state.
        self._fixed: Vector | None = None
        self._length = settings.episode_rounds
        size = len(self._clients) * (settings.layers + 1)
        learning = DDPGSettings(
            noise=settings.noise,
            noise_decay=settings.noise_decay,
            actor_lr=settings.actor_lr,
            soft_update=settings.soft_update,
            critic_weight_decay=settings.critic_weight_decay,
        )
        self._agent = DDPG(
            2 * AXES + settings.horizon, size, numpy_generator(seed, "ddpg"), learning
        )

    def profile(self, at: int) -> dict[str, Payload]:
        """Policies of a profiling round."""
        relative = self._settings.profile == "full"
        return self._policies(self._everything if relative else self._random("profile", at))

    def profiled(self, weights: Mapping[str, Any], cost: float, accuracy: float = 0.0) -> None:
        """What a profiling round led to."""
        self._seen.append(weight_vector(weights))
        self._costs.append(cost)
        self._accuracies.append(accuracy)

    def end_profile(self) -> None:
        """Fit the axes, and Λ, α and β."""
        if not self._seen:
            raise AutoFGLError(
                "every round of the profile was refused: the server cannot learn a policy"
            )
        settings = self._settings
        self.axes = Axes.fit(self._seen, AXES)
        base, target, penalty = settings.omega, settings.target_accuracy, settings.penalty
        if settings.profile == "full":
            self._reward = Reward.relative(base, self._accuracies, self._costs, penalty)
        else:
            self._reward = Reward.profiled(base, target, self._costs, penalty)
        self._seen, self._costs, self._accuracies = [], [], []

    def begin_episode(self, weights: Mapping[str, Any], length: int | None = None) -> None:
        """All clients have these weights; so many rounds are to come."""
        assert self.axes is not None
        self._length = length or self._settings.episode_rounds
        self._return, self._step = 0.0, 0
        self._state = self._seen_at(0, weights, self.axes.moments(weights), 1)
        if self._judging:
            self._play(self._judged_now())

    def choose(self, explore: bool) -> dict[str, Payload]:
        """The next round's policies: the agent's, or random ones in the first episodes.

        Each of the latter keeps to one policy, give or take. What a mini-batch is worth shows in
        the accuracy of many rounds, its cost at once: an agent that has seen no more than noise
        around its first actions learns the second and not the first.
        """
        assert self._state is not None
        if not explore:
            self._settle()
        if not explore or self._judging:
            self._action = self._acted(self._state)
        elif self._episode < self._warm_up:
            self._action = self._explored(self._random("warm-up", self._episode), SPREAD)
        else:
            self._action = self._explored(self._agent.ask(self._state, False), self._agent.noise)
        return self._policies(self._action)

    def observe(self, weights: Mapping[str, Any], moments: Any, clients: int) -> None:
        """See where a round led to: W̄, and the sum of the clients' moments along the axes."""
        self._before = self._state
        self._state = self._seen_at(self._step + 1, weights, moments, clients)

    def learn(self, accuracy: float, cost: float) -> dict[str, float]:
        """Learn from the round just observed, with its λ and δ; reward and discounted return so
        far.
        """
        assert self._reward is not None
        assert self._state is not None
        assert self._before is not None
        reward = self._reward.of(accuracy, cost, self._step)
        if not self._judging:
            over = self._settings.horizon and self._step + 1 >= self._settings.episode_rounds
            self._agent.tell(self._before, self._action, reward, self._state, done=over)
            warm_up = self._episode < self._warm_up
            self._agent.learn(self._settings.learn_steps, critic_only=warm_up)
        self._return += self._agent.settings.discount**self._step * reward
        self._step += 1
        return {"reward": reward, "return": self._return}

    def end_episode(self) -> None:
        """Explore less in the next one; keep the best episode's actor: the last need not be the
        best.
        """
        if self._judging:
            played = self._judged_now()
            if not self._chosen or self._return > self._chosen["return"]:
                self._chosen = {**played, "return": self._return}
        elif self._episode >= self._warm_up:
            self._agent.end_episode()
            if not self._best or self._return > self._best["return"]:
                self._best = {"return": self._return, "policy": self._agent.policy()}
        elif not self._best_random or self._return > self._best_random["return"]:
            drawn = self._random("warm-up", self._episode)
            self._best_random = {"return": self._return, "action": drawn}
        self._episode += 1
        if self._judging and not self._candidates:
            last, everything = {"policy": self._agent.policy()}, {"action": self._everything}
            candidates = (self._best_random, self._best, last, everything)
            self._candidates = [one for one in candidates if one]

    @property
    def _judging(self) -> bool:
        """Whether the present episode plays what is to be kept."""
        learning = self._settings.episodes - self._judged
        return bool(self._judged) and learning <= self._episode < self._settings.episodes

    def _judged_now(self) -> Payload:
        at = self._episode - (self._settings.episodes - self._judged)
        return self._candidates[at % len(self._candidates)]

    def _play(self, candidate: Payload) -> None:
        """Act as a candidate from here on."""
        self._fixed = candidate.get("action")
        if "policy" in candidate:
            self._agent.load_policy(candidate["policy"])

    def _acted(self, state: Vector) -> Vector:
        """What the present policy does in a state, without noise."""
        if self._fixed is not None:
            return self._fixed
        return self._agent.ask(state, explore=False)

    def _seen_at(self, step: int, weights: Mapping[str, Any], moments: Any, clients: int) -> Vector:
        """The state after so many rounds of an episode, or of a training."""
        assert self.axes is not None
        state = state_of(self.axes, weights, moments, clients)
        if not self._settings.horizon:
            return state
        return np.append(state, min(step / max(self._length, 1), 1.0))

    def to_bytes(self) -> bytes:
        """The policy as a file: enough to act, nothing of any client's weights but W̄'s axes."""
        assert self.axes is not None
        assert self._reward is not None
        self._settle()
        shape = {"clients": len(self._clients), "layers": self._settings.layers}
        scales = {"axes": self.axes.to_payload(), "reward": self._reward.to_payload()}
        fixed = {} if self._fixed is None else {"action": self._fixed}
        return encode({"kind": KIND, **shape, "actor": self._agent.policy(), **scales, **fixed})

    def load_bytes(self, data: bytes) -> None:
        """Take over a policy from a file; a UserError if it is none, or for another federation."""
        try:
            saved = decode(data)
        except PayloadError as error:
            raise UserError(f"the policy file is damaged: {error}") from error
        if saved.get("kind") != KIND:
            raise UserError("the policy file holds no sampling policy")
        if (saved["clients"], saved["layers"]) != (len(self._clients), self._settings.layers):
            raise UserError(
                f"the policy was learned with {saved['clients']} clients and {saved['layers']} "
                f"convolutions, this run has {len(self._clients)} and {self._settings.layers}"
            )
        try:
            self._agent.load_policy(saved["actor"])
        except SearchError as error:
            raise UserError(f"the policy does not fit: {error}") from error
        self._fixed = saved.get("action")
        self._take_scales(saved["axes"], saved["reward"])

    def check_weights(self, weights: Mapping[str, Any]) -> None:
        """Refuse a policy that was learned for another network."""
        assert self.axes is not None
        learned, given = len(self.axes.mean), len(weight_vector(weights))
        if learned != given:
            raise UserError(
                f"the policy was learned for a network of {learned} weights, this one has {given}"
            )

    def state(self) -> Payload:
        """Everything between two rounds."""
        state = saved_state(self, self.saved)
        if self.axes is not None and self._reward is not None:
            state |= {"axes": self.axes.to_payload(), "reward": self._reward.to_payload()}
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        restore_state(self, self.saved, state)
        if "axes" in state:
            self._take_scales(state["axes"], state["reward"])

    def _take_scales(self, axes: Payload, reward: Payload) -> None:
        """Axes, Λ, α and β that were fitted before."""
        self.axes = Axes.from_payload(axes)
        self._reward = Reward(base=self._settings.omega, **reward)

    def _settle(self) -> None:
        """Learning is over: act as the best that was judged from here on, or as the best actor."""
        kept = self._chosen or self._best or self._best_random
        if kept:
            self._play(kept)
            self._best, self._chosen, self._best_random = {}, {}, {}

    @property
    def _everything(self) -> Vector:
        """The largest mini-batches and all neighbors."""
        return np.ones(len(self._clients) * (self._settings.layers + 1))

    def _random(self, *name: str | int) -> Vector:
        """One policy for all clients, give or take.

        If each client's were sampled on its own, their sum would cost nearly the same in every
        round, and say little of what cost is worth.
        """
        rng = numpy_generator(self._seed, *name)
        common = rng.random(self._settings.layers + 1)
        apart = rng.normal(0, SPREAD, (len(self._clients), len(common)))
        return np.clip(common + apart, 0, 1).ravel()

    def _explored(self, action: Vector, noise: float) -> Vector:
        """An action with noise that is, for the same reason, in half common to all clients."""
        rng = numpy_generator(self._seed, "noise", self._episode, self._step)
        share = noise / np.sqrt(2)
        common = rng.normal(0, share, self._settings.layers + 1)
        apart = rng.normal(0, share, (len(self._clients), len(common)))
        return np.clip(action + (common + apart).ravel(), 0, 1)

    def _policies(self, action: Vector) -> dict[str, Payload]:
        """κ and p of every client from numbers in [0, 1]."""
        parts = action.reshape(len(self._clients), -1)
        return {
            name: {
                "batch": max(1, round(_at_least(LEAST_BATCH, part[0]) * self._settings.batch)),
                "keep": [_at_least(LEAST_KEPT, share) for share in part[1:]],
            }
            for name, part in zip(self._clients, parts, strict=True)
        }


def _at_least(least: float, share: float) -> float:
    """From [0, 1] to [least, 1]."""
    return least + (1 - least) * float(share)
