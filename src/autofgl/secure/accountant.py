"""How much privacy Gaussian noise gives, and how much of it a run has used: one (ε, δ).

A release adds noise of standard deviation z·C to a sum in which one client's part has a norm of C
at most. Seen from that client, the releases with and without its part are two normal distributions
whose means lie 1/z apart, in standard deviations: the release is μ-GDP with μ = 1/z (Dong, Roth and
Su, Gaussian Differential Privacy, 2019). Releases add up exactly, however each is chosen after
those before it (their Corollary 3.3)::

    μ² = Σ 1 / z_i²

and so nothing is lost by a bound on moments. A μ-GDP run is (ε, δ(ε))-DP with, exactly (Balle and
Wang, Improving the Gaussian Mechanism, 2018, Theorem 8)::

    δ(ε) = Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

#: Share of μ² that goes to figures (accuracies, losses) where a run releases updates as well.
FIGURES_SHARE = 0.1

_HALVINGS = 200


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest δ for which a μ-GDP run is (ε, δ)-DP."""
    if mu <= 0:
        return 0.0
    from scipy.special import log_ndtr  # it stays exact where Φ itself is too small for a float

    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε for which a μ-GDP run is (ε, δ)-DP."""
    if mu <= 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(mu, high) > delta:
        high *= 2
    return _boundary(0.0, high, lambda epsilon: delta_of(mu, epsilon) <= delta)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest μ whose runs are (ε, δ)-DP."""
    high = 1.0
    while delta_of(high, epsilon) < delta:
        high *= 2
    return _boundary(high, 0.0, lambda mu: delta_of(mu, epsilon) <= delta)


def _boundary(fails: float, holds: float, test: Callable[[float], bool]) -> float:
    """Where a test begins to hold, between a value where it fails and one where it holds."""
    for _ in range(_HALVINGS):
        middle = (fails + holds) / 2
        if middle in (fails, holds):
            break
        fails, holds = (fails, middle) if test(middle) else (middle, holds)
    return holds


@dataclass(frozen=True)
class Releases:
    """How many sums of a kind are released: updates of weights, and figures."""

    updates: int = 0
    figures: int = 0


@dataclass(frozen=True)
class PrivacyPlan:
    """The noise of a whole run, so that all of its releases together are (ε, δ)-DP.

    ``planned`` are the releases of a run that goes to its end; more are refused by every client
    for itself, and a run that stops earlier has spent less.
    """

    epsilon: float
    delta: float
    planned: Releases

    @property
    def update_noise(self) -> float:
        """Noise multiplier z of an update."""
        part = 1 - FIGURES_SHARE if self.planned.figures else 1.0
        return math.sqrt(self.planned.updates / part) / self._mu

    @property
    def figure_noise(self) -> float:
        """Noise multiplier z of figures."""
        part = FIGURES_SHARE if self.planned.updates else 1.0
        return math.sqrt(self.planned.figures / part) / self._mu

    def spent(self, made: Releases) -> float:
        """ε of the releases that were made, at the plan's δ."""
        square = 0.0
        kinds = (made.updates, self.update_noise), (made.figures, self.figure_noise)
        for count, noise in kinds:
            square += count / noise**2 if count else 0.0
        return epsilon_of(math.sqrt(square), self.delta)

    def allows(self, made: Releases) -> bool:
        """Whether the plan has room for so many releases."""
        most = self.planned
        return made.updates <= most.updates and made.figures <= most.figures

    @property
    def _mu(self) -> float:
        return mu_of(self.epsilon, self.delta)
