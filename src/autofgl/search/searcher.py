"""What every searcher offers, and what all of them need: losses, and the state of a generator.

**Lower is better** everywhere in this package: a caller with an accuracy tells its complement.
"""

import json
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.errors import AutoFGLError

#: A payload: arrays, bytes, text, numbers, lists and dicts, so that it can go into a checkpoint.
State: TypeAlias = dict[str, Any]
#: A code, int64 [genes], or a chromosome, a plain dict: the searcher's space says which.
Candidate: TypeAlias = Any
#: Codes as the rows of an array, or a list of chromosomes.
Candidates: TypeAlias = Any
#: float64 [n], one for each candidate.
Losses: TypeAlias = npt.NDArray[np.float64]


class SearchError(AutoFGLError):
    """A searcher was handed candidates, losses, options or a state that do not fit."""


class Searcher(Protocol):
    """Proposes candidates and learns from their losses; it does not know how they are measured.

    Candidates are those of its :class:`~autofgl.search.space.SearchSpace`. A searcher that has
    loaded a state asks exactly what the one that gave it would have asked. What does not fit is a
    :class:`SearchError`, after which nothing has changed.
    """

    def ask(self, n: int = 1) -> Candidates:
        """At most ``n`` candidates to measure; none only if nothing is left to ask."""

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """Losses of candidates, asked or not; NaN and inf count as worst."""

    def fail(self, candidate: Candidate) -> None:
        """A candidate that was asked could not be measured, for reasons that are not its own.

        It says nothing about the candidate, which may be asked again. One that is known not to have
        been asked is refused.
        """

    def state(self) -> State:
        """All that :meth:`load_state` needs to go on exactly here."""

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken, with the same space and kind of generator."""


def as_losses(losses: Any, n: int, objectives: bool = False) -> Losses:
    """Losses of ``n`` candidates, [n], or [n, k] with ``objectives``; inf where not finite."""
    given = np.array(losses, np.float64)
    if given.shape[:1] != (n,) or given.ndim > 1 + objectives:
        raise SearchError(f"losses have shape {given.shape}, expected ({n},)")
    given[~np.isfinite(given)] = np.inf
    return given


def rng_state(rng: np.random.Generator) -> str:
    """The generator's state as JSON, since its integers have 128 bits and payloads have 64."""
    return json.dumps(rng.bit_generator.state, default=np.ndarray.tolist)


def load_rng(rng: np.random.Generator, state: str) -> None:
    """Let the generator go on where :func:`rng_state` was taken."""
    try:
        rng.bit_generator.state = json.loads(state)
    except (ValueError, KeyError, TypeError) as error:
        kind = type(rng.bit_generator).__name__
        raise SearchError(f"not the state of a {kind} generator: {error}") from error
