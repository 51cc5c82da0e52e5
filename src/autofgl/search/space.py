"""The space that a search runs over: its genes, and which candidates are one.

==========  ===================================================================================
gene        one choice: of a name, a number of a list, a whole number, a number, a rate
candidate   a value for each gene, in one of two forms
chromosome  the plain form: a dict from the genes' names to ``str``, ``bool``, ``int`` or ``float``,
            fit for a payload, a checkpoint or JSON as it is (Rezaei et al., 2024: "mixed-type
            representation")
code        the vector form, for spaces whose genes are all choices: int64 [genes], gene g is one of
            0..cardinalities[g]-1
population  candidates in an array: int64 [n, genes] for codes, [n] of dicts for chromosomes
==========  ===================================================================================

Searchers work on populations through the methods of :class:`SearchSpace` and so over both forms.
"""

import copy
import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.search.genes import Gene, Integer, Value
from autofgl.search.searcher import Candidate, Candidates, SearchError, State, load_rng, rng_state

Chromosome: TypeAlias = dict[str, Value]
Code: TypeAlias = npt.NDArray[np.int64]
Population: TypeAlias = npt.NDArray[Any]

#: How often a fresh candidate is looked for before a repeat is accepted, and how large a space may
#: be to be listed when that fails.
TRIES, LISTABLE = 64, 1 << 16


