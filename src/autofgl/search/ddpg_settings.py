"""The settings of the DDPG searcher."""

import math
from dataclasses import dataclass

from autofgl.search.codes import SearchError


@dataclass(frozen=True)
class DDPGSettings:
    """What the agent of FedGraph's Algorithm 4 can be told.

    The hidden layers are the paper's; learning rates, discount, soft update, batch and weight decay
    those of the authors' public code; buffer and noise are ours.

    Attributes:
        hidden: Units of the hidden layers of actor and critic.
        discount: γ, weight of the next round's value.
        soft_update: φ, how far the target networks move at each step (Eq. 13, 14).
        batch: K, transitions in a mini-batch.
        actor_lr: η_μ of Eq. 12.
        critic_lr: η_q of Eq. 11.
        critic_weight_decay: L2 penalty of the critic.
        buffer: Transitions that are kept; the oldest goes when one more comes.
        noise: Standard deviation of the exploration noise in the first episode; actions lie in
            [0, 1].
        noise_decay: The noise shrinks by this factor with every episode,
        noise_floor: but not below this.

    Raises:
        SearchError: A value makes no sense.
    """

    hidden: tuple[int, ...] = (512, 256)
    discount: float = 0.99
    soft_update: float = 0.005
    batch: int = 32
    actor_lr: float = 1e-4
    critic_lr: float = 1e-3
    critic_weight_decay: float = 1e-2
    buffer: int = 10_000
    noise: float = 0.3
    noise_decay: float = 0.99
    noise_floor: float = 0.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        layers = bool(self.hidden) and all(_is_count(units) for units in self.hidden)
        self._require("hidden", layers, "at least one layer, each of at least one unit")
        self._require("discount", 0 <= self.discount <= 1, "in [0, 1]")
        self._require("soft_update", 0 < self.soft_update <= 1, "in (0, 1]")
        self._require("batch", _is_count(self.batch), "a whole number, at least 1")
        self._require("actor_lr", 0 < self.actor_lr < math.inf, "above 0")
        self._require("critic_lr", 0 < self.critic_lr < math.inf, "above 0")
        decay = self.critic_weight_decay
        self._require("critic_weight_decay", 0 <= decay < math.inf, "at least 0")
        holds = _is_count(self.buffer) and self.buffer >= self.batch
        self._require("buffer", holds, f"a whole number, at least the batch of {self.batch}")
        self._require("noise_floor", 0 <= self.noise_floor < math.inf, "at least 0")
        above = self.noise_floor <= self.noise < math.inf
        self._require("noise", above, f"at least its floor of {self.noise_floor}")
        self._require("noise_decay", 0 < self.noise_decay <= 1, "in (0, 1]")

    def _require(self, name: str, holds: bool, wanted: str) -> None:
        if not holds:
            raise SearchError(f"DDPG's '{name}' is {getattr(self, name)}, it has to be {wanted}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1
