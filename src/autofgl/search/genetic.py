"""The genetic algorithm of clients that configure themselves (Rezaei et al., 2024, section 3.1).

Uniform crossover and random mutation are those of :class:`~autofgl.search.space.SearchSpace`.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autofgl.search.searcher import Candidate, Candidates, Losses, SearchError, State, as_losses
from autofgl.search.space import TRIES, SearchSpace, Seeded


@dataclass(frozen=True)
class Breeding:
    """What the paper's four rates mean (section 4.1; where it is vague, its section 3.1 decides).

    Attributes:
        retention: Share of a population, the best, that lives on (step 3); rounded, at least one
            and never all.
        random_selection: Probability with which each of the others lives on too, on average the
            paper's "0.1 chromosomes are randomly chosen from the remaining population".
        crossover: Probability that a child's gene is the father's and not the mother's (step 4).
            All places that are left go to children, so it is no probability of having a child.
        mutation: Probability that a child is mutated (step 5: "some chromosomes may undergo
            mutation, while others may not"). One gene with a choice then takes another value.
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


def select_parents(
    losses: Losses, retention: float, random_selection: float, rng: np.random.Generator
) -> list[int]:
    """Indices of those that live on, best first; at least one place is left for a child."""
    order = np.argsort(losses, kind="stable")
    kept = min(max(1, round(retention * len(order))), len(order) - 1)
    lucky = rng.random(len(order) - kept) < random_selection
    return [*order[:kept].tolist(), *order[kept:][lucky].tolist()][: len(order) - 1]


class Genetic(Seeded):
    """A population in which the best, and a few others, live on and have children.

    The first population is ``initial``, such as the last one of an earlier search, without repeats
    and what exceeds ``size``, filled up with random candidates. When the losses of all its members
    are there, the next one is bred. Nothing that was ever told is bred again, and a population
    holds no candidate twice, unless the space is used up. Losses are remembered, so those that live
    on are not asked again.

    Where losses cease to hold, as those of a client do when it receives new global weights,
    :meth:`renew` has the present population measured again: the paper's "chromosomes from the last
    round are retained as the first chromosomes".
    """

    def __init__(
        self,
        space: SearchSpace,
        rng: np.random.Generator,
        size: int = 20,
        breeding: Breeding = PAPER,
        initial: Candidates = (),
    ) -> None:
        if size < 2:
            raise SearchError(f"a population needs at least two candidates, not {size}")
        super().__init__(space, rng)
        self.size = size
        self.breeding = breeding
        self.generation = 0
        self._measured: dict[Hashable, tuple[Candidate, float]] = {}
        given: dict[Hashable, Candidate] = {}
        for one in space.checked(initial):
            given.setdefault(space.key(one), one)
        self.population = [*given.values()][:size]
        self._fill(set(given), lambda: space.draw(rng))
        self._pending = list(self.population)

    @property
    def best(self) -> tuple[Candidate, float]:
        """The candidate with the lowest loss that was told, and that loss."""
        if not self._measured:
            raise SearchError("no candidate has a loss yet")
        candidate, loss = min(self._measured.values(), key=lambda measured: measured[1])
        return candidate.copy(), loss

    def ask(self, n: int | None = None) -> Candidates:
        """Members of the population whose loss is missing, asked before or not: all, or at most n.

        When the losses of all members are there, the next population is bred first.
        """
        if not self._pending:
            self._breed()
        return self.space.candidates(self._pending[:n])

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """See :class:`~autofgl.search.searcher.Searcher`; strangers are remembered and no more."""
        checked = self.space.checked(candidates)
        values = as_losses(losses, len(checked)).tolist()
        keys = self.space.keys(checked)
        self._measured.update(zip(keys, zip(checked, values, strict=True), strict=True))
        self._pending = [one for one in self._pending if self.space.key(one) not in keys]

    def renew(self, guests: Candidates = ()) -> None:
        """Forget all losses, since they do not hold any more; the population is asked again.

        ``guests`` are candidates that must be in it; those that are not take the last places.
        """
        new = {self.space.key(one): one for one in self.space.checked(guests)}
        self._measured.clear()
        present = {self.space.key(one) for one in self.population}
        missing = [one for key, one in new.items() if key not in present]
        self.population = [*self.population[: self.size - len(missing)], *missing]
        self._pending = list(self.population)

    def _memory(self) -> State:
        return {
            "generation": self.generation,
            "population": self.space.candidates(self.population),
            "pending": self.space.candidates(self._pending),
            "measured": self.space.candidates(one for one, _ in self._measured.values()),
            "losses": np.array([loss for _, loss in self._measured.values()], np.float64),
        }

    def _remember(self, state: State) -> None:
        population, pending, candidates = (
            [*self.space.checked(state[key])] for key in ("population", "pending", "measured")
        )
        losses = as_losses(state["losses"], len(candidates)).tolist()
        keys = map(self.space.key, candidates)
        measured = dict(zip(keys, zip(candidates, losses, strict=True), strict=True))
        accounted = measured.keys() | set(map(self.space.key, pending))
        if len(population) != self.size or not accounted >= set(map(self.space.key, population)):
            raise SearchError(f"not the state of a population of {self.size}")
        self.generation, self.population = state["generation"], population
        self._pending, self._measured = pending, measured

    def _breed(self) -> None:
        """Steps 3 to 5 of section 3.1."""
        losses = np.array([self._measured[self.space.key(one)][1] for one in self.population])
        rates = self.breeding
        kept = select_parents(losses, rates.retention, rates.random_selection, self._rng)
        parents = [self.population[index] for index in kept]
        self.population = list(parents)
        self._fill(set(self._measured), lambda: self._child(parents))
        self._pending = self.population[len(parents) :]
        self.generation += 1

    def _fill(self, taken: set[Hashable], make: Callable[[], Candidate]) -> None:
        """Fill the population up with candidates that are not taken."""
        while len(self.population) < self.size:
            one = self._fresh(make(), taken)
            taken.add(self.space.key(one))
            self.population.append(one)

    def _child(self, parents: Sequence[Candidate]) -> Candidate:
        """A child of two different parents, where there are two."""
        pair = self._rng.permutation(len(parents))[:2].tolist()
        mother, father = (self.space.stack([parents[place]]) for place in (pair[0], pair[-1]))
        child = self.space.crossover(mother, father, self.breeding.crossover, self._rng)[0]
        if self._rng.random() < self.breeding.mutation:
            child = self.space.mutant(child, self._rng)
        return child

    def _fresh(self, one: Candidate, taken: set[Hashable]) -> Candidate:
        """The candidate itself if it is not taken, else the first such mutant on a random walk.

        If that leads nowhere new: a random one, one of a list of all, and at last a repeat.
        """
        if len(taken) >= self.space.size:
            return one
        mutant = one
        for _ in range(TRIES):
            if self.space.key(mutant) not in taken:
                return mutant
            mutant = self.space.mutant(mutant, self._rng)
        random = self.space.fresh(taken, self._rng)
        if self.space.key(random) not in taken:
            return random
        left = self.space.left(taken)
        return left[int(self._rng.integers(len(left)))] if left else one


class RandomChromosomes(Genetic):
    """The same without heredity: who lives on does, but all others are random.

    So it costs as many evaluations as :class:`Genetic` and keeps the best that it saw.
    """

    def _child(self, parents: Sequence[Candidate]) -> Candidate:  # noqa: ARG002
        return self.space.draw(self._rng)