class SearchSpace:
    """A space of candidates, here chromosomes; :class:`Codes` has them as vectors.

    ``canonical`` maps a candidate to the one that stands for all that mean the same, such as those
    that differ in the width of a layer which they do not have. Candidates are compared by this form
    but kept as they are: genes that have no effect in one of them are material for its offspring,
    and are not to be flattened to a common value.
    """

    def __init__(
        self, genes: Iterable[Gene], canonical: Callable[[Candidate], Candidate] | None = None
    ) -> None:
        self.genes = tuple(genes)
        self.canonical = canonical
        #: The keys of a candidate's values: the genes' names, or their places in a code.
        self.labels: Sequence[Any] = [gene.name for gene in self.genes]
        if not self.genes or len(set(self.labels)) < len(self.genes):
            raise SearchError(f"a space needs genes with names that differ, got {self.labels}")
        #: Number of values of each gene; 0 where there is a continuum.
        self.cardinalities = tuple(len(gene.values or ()) for gene in self.genes)

    @property
    def size(self) -> float:
        """Number of candidates, before those that mean the same are taken as one; may be inf."""
        return math.inf if 0 in self.cardinalities else math.prod(self.cardinalities)

    def build(self, values: Iterable[Value]) -> Candidate:
        """The candidate with these values of its genes."""
        return dict(zip(self.labels, values, strict=True))

    def draw(self, rng: np.random.Generator) -> Candidate:
        """A random candidate."""
        return self.build(gene.draw(rng) for gene in self.genes)

    def check(self, candidate: Candidate) -> Candidate:
        """A copy in the order of the genes, with plain Python values, if it is of the space."""
        if not isinstance(candidate, Mapping):
            raise SearchError(f"a chromosome is a dict, not {type(candidate).__name__}")
        wrong = sorted(map(str, set(self.labels) ^ set(candidate)))
        if wrong:
            raise SearchError(f"a chromosome has exactly its genes; see {', '.join(wrong)}")
        return self.build(gene.check(candidate[gene.name]) for gene in self.genes)

    def key(self, candidate: Candidate) -> Hashable:
        """The same for all candidates that mean the same."""
        stands = self.check(candidate)
        if self.canonical is not None:
            stands = self.check(self.canonical(stands))
        return json.dumps([*stands.values()])

    def mutant(self, candidate: Candidate, rng: np.random.Generator) -> Candidate:
        """A copy in which one gene that has a choice takes another value, all equally likely."""
        changed = candidate.copy()
        free = [index for index, count in enumerate(self.cardinalities) if count != 1]
        if free:
            index = free[int(rng.integers(len(free)))]
            label = self.labels[index]
            changed[label] = self.genes[index].other(candidate[label], rng)
        return changed

    def fresh(self, taken: Container[Hashable], rng: np.random.Generator) -> Candidate:
        """A random candidate whose key is not taken, or any random one if none turns up."""
        for _ in range(TRIES):
            candidate = self.draw(rng)
            if self.key(candidate) not in taken:
                break
        return candidate

    def listed(self) -> Iterator[Candidate]:
        """All candidates, the last gene changing fastest, unless there is a continuum of them."""
        if self.size == math.inf:
            raise SearchError("a space with a continuum of candidates cannot be listed")
        return map(self.build, itertools.product(*(gene.values or () for gene in self.genes)))

    def left(self, taken: Container[Hashable]) -> list[Candidate]:
        """All candidates whose key is not taken; none of a space that is too large to list."""
        if self.size > LISTABLE:
            return []
        return [one for one in self.listed() if self.key(one) not in taken]

    def stack(self, candidates: Iterable[Candidate]) -> Population:
        """Candidates as a population."""
        rows = [*candidates]
        population = np.empty(len(rows), object)
        population[:] = rows
        return population

    def candidates(self, population: Iterable[Candidate]) -> Candidates:
        """As callers see them: codes in one array, chromosomes as a list of copies."""
        return [dict(one) for one in population]

    def checked(self, candidates: Candidates) -> Population:
        """Candidates of a caller, all of the space, as a population."""
        return self.stack(map(self.check, candidates))

    def population(self, n: int, rng: np.random.Generator) -> Population:
        """Random candidates; repeats may occur."""
        return self.stack(self.draw(rng) for _ in range(n))

    def keys(self, population: Population) -> list[Hashable]:
        """The key of every candidate."""
        return [self.key(candidate) for candidate in population]

    def unique(self, population: Population) -> npt.NDArray[np.int64]:
        """Indices of the candidates that no earlier one equals, in order."""
        first: dict[Hashable, int] = {}
        for row, key in enumerate(self.keys(population)):
            first.setdefault(key, row)
        return np.fromiter(first.values(), np.int64, len(first))

    def crossover(
        self, mothers: Population, fathers: Population, rate: float, rng: np.random.Generator
    ) -> Population:
        """Each gene is the father's with probability ``rate``, else the mother's (uniform)."""
        takes = rng.random((len(mothers), len(self.genes))) < rate
        children = []
        for mother, father, row in zip(mothers, fathers, takes, strict=True):
            pairs = zip(self.labels, row, strict=True)
            children.append(self.build((father if take else mother)[at] for at, take in pairs))
        return self.stack(children)

    def mutate(self, population: Population, rate: float, rng: np.random.Generator) -> Population:
        """Change each gene with probability ``rate`` to one of its other values, all alike."""
        chosen = rng.random((len(population), len(self.genes))) < rate
        mutants = [candidate.copy() for candidate in population]
        for row, index in zip(*np.nonzero(chosen), strict=True):
            label = self.labels[index]
            mutants[row][label] = self.genes[index].other(mutants[row][label], rng)
        return self.stack(mutants)

    def encode(self, population: Population) -> Population:
        """The population in vector form: of each gene the place of its value, int64 [n, genes]."""
        places = [{repr(value): at for at, value in enumerate(g.values or ())} for g in self.genes]
        codes = [
            [place[repr(value)] for place, value in zip(places, one.values(), strict=True)]
            for one in population
        ]
        return np.array(codes, np.int64).reshape(-1, len(self.genes))

    def decode(self, codes: Population) -> Population:
        """The population of which :meth:`encode` gives these codes."""
        values = [gene.values or () for gene in self.genes]
        return self.stack(
            self.build(v[place] for v, place in zip(values, code, strict=True))
            for code in codes.tolist()
        )


