"""The searchers that learn nothing: random search, which every other has to beat, and the grid."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from autofgl.search.searcher import (
    Candidate,
    Candidates,
    SearchError,
    State,
    as_losses,
    load_rng,
    rng_state,
)
from autofgl.search.space import SearchSpace
from autofgl.seeding import numpy_generator


class Baseline(ABC):
    """Remembers which candidates were asked or told, so that none is asked again."""

    def __init__(self, space: SearchSpace, rng: np.random.Generator | int) -> None:
        self.space = space
        self._rng = rng
        self._count = 0
        self._seen: dict[Hashable, Candidate] = {}

    @abstractmethod
    def _next(self) -> Candidate:
        """The next candidate; None when there is nothing left to ask."""

    def ask(self, n: int = 1) -> Candidates:
        """Candidates that were neither asked nor told before."""
        asked: list[Candidate] = []
        while len(asked) < n and (candidate := self._next()) is not None:
            self._remember(candidate)
            asked.append(candidate)
        return self.space.candidates(asked)

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """Remember the candidates; losses teach it nothing."""
        checked = self.space.checked(candidates)
        as_losses(losses, len(checked))
        for candidate in checked:
            if self.space.key(candidate) not in self._seen:
                self._remember(candidate)

    def fail(self, candidate: Candidate) -> None:
        """Forget a candidate that was asked, so that it may be asked again."""
        if self._seen.pop(self.space.key(self.space.check(candidate)), None) is None:
            raise SearchError("only a candidate that was asked can fail")

    def state(self) -> State:
        """What was asked or told, how many that were, and the generator if there is one."""
        state = {"seen": self.space.candidates(self._seen.values()), "count": self._count}
        if isinstance(self._rng, np.random.Generator):
            state["rng"] = rng_state(self._rng)
        return state

    def load_state(self, state: State) -> None:
        """See :class:`~autofgl.search.searcher.Searcher`."""
        seen = self.space.checked(state["seen"])
        if isinstance(self._rng, np.random.Generator):
            load_rng(self._rng, state["rng"])
        self._seen = dict(zip(self.space.keys(seen), seen, strict=True))
        self._count = state["count"]

    def _remember(self, candidate: Candidate) -> None:
        self._seen.setdefault(self.space.key(candidate), candidate)
        self._count += 1


class RandomSearch(Baseline):
    """Draws candidates and repeats none while there are others.

    When a space that is small enough to list is used up, the next round over it begins. A seed
    instead of a generator gives every candidate a generator of its own.
    """

    def _next(self) -> Candidate:
        rng = self._rng
        if not isinstance(rng, np.random.Generator):
            rng = numpy_generator(rng, "trial", self._count)
        candidate = self.space.fresh(self._seen, rng)
        if self.space.key(candidate) not in self._seen:
            return candidate
        left = self.space.left(self._seen)
        if not left:  # used up, or too large to list
            left = self.space.left(())
            self._seen = {} if left else self._seen
        return left[int(rng.integers(len(left)))] if left else candidate


class GridSearch(Baseline):
    """Asks for every candidate once, the last gene changing fastest, and then for none.

    The space has no continuum. Optuna's ``GridSampler`` takes the same points in random order and
    does not return to those that failed.
    """

    def __init__(self, space: SearchSpace) -> None:
        super().__init__(space, 0)
        if space.size == math.inf:
            raise SearchError("a grid needs genes with a list of values")

    def _next(self) -> Candidate:
        left = (one for one in self.space.listed() if self.space.key(one) not in self._seen)
        return next(left, None)
