"""The genetic algorithm of clients that configure themselves (Rezaei et al., 2024, section 3.1).

Its operators are pure functions of chromosomes and a generator. As everywhere in this package
**lower is better**: a caller with an accuracy tells its negative.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import Losses, SearchError, worst_if_diverged
from autofgl.search.genes import Chromosome, Genes
from autofgl.search.searcher import State, generator_state, load_generator_state

#: How often a fresh chromosome is looked for at random, and how large a space may be to be listed
#: when that fails.
TRIES, LISTABLE = 64, 1 << 16


@dataclass(frozen=True)
class Breeding:
    """What the paper's four rates mean (section 4.1; where it is vague, its section 3.1 decides).

    Attributes:
        retention: Share of a population, the best, that lives on (step 3); rounded, at least one
            and never all.
        random_selection: Probability with which each of the others lives on too. The paper says
            "0.1 chromosomes are randomly chosen from the remaining population", which is the same
            on average.
        crossover: Probability that a child's gene is the father's and not the mother's (uniform
            crossover, step 4). All places that are left go to children, so it is no probability
            of having a child.
        mutation: Probability that a child is mutated (step 5: "some chromosomes may undergo
            mutation, while others may not"). One gene, drawn at random among those with a choice,
            then takes another random value.

    Raises:
        SearchError: A rate is no probability.
    """

    retention: float = 0.4
    random_selection: float = 0.1
    crossover: float = 0.5
    mutation: float = 0.2

    def __post_init__(self) -> None:
        rates = (self.retention, self.random_selection, self.crossover, self.mutation)
        if not all(0 <= rate <= 1 for rate in rates):
            raise SearchError(f"rates lie between 0 and 1: {self}")


PAPER = Breeding()


def select(
    losses: Losses, retention: float, random_selection: float, rng: np.random.Generator
) -> list[int]:
    """Indices of those that live on, best first; of equals the earlier is the better.

    At least one place is left for a child.
    """
    order = np.argsort(losses, kind="stable")
    kept = min(max(1, round(retention * len(order))), len(order) - 1)
    lucky = rng.random(len(order) - kept) < random_selection
    return [*order[:kept].tolist(), *order[kept:][lucky].tolist()][: len(order) - 1]


def crossover(
    mother: Chromosome, father: Chromosome, rate: float, rng: np.random.Generator
) -> Chromosome:
    """Uniform crossover: each gene is the father's with probability ``rate``, else the mother's."""
    takes = rng.random(len(mother)) < rate
    return {
        name: father[name] if takes_father else value
        for (name, value), takes_father in zip(mother.items(), takes, strict=True)
    }


def mutate(genes: Genes, chromosome: Chromosome, rng: np.random.Generator) -> Chromosome:
    """Random mutation: one gene that has a choice takes another value of those it may have."""
    free = [gene for gene in genes.genes if gene.values is None or len(gene.values) > 1]
    if not free:
        return dict(chromosome)
    gene = free[int(rng.integers(len(free)))]
    before = chromosome[gene.name]
    value = gene.draw(rng)
    while value == before and type(value) is type(before):
        value = gene.draw(rng)
    return {**chromosome, gene.name: value}


class Genetic:
    """A population in which the best, and a few others, live on and have children.

    The first population is ``initial``, filled up with random chromosomes. When the losses of all
    its members are known, the next one is bred. No chromosome that was ever told is bred again,
    and a population holds none twice, unless the space is used up. Losses are remembered, so those
    that live on are not asked again.

    Where losses cease to hold, as those of a client do when it receives new global weights,
    :meth:`renew` has the present population measured again: the paper's "chromosomes from the last
    round are retained as the first chromosomes". Another searcher takes a population over as
    ``initial``.

    Args:
        genes: The space.
        rng: Source of all chance.
        size: Chromosomes in a population, at least two.
        breeding: How the next one comes about.
        initial: Members of the first population: the settings of the environment, or the last
            population of an earlier search. Repeats, and what exceeds ``size``, are left out.

    Raises:
        SearchError: The size makes no sense, or an initial chromosome is not of the space.
    """

    def __init__(
        self,
        genes: Genes,
        rng: np.random.Generator,
        size: int = 20,
        breeding: Breeding = PAPER,
        initial: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        if size < 2:
            raise SearchError(f"a population needs at least two chromosomes, not {size}")
        self.genes = genes
        self.size = size
        self.breeding = breeding
        self.generation = 0
        self._rng = rng
        self._known: dict[str, tuple[Chromosome, float]] = {}
        given: dict[str, Chromosome] = {}
        for one in initial:
            given.setdefault(genes.key(one), genes.check(one))
        self.population = [*given.values()][:size]
        self._fill(set(given), self._random)
        self._pending = list(self.population)

    @property
    def best(self) -> tuple[Chromosome, float]:
        """The chromosome with the lowest loss that was told, and that loss.

        Raises:
            SearchError: None was told yet.
        """
        if not self._known:
            raise SearchError("no chromosome has a loss yet")
        chromosome, loss = min(self._known.values(), key=lambda known: known[1])
        return dict(chromosome), loss

    def ask(self, n: int | None = None) -> list[Chromosome]:
        """Members of the population whose loss is not known: all, or the first ``n``.

        There may be fewer than ``n``, but none only for ``n`` = 0. What was asked and not told is
        asked again. When the losses of all members are known, the next population is bred first.
        """
        if not self._pending:
            self._breed()
        return [dict(one) for one in self._pending[:n]]

    def tell(self, chromosomes: Sequence[Mapping[str, Any]], losses: npt.ArrayLike) -> None:
        """Losses of chromosomes, asked or not; lower is better, NaN and inf count as worst.

        Those that are not of the population are remembered and no more.

        Raises:
            SearchError: There are not as many losses, or a chromosome is not of the space.
        """
        told = [self.genes.check(one) for one in chromosomes]
        values = worst_if_diverged(losses, len(told)).tolist()
        keys = [self.genes.key(one) for one in told]
        self._known.update(zip(keys, zip(told, values, strict=True), strict=True))
        self._pending = [one for one in self._pending if self.genes.key(one) not in keys]

    def renew(self, guests: Sequence[Mapping[str, Any]] = ()) -> None:
        """Forget all losses, since they do not hold any more; the population is asked again.

        Args:
            guests: Chromosomes that must be in it. Those that are not take the last places.

        Raises:
            SearchError: A guest is not of the space.
        """
        self._known.clear()
        present = {self.genes.key(one) for one in self.population}
        new = {self.genes.key(one): self.genes.check(one) for one in guests}
        missing = [one for key, one in new.items() if key not in present]
        self.population = [*self.population[: self.size - len(missing)], *missing]
        self._pending = list(self.population)

    def state(self) -> State:
        """Generator, population, what is known, and what is left to ask."""
        return {
            "rng": generator_state(self._rng),
            "generation": self.generation,
            "population": [dict(one) for one in self.population],
            "pending": [dict(one) for one in self._pending],
            "known": [dict(one) for one, _ in self._known.values()],
            "losses": np.array([loss for _, loss in self._known.values()], np.float64),
        }

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken.

        Raises:
            SearchError: The state is of another space or size, or not whole.
        """
        population, pending, told = (
            [self.genes.check(one) for one in state[key]]
            for key in ("population", "pending", "known")
        )
        losses = worst_if_diverged(state["losses"], len(told)).tolist()
        keys = [self.genes.key(one) for one in told]
        known = dict(zip(keys, zip(told, losses, strict=True), strict=True))
        accounted = known.keys() | {self.genes.key(one) for one in pending}
        if len(population) != self.size or not accounted >= set(map(self.genes.key, population)):
            raise SearchError(f"not the state of a population of {self.size}")
        load_generator_state(self._rng, state["rng"])
        self.generation, self.population = state["generation"], population
        self._pending, self._known = pending, known

    def _breed(self) -> None:
        """Steps 3 to 5 of section 3.1."""
        losses = np.array([self._known[self.genes.key(one)][1] for one in self.population])
        ways = self.breeding
        kept = select(losses, ways.retention, ways.random_selection, self._rng)
        parents = [self.population[index] for index in kept]
        self.population = list(parents)
        self._fill(set(self._known), lambda: self._child(parents))
        self._pending = self.population[len(parents) :]
        self.generation += 1

    def _fill(self, taken: set[str], make: Callable[[], Chromosome]) -> None:
        """Fill the population up with chromosomes that are not taken."""
        while len(self.population) < self.size:
            one = self._fresh(make(), taken)
            taken.add(self.genes.key(one))
            self.population.append(one)

    def _random(self) -> Chromosome:
        return self.genes.draw(self._rng)

    def _child(self, parents: Sequence[Chromosome]) -> Chromosome:
        """A child of two different parents, where there are two."""
        pair = self._rng.permutation(len(parents))[:2].tolist()
        mother, father = parents[pair[0]], parents[pair[-1]]
        child = crossover(mother, father, self.breeding.crossover, self._rng)
        if self._rng.random() < self.breeding.mutation:
            child = mutate(self.genes, child, self._rng)
        return child

    def _fresh(self, one: Chromosome, taken: Set[str]) -> Chromosome:
        """The chromosome itself if it is not taken, else the first such mutant on a random walk.

        If that leads nowhere new: a random one, one of a list of all, and at last a repeat.
        """
        if len(taken) >= self.genes.size:
            return one
        mutant = one
        for _ in range(TRIES):
            if self.genes.key(mutant) not in taken:
                return mutant
            mutant = mutate(self.genes, mutant, self._rng)
        for _ in range(TRIES):
            drawn = self._random()
            if self.genes.key(drawn) not in taken:
                return drawn
        if self.genes.size <= LISTABLE:
            left = [one for one in self.genes.listed() if self.genes.key(one) not in taken]
            if left:
                return left[int(self._rng.integers(len(left)))]
        return one


class RandomChromosomes(Genetic):
    """The same without heredity: who lives on does, but all others are drawn at random.

    So it costs as many evaluations as :class:`Genetic` and keeps the best that it found.
    """

    def _child(self, parents: Sequence[Chromosome]) -> Chromosome:  # noqa: ARG002
        return self._random()