class Codes(SearchSpace):
    """A space whose candidates are integer vectors, and whose populations are handled at once.

    ``sample`` draws one code, for spaces in which uniform genes rarely make a useful network.
    """

    def __init__(
        self,
        cardinalities: Sequence[int],
        canonical: Callable[[Code], Code] | None = None,
        sample: Callable[[np.random.Generator], Code] | None = None,
    ) -> None:
        if not cardinalities or min(cardinalities) < 1:
            raise SearchError(f"every gene needs at least one choice, got {cardinalities}")
        counts = [int(count) for count in cardinalities]
        genes = (Integer(str(place), 0, count - 1) for place, count in enumerate(counts))
        super().__init__(genes, canonical)
        self.sample = sample
        self.labels = range(len(self.genes))

    def build(self, values: Iterable[Value]) -> Code:
        """See :meth:`SearchSpace.build`."""
        return np.array([*values], np.int64)

    def draw(self, rng: np.random.Generator) -> Candidate:
        """See :meth:`SearchSpace.draw`."""
        return self.population(1, rng)[0]

    def check(self, candidate: Candidate) -> Candidate:
        """See :meth:`SearchSpace.check`."""
        return self.checked([candidate])[0]

    def key(self, candidate: Code) -> bytes:
        """See :meth:`SearchSpace.key`."""
        stands = candidate if self.canonical is None else self.canonical(candidate)
        return np.ascontiguousarray(stands, np.int64).tobytes()

    def stack(self, candidates: Iterable[Code]) -> Population:
        """Codes as the rows of one array; none at all give [0, genes]."""
        return np.array([*candidates], np.int64).reshape(-1, len(self.genes))

    def candidates(self, population: Iterable[Code]) -> Population:
        """A population itself, or one of these codes."""
        return population if isinstance(population, np.ndarray) else self.stack(population)

    def checked(self, candidates: Candidates) -> Population:
        """See :meth:`SearchSpace.checked`; an int64 copy [n, genes]."""
        given = np.asarray(candidates)
        if given.shape == (0,):
            return self.stack([])
        if given.ndim != 2 or given.shape[1] != len(self.genes):
            raise SearchError(f"codes have shape {given.shape}, expected (n, {len(self.genes)})")
        if not np.issubdtype(given.dtype, np.integer):
            raise SearchError(f"codes are integers, not {given.dtype}")
        if np.any(given < 0) or np.any(given >= np.array(self.cardinalities)):
            raise SearchError("a gene is outside its choices")
        return given.astype(np.int64)

    def population(self, n: int, rng: np.random.Generator) -> Population:
        """Random codes [n, genes]; repeats may occur."""
        if self.sample is None:
            return rng.integers(0, self.cardinalities, (n, len(self.genes)))
        return self.checked(self.stack(self.sample(rng) for _ in range(n)))

    def crossover(
        self, mothers: Population, fathers: Population, rate: float, rng: np.random.Generator
    ) -> Population:
        """See :meth:`SearchSpace.crossover`."""
        return np.where(rng.random(mothers.shape) < rate, fathers, mothers)

    def mutate(self, population: Population, rate: float, rng: np.random.Generator) -> Population:
        """See :meth:`SearchSpace.mutate`."""
        cardinalities = np.array(self.cardinalities)
        shift = rng.integers(1, np.maximum(cardinalities, 2), population.shape)
        chosen = rng.random(population.shape) < rate
        return np.where(chosen, (population + shift) % cardinalities, population)

    def encode(self, population: Population) -> Population:
        """The population itself."""
        return population

    def decode(self, codes: Population) -> Population:
        """The codes themselves."""
        return codes


class Seeded(ABC):
    """A searcher that draws from one generator and does not remember what it has only asked."""

    def __init__(self, space: SearchSpace, rng: np.random.Generator) -> None:
        self.space = space
        self._rng = rng

    def fail(self, candidate: Candidate) -> None:
        """See :class:`~autofgl.search.searcher.Searcher`."""
        self.space.check(candidate)

    def state(self) -> State:
        """See :class:`~autofgl.search.searcher.Searcher`."""
        return {"rng": rng_state(self._rng), **self._memory()}

    def load_state(self, state: State) -> None:
        """See :class:`~autofgl.search.searcher.Searcher`."""
        load_rng(copy.deepcopy(self._rng), state["rng"])  # refused before anything has changed
        self._remember(state)
        load_rng(self._rng, state["rng"])

    @abstractmethod
    def _memory(self) -> State:
        """The state but for the generator."""

    @abstractmethod
    def _remember(self, state: State) -> None:
        """Load what :meth:`_memory` gave; nothing has changed if that is refused."""
