"""FedGraph's reward of a round (Eq. 9)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reward:
    """r = Ω^(λ - Λ) - α (δ - β).

    Attributes:
        base: Ω.
        target: Λ, the accuracy aimed at.
        alpha, beta: α and β.
    """

    base: float
    target: float
    alpha: float
    beta: float

    @classmethod
    def profiled(
        cls, base: float, target: float, costs: Sequence[float], penalty: float = 1.0
    ) -> "Reward":
        """α and β by profiling: α (δ - β) is zero in the cheapest of some rounds with random
        policies, and ``penalty`` on their average, where the paper has it "close to 1".
        """
        beta = float(np.min(costs))
        above = float(np.mean(costs)) - beta
        return cls(base, target, penalty / above if above > 0 else 0.0, beta)

    def of(self, accuracy: float, cost: float) -> float:
        """The reward of a round with accuracy λ of W̄ and time or cost δ."""
        return float(self.base ** (accuracy - self.target) - self.alpha * (cost - self.beta))
