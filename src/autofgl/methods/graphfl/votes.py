"""How clients decide together what all of them must share: rate and optimizer of the outer step.

A client alone cannot tell which rate suits the average. All together can: every client evaluates
its network on the way that the last average took, and beyond, and the sum of these losses says how
far the average should have gone, and so how much longer or shorter the next step should be. With
several optimizers clients also try what they have chosen with each of them. The server sees sums
only.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autofgl.errors import AutoFGLError
from autofgl.methods.graphfl.configurations import RATE_OF, Configurations
from autofgl.methods.graphfl.steps import shift
from autofgl.runtime.local_model import WORST_LOSS, Weights
from autofgl.search.space import Chromosome

#: How far along the last move, which ended at 1, networks are evaluated.
SCALES = (0.5, 0.5**0.5, 1.0, 2.0**0.5, 2.0)

#: Less than this is rounding of a secure sum.
_LEAST = 1e-3


def line_losses(before: Weights, after: Weights, loss: Callable[[Weights], float]) -> Any:
    """Loss at each of the scales, ``[5]``; :data:`WORST_LOSS` where there is none."""
    losses = []
    for scale in SCALES:
        try:
            losses.append(bounded(loss(shift(before, after, scale))))
        except AutoFGLError:
            losses.append(WORST_LOSS)
    return np.array(losses)


def bounded(loss: float) -> float:
    """A loss as it may enter a sum."""
    return min(loss, WORST_LOSS) if math.isfinite(loss) else WORST_LOSS


def shared_genes(space: Configurations) -> Chromosome:
    """The genes that all share at first: the environment's."""
    names = ["optimizer", *(RATE_OF[optimizer][0] for optimizer in space.optimizers)]
    return {name: space.environment[name] for name in names}


def decide(
    space: Configurations, common: Mapping[str, Any], line: Sequence[float], tried: Sequence[float]
) -> Chromosome:
    """The shared genes after a vote: mean losses by scale, and by optimizer; all zero: no vote."""
    decided = dict(common)
    gene, *_ = RATE_OF[str(common["optimizer"])]
    if max(line) > _LEAST:
        low, high = space.rate_range(gene)
        decided[gene] = float(min(max(common[gene] * SCALES[int(np.argmin(line))], low), high))
    if max(tried) > _LEAST:
        decided["optimizer"] = space.optimizers[int(np.argmin(tried))]
    return decided
