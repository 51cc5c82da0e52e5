"""Which of several trained networks to take, by federated validation alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Judged:
    """A trained network: its validation figures and its size."""

    accuracy: float
    loss: float
    parameters: int = 0


def most_accurate_first(networks: Sequence[Judged]) -> list[int]:
    """Indices by accuracy, and of equals by loss.

    Losses alone would not do: output activations bound them differently.
    """
    return sorted(range(len(networks)), key=lambda i: (-networks[i].accuracy, networks[i].loss))


def smallest_of_the_best_first(networks: Sequence[Judged], nodes: int) -> list[int]:
    """Indices of networks that validation cannot tell from the best, the smallest first; then the
    others by accuracy.

    The one-standard-error rule (Breiman et al., Classification and Regression Trees, 1984): the
    accuracy a on ``nodes`` nodes has a standard error of sqrt(a (1 - a) / nodes).
    """
    order = most_accurate_first(networks)
    if not order:
        return []
    best = networks[order[0]].accuracy
    floor = best - math.sqrt(best * (1 - best) / max(nodes, 1))
    alike = [i for i in order if networks[i].accuracy >= floor]
    rest = [i for i in order if networks[i].accuracy < floor]
    return [*sorted(alike, key=lambda i: networks[i].parameters), *rest]
