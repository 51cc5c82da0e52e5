"""Searches over spaces that are the product of owners' parts and a part that is common to all.

Where the loss is a sum of the owners' losses, and each depends on the owner's own genes and on the
common one alone, the best of a joint space has every owner's own best::

    min over θ_1 … θ_n, w of Σ_i f_i(θ_i, w)  =  min over w of Σ_i  min over θ_i of f_i(θ_i, w)

So each owner searches its own few dimensions, all in the same trials, and the number of trials does
not grow with the number of owners. What the owners have to agree on is the common value of a trial:
they vote, and the votes are sums over all of them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.search.bayes import Bayes
from autofgl.search.searcher import Candidate, SearchError, State
from autofgl.search.space import SearchSpace

Votes = npt.NDArray[np.float64]

#: Added to what an owner votes, so that a vote is never nothing.
_SOME = 1e-3


class OwnPart:
    """An owner's part of such a search: Bayesian optimization over its own genes and the common
    one, whose values are counted; ``common`` is its name, of a gene that the space may lack.

    In a trial the owner *explores*, by the expected improvement, or it *repeats* the best that it
    knows, so that the combination of everybody's best is measured too.
    """

    def __init__(self, space: SearchSpace, common: str, seed: int, *, startup: int = 10) -> None:
        self._common = common
        self._tuner = Bayes(space, seed, startup=startup)
        self._proposal: Candidate | None = None
        self._tried: list[dict[str, Any]] = []
        self.values = common_values(space, common)

    def votes(self, explore: bool) -> Votes:
        """For each common value a vote, ``[V]``: exploring, one for that of the own proposal; else
        how good the best is that was tried with it, with loss 1 as nothing.
        """
        votes = np.full(len(self.values), _SOME)
        if explore:
            votes[self.values.index(self._proposed()[self._common])] += 1
            return votes
        for one in self._tried:
            at = self.values.index(one["candidate"][self._common])
            votes[at] = max(votes[at], 1 - one["loss"])
        return votes

    def candidate(self, explore: bool, value: Any = None) -> Candidate:
        """What to try with a common value, which may be None if there is no such gene."""
        own = {} if value is None else {self._common: value}
        known = [one for one in self._tried if own.items() <= one["candidate"].items()]
        if explore or not known:
            return {**self._proposed(), **own}
        best: Candidate = min(known, key=lambda one: one["loss"])["candidate"]
        return dict(best)

    def tell(self, candidate: Candidate, loss: float) -> None:
        """The own loss of what was tried."""
        self._tuner.tell([candidate], [loss])
        self._tried.append({"candidate": dict(candidate), "loss": float(min(loss, 2.0))})
        self._proposal = None

    def state(self) -> State:
        """All that :meth:`load_state` needs to go on exactly here."""
        return {"tuner": self._tuner.state(), "tried": [dict(one) for one in self._tried]}

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken."""
        self._tuner.load_state(state["tuner"])
        self._tried = [dict(one) for one in state["tried"]]
        self._proposal = None

    def _proposed(self) -> Candidate:
        """Where the expected improvement is largest; the same until something is told."""
        if self._proposal is None:
            self._proposal = self._tuner.proposal()
        return self._proposal


def common_values(space: SearchSpace, common: str) -> list[Any]:
    """The values of the common gene, if a space has it."""
    genes = [gene for gene in space.genes if gene.name == common]
    if genes and genes[0].values is None:
        raise SearchError(f"the values of the common gene '{common}' have to be listed")
    return list(genes[0].values or ()) if genes else []


def elected(votes: Votes, rng: np.random.Generator) -> int:
    """The place of the value with the most votes; of equals any, with equal chances."""
    most = np.flatnonzero(votes >= votes.max() - 1e-6)
    return int(rng.choice(most))


def explores(number: int, trials: int, startup: int) -> bool:
    """Whether owners explore in a trial, by its number from 1 on: in every fourth after the design,
    and in the last, they repeat their best.
    """
    return number == 1 or (number < trials and (number <= startup or number % 4 != 0))
