"""What a searcher knows of its space: how many choices each gene has, and which codes are one.

Notation used in this package:

========== ==================================================================
``genes``  number of genes of a code
code       int64 [genes]; gene g is one of 0..cardinalities[g]-1
population int64 [n, genes], a code per row
losses     float64 [n], one per code; **lower is better**
========== ==================================================================
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.errors import AutoFGLError

Code: TypeAlias = npt.NDArray[np.int64]
Population: TypeAlias = npt.NDArray[np.int64]
Losses: TypeAlias = npt.NDArray[np.float64]


class SearchError(AutoFGLError):
    """A searcher was handed codes, losses or a state that do not fit its space."""


def _itself(code: Code) -> Code:
    return code


@dataclass(frozen=True)
class Codes:
    """A space of gene vectors.

    Codes are compared by their canonical form but kept as they are: genes that have no effect in
    one network are material for its offspring, and are not to be flattened to a common value.

    Attributes:
        cardinalities: Number of choices of each gene.
        canonical: Maps a code to the one that stands for all that build the same network.
        sample: Draws one code; without it every gene is uniform. For spaces in which uniform genes
            rarely make a useful network.

    Raises:
        SearchError: There is no gene, or a gene has no choice.
    """

    cardinalities: tuple[int, ...]
    canonical: Callable[[Code], Code] = _itself
    sample: Callable[[np.random.Generator], Code] | None = None

    def __post_init__(self) -> None:
        cardinalities = tuple(int(count) for count in self.cardinalities)
        if not cardinalities or min(cardinalities) < 1:
            raise SearchError(f"every gene needs at least one choice, got {cardinalities}")
        object.__setattr__(self, "cardinalities", cardinalities)

    @property
    def genes(self) -> int:
        """Number of genes."""
        return len(self.cardinalities)

    @property
    def size(self) -> int:
        """Number of codes, before those that build the same network are taken as one."""
        return math.prod(self.cardinalities)

    def draw(self, n: int, rng: np.random.Generator) -> Population:
        """Random codes [n, genes]; repeats may occur."""
        if self.sample is None:
            return rng.integers(0, self.cardinalities, (n, self.genes))
        return self.check(self.stack(self.sample(rng) for _ in range(n)))

    def key(self, code: Code) -> bytes:
        """The same bytes for all codes that build the same network."""
        return np.ascontiguousarray(self.canonical(code), np.int64).tobytes()

    def keys(self, population: Population) -> list[bytes]:
        """The key of every row."""
        return [self.key(code) for code in population]

    def unique(self, population: Population) -> npt.NDArray[np.int64]:
        """Indices of the rows that no earlier row equals, in order."""
        first: dict[bytes, int] = {}
        for row, key in enumerate(self.keys(population)):
            first.setdefault(key, row)
        return np.fromiter(first.values(), np.int64, len(first))

    def stack(self, codes: Iterable[Code]) -> Population:
        """Codes as the rows of one array; none at all give [0, genes]."""
        return np.array([*codes], np.int64).reshape(-1, self.genes)

    def check(self, population: Any) -> Population:
        """The codes as an int64 copy [n, genes].

        Raises:
            SearchError: The shape is another, or a gene is outside its choices.
        """
        given = np.asarray(population)
        if given.ndim != 2 or given.shape[1] != self.genes:
            raise SearchError(f"codes have shape {given.shape}, expected (n, {self.genes})")
        if not np.issubdtype(given.dtype, np.integer):
            raise SearchError(f"codes are integers, not {given.dtype}")
        if np.any(given < 0) or np.any(given >= np.array(self.cardinalities)):
            raise SearchError("a gene is outside its choices")
        return given.astype(np.int64)


def worst_if_diverged(losses: Any, n: int, objectives: bool = False) -> Losses:
    """The losses of ``n`` codes as float64, with +inf for those that are not finite.

    A candidate whose training diverged is no accident of the search: it counts as worst.

    Args:
        losses: One for each code, ``[n]``.
        n: Number of codes.
        objectives: Whether each code may have several, ``[n, k]``.

    Raises:
        SearchError: There are not ``n`` losses.
    """
    given = np.array(losses, np.float64)
    if given.shape[:1] != (n,) or given.ndim > 1 + objectives:
        raise SearchError(f"losses have shape {given.shape}, expected ({n},)")
    given[~np.isfinite(given)] = np.inf
    return given
