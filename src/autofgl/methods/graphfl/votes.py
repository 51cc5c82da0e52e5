"""How clients decide together what all of them must share: rate and optimizer of the outer step.

A client alone cannot tell which rate suits the average. All together can: every client evaluates
its network on the way that the last average took, and beyond, and the sum of these losses says how
far the average should have gone: it is moved there, and the next step is longer or shorter. With
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
SCALES = (0.0, 0.5, 1.0, 1.5)

#: Less than this is rounding of a secure sum.
LEAST = 1e-3


def line_losses(before: Weights, after: Weights, loss: Callable[[Weights], float]) -> Any:
    """Loss at each of the scales, ``[5]``; :data:`WORST_LOSS` where there is none."""
    losses = []
    for scale in SCALES:
        try:
            losses.append(bounded_loss(loss(shift(before, after, scale))))
        except AutoFGLError:
            losses.append(WORST_LOSS)
    return np.array(losses)


def bounded_loss(loss: float) -> float:
    """A loss as it may enter a sum."""
    return min(loss, WORST_LOSS) if math.isfinite(loss) else WORST_LOSS


def shared_genes(space: Configurations) -> Chromosome:
    """The genes that all share at first: the environment's."""
    names = ["optimizer", *(RATE_OF[optimizer][0] for optimizer in space.optimizers)]
    return {name: space.environment[name] for name in names}


def farther(line: Sequence[float]) -> float:
    """How far along the last move, which ended at 1, the average should have gone; 1 if nobody
    voted.
    """
    return SCALES[int(np.argmin(line))] if max(line, default=0.0) > LEAST else 1.0


def decide(
    space: Configurations, common: Mapping[str, Any], line: Sequence[float], tried: Sequence[float]
) -> Chromosome:
    """The shared genes after a vote: mean losses by scale, and by optimizer; all zero: no vote."""
    decided = dict(common)
    gene, *_ = RATE_OF[str(common["optimizer"])]
    low, high = space.rate_range(gene)
    decided[gene] = float(min(max(common[gene] * max(farther(line), 0.5), low), high))
    if max(tried) > LEAST:
        decided["optimizer"] = space.optimizers[int(np.argmin(tried))]
    return decided
