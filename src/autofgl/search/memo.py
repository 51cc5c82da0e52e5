"""Losses that are computed once."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from autofgl.search.codes import Codes, Losses, Population, worst_if_diverged

#: Losses [n] of codes [n, genes], or the values [n, k] of several objectives.
Evaluate: TypeAlias = Callable[[Population], Losses]


class Memo:
    """Evaluates every network once, however often and under whichever code it is asked for.

    It holds as long as the weights do: :meth:`clear` it when they change.

    Args:
        codes: The space.
        evaluate: Gives the losses of codes that are not yet known.
    """

    def __init__(self, codes: Codes, evaluate: Evaluate) -> None:
        self.evaluated = 0
        self._codes = codes
        self._evaluate = evaluate
        self._known: dict[bytes, Any] = {}

    def __call__(self, population: Population) -> Losses:
        """Losses of codes [n, genes]; only those of new networks are computed."""
        keys = self._codes.keys(population)
        rows = [row for row in self._codes.unique(population) if keys[row] not in self._known]
        if rows:
            found = self._evaluate(population[rows])
            losses = worst_if_diverged(found, len(rows), objectives=True)
            self._known.update(zip((keys[row] for row in rows), losses.tolist(), strict=True))
            self.evaluated += len(rows)
        return np.array([self._known[key] for key in keys], np.float64)

    def clear(self) -> None:
        """Forget all losses."""
        self._known.clear()
