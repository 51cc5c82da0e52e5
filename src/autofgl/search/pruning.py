"""Early end of hopeless trials, by the median rule (Golovin et al., Google Vizier, 2017)."""

import statistics
from collections.abc import Sequence

from autofgl.search.searcher import State


class MedianRule:
    """A trial is hopeless if its best loss so far is above the median of what earlier trials had.

    Args:
        startup: Trials that are never ended early.
        warmup: Steps of a trial before it may be ended.
    """

    def __init__(self, startup: int = 5, warmup: int = 10) -> None:
        self._startup = startup
        self._warmup = warmup
        self._curves: list[list[float]] = []
        self._best: list[float] = []

    def begin(self) -> None:
        """A new trial begins; one that is not ended by :meth:`end` is forgotten."""
        self._best = []

    def hopeless(self, loss: float) -> bool:
        """Take in the loss of the next step; whether to go no further."""
        self._best.append(min(loss, *self._best[-1:]) if self._best else loss)
        step = len(self._best)
        if len(self._curves) < self._startup or step < self._warmup:
            return False
        others = [curve[step - 1] for curve in self._curves if len(curve) >= step]
        return bool(others) and self._best[-1] > statistics.median(others)

    def end(self) -> None:
        """The present trial has a result, at its end or before."""
        self._curves.append(self._best)
        self._best = []

    def state(self) -> State:
        """All curves."""
        return {"curves": [list(curve) for curve in self._curves], "best": list(self._best)}

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken."""
        curves: Sequence[Sequence[float]] = state["curves"]
        self._curves = [list(curve) for curve in curves]
        self._best = list(state["best"])
