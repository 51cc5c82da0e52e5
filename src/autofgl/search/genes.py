"""Chromosomes of mixed type: what a gene may be, and which chromosomes are one.

FL-AGCNS's codes are all integers; a client that configures itself (Rezaei et al., 2024, "mixed-type
representation") also chooses rates and sizes. A chromosome is a plain dict from the names of its
genes to ``str``, ``bool``, ``int`` or ``float``, so that it can go into a payload, a checkpoint or
JSON as it is.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from autofgl.search.codes import SearchError

Value: TypeAlias = str | bool | int | float
Chromosome: TypeAlias = dict[str, Value]


class Gene(Protocol):
    """One choice of a chromosome."""

    @property
    def name(self) -> str:
        """Its key in the chromosome."""
        ...

    @property
    def values(self) -> Sequence[Value] | None:
        """All values in order, or None where there is a continuum of them."""
        ...

    def draw(self, rng: np.random.Generator) -> Value:
        """A random value."""
        ...

    def check(self, value: Any) -> Value:
        """The value as a plain Python one.

        Raises:
            SearchError: It is of another type, or outside the gene's range.
        """
        ...


@dataclass(frozen=True)
class Categorical:
    """One of some named things, all equally likely.

    Attributes:
        name: Key in the chromosome.
        choices: The things; 1, 1.0 and True are three of them.
    """

    name: str
    choices: tuple[Value, ...]

    def __post_init__(self) -> None:
        choices = tuple(_plain(choice) for choice in self.choices)
        if not choices or not all(isinstance(choice, str | int | float) for choice in choices):
            raise _broken(self, "needs at least one choice, and only text, numbers or booleans")
        if len({(type(choice), choice) for choice in choices}) < len(choices):
            raise _broken(self, "has a choice twice")
        object.__setattr__(self, "choices", choices)

    @property
    def values(self) -> Sequence[Value]:
        """The choices."""
        return self.choices

    def draw(self, rng: np.random.Generator) -> Value:
        """A random choice."""
        return self.choices[int(rng.integers(len(self.choices)))]

    def check(self, value: Any) -> Value:
        """See :meth:`Gene.check`."""
        plain = _plain(value)
        for choice in self.choices:
            if type(choice) is type(plain) and choice == plain:
                return choice
        raise _outside(self.name, value, f"one of {', '.join(map(repr, self.choices))}")


@dataclass(frozen=True)
class Ordinal(Categorical):
    """One of some numbers, in ascending order: neighbours are alike, which a searcher may use."""

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = [c for c in self.choices if isinstance(c, int | float)]
        if len(numbers) < len(self.choices) or sorted(numbers) != numbers:
            raise _broken(self, "needs numbers in ascending order")


@dataclass(frozen=True)
class Integer:
    """A whole number, all equally likely.

    Attributes:
        name: Key in the chromosome.
        low, high: Its range; both ends belong to it.
    """

    name: str
    low: int
    high: int

    def __post_init__(self) -> None:
        if not (_is_integer(self.low) and _is_integer(self.high) and self.low <= self.high):
            raise _broken(self, "needs whole numbers low <= high")

    @property
    def values(self) -> Sequence[Value]:
        """The numbers."""
        return range(self.low, self.high + 1)

    def draw(self, rng: np.random.Generator) -> int:
        """A random number of the range."""
        return int(rng.integers(self.low, self.high, endpoint=True))

    def check(self, value: Any) -> int:
        """See :meth:`Gene.check`."""
        plain = _plain(value)
        if not (_is_integer(plain) and self.low <= plain <= self.high):
            raise _outside(self.name, value, f"a whole number from {self.low} to {self.high}")
        return int(plain)


@dataclass(frozen=True)
class Float:
    """A number, uniform over its range.

    Attributes:
        name: Key in the chromosome.
        low, high: Its range; both ends belong to it.
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise _broken(self, "needs finite numbers low <= high")

    @property
    def values(self) -> Sequence[Value] | None:
        """A continuum, unless both ends are one."""
        return (float(self.low),) if self.low == self.high else None

    def draw(self, rng: np.random.Generator) -> float:
        """A random number of the range."""
        return float(rng.uniform(self.low, self.high))

    def check(self, value: Any) -> float:
        """See :meth:`Gene.check`."""
        plain = _plain(value)
        number = isinstance(plain, int | float) and not isinstance(plain, bool)
        if not (number and self.low <= plain <= self.high):
            raise _outside(self.name, value, f"a number from {self.low} to {self.high}")
        return float(plain)


