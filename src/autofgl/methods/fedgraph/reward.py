"""What FedGraph's server is paid for a round (Eq. 9), and what that is relative to.

The scales are taken from some rounds before the first episode. In the paper policies of these
rounds are random and Λ is given. What random policies cost says little of what is worth saving:
with disjoint clients or many layers it is a small part of full batch, and a reward in which that is
dear, and no accuracy within an episode near Λ, is earned best by hardly sampling at all. Here they
are those that sample everything, from the initial weights on: Λ is what they reach in the same
round of an episode, and the penalty is relative to what they cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofgl.federation.payload import Payload


@dataclass(frozen=True)
class Reward:
    """The reward of a round, r = Ω^(λ - Λ) - α (δ - β) (Eq. 9); Ω is ``base`` and Λ ``target``."""

    base: float
    target: float
    alpha: float
    beta: float
    #: Λ by round of an episode, where it is not the same in all; of later rounds that of the last.
    targets: Sequence[float] = ()

    @classmethod
    def relative(
        cls, base: float, accuracies: Sequence[float], costs: Sequence[float], penalty: float
    ) -> "Reward":
        """Relative to policies that sample everything: Λ is their accuracy in each round, and
        α (δ - β) is ``penalty`` for what they cost on average and in proportion for less.
        """
        alpha = penalty / max(float(np.mean(costs)), 1e-12)
        return cls(base, max(accuracies), alpha, 0.0, list(accuracies))

    @classmethod
    def profiled(
        cls, base: float, target: float, costs: Sequence[float], penalty: float = 1.0
    ) -> "Reward":
        """α (δ - β) is 0 in the cheapest round, and on average ``penalty`` (the paper: "close to
        1").
        """
        beta = float(np.min(costs))
        above = float(np.mean(costs)) - beta
        return cls(base, target, penalty / above if above > 0 else 0.0, beta)

    def of(self, accuracy: float, cost: float, step: int = 0) -> float:
        """The reward of a round of an episode with accuracy λ of W̄ and time or cost δ."""
        targets = self.targets
        target = targets[min(step, len(targets) - 1)] if targets else self.target
        return float(self.base ** (accuracy - target) - self.alpha * (cost - self.beta))

    def to_payload(self) -> Payload:
        """All but Ω, for files and checkpoints."""
        about = {"target": self.target, "alpha": self.alpha, "beta": self.beta}
        return {**about, "targets": list(self.targets)}
