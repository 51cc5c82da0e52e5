"""What is left of a client's training in an average, and how far it goes."""

import math
from collections.abc import Sequence

import numpy as np

from autofgl.runtime.local_model import Weights


def weights_by_shape(share: float, shares: Sequence[float], own: int) -> list[float]:
    """What an average of each shape would leave of a client's training, see :func:`weight_left`.

    ``shares`` are those of all that trained each shape in the last average, the client's in
    ``own``.
    """
    weights = []
    for index, of_shape in enumerate(shares):
        others = max(of_shape - share, 0.0) if index == own else of_shape
        weights.append(weight_left(share / (share + others)) if share else 0.0)
    return weights


def weight_left(share: float) -> float:
    """What of a client's training is left in an average in which it has this share of the weight.

    Of n equal clients that train on different nodes, what their steps have in common adds up, and
    what is peculiar to each averages out to 1/√n. A client cannot tell the two apart, and so all of
    its step counts as much as the peculiar part: √share.
    """
    return math.sqrt(min(max(share, 0.0), 1.0))


def shift(before: Weights, trained: Weights, weight: float) -> Weights:
    """A network on the way from its weights before training to those after, at ``weight`` of it."""
    return {name: value + weight * (trained[name] - value) for name, value in before.items()}


def distance(before: Weights, trained: Weights) -> float:
    """Euclidean length of a client's step, over all weights of its network; infinite or no number
    for weights that have diverged.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [np.sum(np.square(trained[name] - value)) for name, value in before.items()]
    return math.sqrt(sum(map(float, squares)))