@dataclass(frozen=True)
class LogFloat(Float):
    """A positive number whose logarithm is uniform: a rate, of which the magnitude counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise _broken(self, "needs numbers above 0")

    def draw(self, rng: np.random.Generator) -> float:
        """A random number of the range."""
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, float(self.low)), float(self.high))


def _itself(chromosome: Chromosome) -> Chromosome:
    return chromosome


@dataclass(frozen=True)
class Genes:
    """A space of chromosomes.

    Chromosomes are compared by their canonical form but kept as they are, as codes are
    (:class:`autofgl.search.codes.Codes`).

    Attributes:
        genes: The genes; their names differ.
        canonical: Maps a chromosome to the one that stands for all that mean the same, such as
            those that differ in the width of a layer which they do not have.

    Raises:
        SearchError: There is no gene, or two have one name.
    """

    genes: tuple[Gene, ...]
    canonical: Callable[[Chromosome], Chromosome] = _itself

    def __post_init__(self) -> None:
        object.__setattr__(self, "genes", tuple(self.genes))
        if not self.genes or len({gene.name for gene in self.genes}) < len(self.genes):
            names = [gene.name for gene in self.genes]
            raise SearchError(f"a chromosome needs genes with names that differ, got {names}")

    @property
    def size(self) -> float:
        """Number of chromosomes, before those that mean the same are taken as one; may be inf."""
        return math.prod(
            math.inf if gene.values is None else len(gene.values) for gene in self.genes
        )

    def draw(self, rng: np.random.Generator) -> Chromosome:
        """A random chromosome."""
        return {gene.name: gene.draw(rng) for gene in self.genes}

    def listed(self) -> Iterator[Chromosome]:
        """All chromosomes, one after the other.

        Raises:
            SearchError: There is a continuum of them.
        """
        values = [gene.values for gene in self.genes if gene.values is not None]
        if len(values) < len(self.genes):
            raise SearchError("a space with a continuum of chromosomes cannot be listed")
        names = [gene.name for gene in self.genes]
        for chosen in itertools.product(*values):
            yield dict(zip(names, chosen, strict=True))

    def check(self, chromosome: Mapping[str, Any]) -> Chromosome:
        """A copy in the order of the genes, with plain Python values.

        Raises:
            SearchError: A gene is missing, unknown or outside its range.
        """
        if not isinstance(chromosome, Mapping):
            raise SearchError(f"a chromosome is a dict, not {type(chromosome).__name__}")
        names = {gene.name for gene in self.genes}
        wrong = sorted(map(str, names ^ set(chromosome)))
        if wrong:
            raise SearchError(f"a chromosome has exactly its genes; see {', '.join(wrong)}")
        return {gene.name: gene.check(chromosome[gene.name]) for gene in self.genes}

    def key(self, chromosome: Mapping[str, Any]) -> str:
        """The same text for all chromosomes that mean the same."""
        stands = self.check(chromosome)
        if self.canonical is not _itself:
            stands = self.check(self.canonical(stands))
        return json.dumps([*stands.values()])


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _broken(gene: Any, reason: str) -> SearchError:
    return SearchError(f"gene '{gene.name}' {reason}: {gene}")


def _outside(name: str, value: Any, allowed: str) -> SearchError:
    return SearchError(f"gene '{name}' is {value!r}; it must be {allowed}")
