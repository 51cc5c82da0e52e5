"""Which model each client takes: by its own validation nodes, as far as they can be trusted.

Twenty validation nodes prefer some model by chance. So a client's preference is shrunk towards the
federation's (an empirical Bayes estimate: Efron and Morris, "Data analysis using Stein's estimator
and its generalizations", 1975). Notation, for one candidate against the federation's choice: δ_i is
the mean difference of their losses over the n_i validation nodes of client i, μ the mean over all
nodes, σ² the variance of the differences within a client, τ² that of the clients' true means.
Clients hand in sums only, of n_i, n_i δ_i, n_i δ_i² and squared deviations, from which::

    σ² = Σ_i Σ_v (d_v - δ_i)² / Σ_i (n_i - 1)
    τ² = max(0, (Q - (k - 1) σ²) / (N - Σ_i n_i² / N))      Q = Σ n_i δ_i² - (Σ n_i δ_i)² / N

(DerSimonian and Laird, "Meta-analysis in clinical trials", 1986). The posterior of a client's true
difference has mean and variance::

    B_i δ_i + (1 - B_i) μ        B_i σ² / n_i        B_i = τ² / (τ² + σ² / n_i)

The client takes the candidate with the lowest mean plus standard deviation, if that is below 0:
with many candidates one of them looks good by chance. Where clients do not differ, τ² is 0 and all
follow the federation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.replies import Array, Form
from autofgl.runtime.summing import COUNT_UNIT

#: Per-node losses of candidates, ``[M, n]``.
Losses = npt.NDArray[np.float64]


def moment_forms(candidates: int) -> dict[str, Form]:
    """What the clients' summed moments can be."""
    return {
        "sizes": Array((3,), -ROUNDING),
        "sums": Array((candidates,)),
        "squares": Array((candidates,), -ROUNDING),
        "within": Array((candidates,), -ROUNDING),
    }


def loss_moments(losses: Losses, lead: int) -> dict[str, Any]:
    """What a client adds: of the differences of its losses from those of the federation's choice.

    ``sizes`` are n_i, n_i² and whether there are nodes.
    """
    n = losses.shape[1]
    differences = losses - losses[lead]
    means = differences.mean(1) if n else np.zeros(len(losses))
    within = ((differences - means[:, None]) ** 2).sum(1)
    return {
        "sizes": np.array([n / COUNT_UNIT, (n / COUNT_UNIT) ** 2, n > 0], np.float64),
        "sums": n * means / COUNT_UNIT,
        "squares": n * means**2 / COUNT_UNIT,
        "within": within / COUNT_UNIT,
    }


@dataclass(frozen=True)
class Spread:
    """How candidates differ from the federation's choice, ``[M]`` each: μ, σ² and τ²."""

    mean: Any
    within: Any
    between: Any

    @classmethod
    def of(cls, total: Mapping[str, Any]) -> "Spread":
        """From the clients' sum."""
        n, n2, k = (float(one) for one in total["sizes"])
        n, n2 = n * COUNT_UNIT, n2 * COUNT_UNIT**2
        sums, squares, within = (
            np.asarray(total[name], np.float64) * COUNT_UNIT
            for name in ("sums", "squares", "within")
        )
        most = max(n, 1.0)
        variance = within / max(n - k, 1.0)
        heterogeneity = squares - sums**2 / most
        spare = max(n - n2 / most, 1e-9)
        between = np.maximum(0.0, (heterogeneity - (k - 1) * variance) / spare)
        return cls(sums / most, variance, between)

    def to_payload(self) -> dict[str, Any]:
        """What clients are told."""
        return {"mean": self.mean, "within": self.within, "between": self.between}


def preferred(losses: Losses, lead: int, spread: Spread) -> int:
    """The candidate that a client takes; the federation's choice where it cannot tell."""
    if not losses.shape[1]:
        return lead
    mean, deviation = posterior(losses, lead, spread)
    bound = mean + deviation
    best = int(np.argmin(bound))
    return best if bound[best] < 0 else lead


def posterior(losses: Losses, lead: int, spread: Spread) -> tuple[Any, Any]:
    """Mean and standard deviation of each candidate's difference from the federation's choice,
    ``[M]`` each, as far as the client's own nodes tell.
    """
    n = losses.shape[1]
    own, noise = (losses - losses[lead]).mean(1), spread.within / n
    trust = spread.between / np.maximum(spread.between + noise, 1e-12)
    return trust * own + (1 - trust) * spread.mean, np.sqrt(trust * noise)


def best_of(losses: Sequence[float], scores: Sequence[float], by_score: bool) -> int:
    """The federation's choice: the lowest calibrated loss, or the best of another objective."""
    order = [
        (-score if by_score else 0.0, loss) for loss, score in zip(losses, scores, strict=True)
    ]
    return min(range(len(order)), key=order.__getitem__)
