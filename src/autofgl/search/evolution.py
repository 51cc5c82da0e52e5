"""Evolution of a population of codes, as one step and as an ask/tell searcher."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import Codes, Losses, Population, SearchError, worst_if_diverged
from autofgl.search.operators import (
    crossover,
    fresh_code,
    mutate,
    survivors,
    tournament,
    without_repeats,
)
from autofgl.search.searcher import State, generator_state, load_generator_state


@dataclass(frozen=True)
class Variation:
    """How children come about.

    Attributes:
        entrants: Codes in a tournament.
        crossover: Probability that a gene comes from the second parent.
        mutation: Probability that a gene changes.

    Raises:
        SearchError: A value makes no sense.
    """

    entrants: int = 2
    crossover: float = 0.5
    mutation: float = 1 / 8

    def __post_init__(self) -> None:
        if self.entrants < 1 or not 0 <= self.crossover <= 1 or not 0 < self.mutation <= 1:
            raise SearchError(f"not a way to make children: {self}")


DEFAULT = Variation()


def offspring(
    codes: Codes,
    parents: Population,
    losses: Losses,
    n: int,
    rng: np.random.Generator,
    variation: Variation = DEFAULT,
) -> Population:
    """Children [n, genes] of tournament winners, none of them equal to a parent or to another.

    Args:
        codes: The space.
        parents: Codes [m, genes].
        losses: Their losses [m]; only the order counts, so ranks will do for several objectives.
        n: Number of children.
        rng: Source of all chance.
        variation: How children come about.
    """
    losses = worst_if_diverged(losses, len(parents))
    mothers = parents[tournament(losses, n, variation.entrants, rng)]
    fathers = parents[tournament(losses, n, variation.entrants, rng)]
    children = crossover(mothers, fathers, variation.crossover, rng)
    children = mutate(codes, children, variation.mutation, rng)
    return without_repeats(codes, children, set(codes.keys(parents)), variation.mutation, rng)


class Evolution:
    """A population that keeps the best of parents and children.

    The first ``size`` codes are random. From then on children are asked, and what is told competes
    with the population for its ``size`` places. A code that is told again takes its new loss.

    Args:
        codes: The space.
        size: |P|.
        rng: Source of all chance.
        variation: How children come about.
        initial: Codes to be asked first, for a warm start.

    Raises:
        SearchError: There is no place in the population, or an initial code is not of the space.
    """

    def __init__(
        self,
        codes: Codes,
        size: int,
        rng: np.random.Generator,
        variation: Variation = DEFAULT,
        initial: npt.ArrayLike = (),
    ) -> None:
        if size < 1:
            raise SearchError(f"a population needs at least one code, not {size}")
        self.codes = codes
        self.size = size
        self.variation = variation
        self.population = codes.stack([])
        self.losses: Losses = np.zeros(0)
        self._rng = rng
        self._queue = codes.check(np.array(initial, np.int64).reshape(-1, codes.genes))

    def ask(self, n: int = 1) -> Population:
        """Initial codes first, then random ones until the population is full, then children."""
        queued, self._queue = self._queue[:n], self._queue[n:]
        missing = n - len(queued)
        if len(self.population) < self.size:
            more = self._random(missing, {*self.codes.keys(queued)})
        else:
            more = offspring(
                self.codes, self.population, self.losses, missing, self._rng, self.variation
            )
        return np.concatenate([queued, more])

    def tell(self, codes: npt.ArrayLike, losses: npt.ArrayLike) -> None:
        """Let the codes compete with the population."""
        told = self.codes.check(codes)
        fresh = worst_if_diverged(losses, len(told))
        again = set(self.codes.keys(told))
        kept = [key not in again for key in self.codes.keys(self.population)]
        population = np.concatenate([self.population[kept], told])
        all_losses = np.concatenate([self.losses[kept], fresh])
        best = survivors(self.codes, population, all_losses, self.size)
        self.population, self.losses = population[best], all_losses[best]

    def state(self) -> State:
        """Generator, population, its losses, and what is left of the initial codes."""
        return {
            "rng": generator_state(self._rng),
            "population": self.population,
            "losses": self.losses,
            "queue": self._queue,
        }

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken."""
        population, queue = self.codes.check(state["population"]), self.codes.check(state["queue"])
        losses = worst_if_diverged(state["losses"], len(population))
        load_generator_state(self._rng, state["rng"])
        self.population, self.losses, self._queue = population, losses, queue

    def _random(self, n: int, taken: set[bytes]) -> Population:
        taken |= {*self.codes.keys(self.population)}
        drawn = []
        for _ in range(n):
            drawn.append(fresh_code(self.codes, taken, self._rng))
            taken.add(self.codes.key(drawn[-1]))
        return self.codes.stack(drawn)
