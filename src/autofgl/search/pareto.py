"""Several objectives as one order: non-dominated sorting with crowding, as in NSGA-II.

Deb et al., "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II" (IEEE TEC 2002). All
objectives are minimised. Searchers only compare losses, so a rank can stand for a loss.
"""

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import Losses

#: Values of n codes: ``[n]`` of one objective, or ``[n, k]`` of several; lower is better.
Values = npt.NDArray[np.float64]


def ranks(values: Values) -> Losses:
    """One number for each code, lower is better: a single objective is its own rank.

    Of several, the whole part is the front a code lies on, and the fraction is the smaller the
    more room the code has on its front (NSGA-II, crowded comparison).
    """
    if values.ndim == 1 or values.shape[1] == 1:
        return np.asarray(values.reshape(-1), np.float64)
    found = np.zeros(len(values))
    for number, rows in enumerate(fronts(values)):
        found[rows] = number + 0.5 / (1 + crowding(values[rows]))
    return found


def fronts(values: Values) -> list[npt.NDArray[np.intp]]:
    """Rows by front: those that no row dominates, then those that only these dominate, and so on.

    A row dominates another if it is nowhere worse and somewhere better.
    """
    finite = np.where(np.isfinite(values), values, np.finfo(np.float64).max)
    nowhere_worse = (finite[:, None] <= finite[None]).all(-1)
    somewhere_better = (finite[:, None] < finite[None]).any(-1)
    dominates = np.asarray(nowhere_worse & somewhere_better)
    left = np.arange(len(values))
    found = []
    while len(left):
        free = ~dominates[np.ix_(left, left)].any(0)
        found.append(left[free])
        left = left[~free]
    return found


def crowding(values: Values) -> npt.NDArray[np.float64]:
    """Room around each row of one front: the sides of the box its neighbours span, ``[n]``.

    Objectives are scaled to their range on the front; rows at an end have infinite room.
    """
    room = np.zeros(len(values))
    for column in np.where(np.isfinite(values), values, np.finfo(np.float32).max).T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        span = ordered[-1] - ordered[0]
        room[order[[0, -1]]] = np.inf
        if span > 0:
            room[order[1:-1]] += (ordered[2:] - ordered[:-2]) / span
    return room
