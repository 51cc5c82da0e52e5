"""Evolution of a population: its operators, one step of it, and an ask/tell searcher.

FL-AGCNS says "evolutionary operations" and leaves them open. Ours are a tournament, uniform
crossover, mutation of single genes, and survival of the best among parents and children. Several
objectives become one order by non-dominated sorting with crowding (Deb et al., "A Fast and Elitist
Multiobjective Genetic Algorithm: NSGA-II", IEEE TEC 2002): searchers only compare losses, so a rank
can stand for a loss.
"""

from collections.abc import Container, Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from autofgl.search.searcher import Candidate, Candidates, Losses, SearchError, State, as_losses
from autofgl.search.space import TRIES, Population, SearchSpace, Seeded

#: Values of n candidates: ``[n]`` of one objective, or ``[n, k]`` of several.
Values = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Variation:
    """How children come about."""

    entrants: int = 2  # candidates in a tournament
    crossover: float = 0.5  # probability that a gene comes from the second parent
    mutation: float = 1 / 8  # probability that a gene changes

    def __post_init__(self) -> None:
        if self.entrants < 1 or not 0 <= self.crossover <= 1 or not 0 < self.mutation <= 1:
            raise SearchError(f"not a way to make children: {self}")


DEFAULT = Variation()


def tournament(losses: Losses, n: int, size: int, rng: Generator) -> Rows:
    """Indices [n] of the winners of ``n`` tournaments among ``size`` random entrants each."""
    entrants = rng.integers(0, len(losses), (n, size))
    winners = np.argmin(losses[entrants], axis=1, keepdims=True)
    return np.take_along_axis(entrants, winners, axis=1)[:, 0].astype(np.intp)


def survivors(space: SearchSpace, population: Population, losses: Losses, n: int) -> Rows:
    """Indices of the best ``n`` different candidates, best first; of equals the earlier."""
    unique = space.unique(population)
    order = np.argsort(losses[unique], kind="stable")[:n]
    return unique[order].astype(np.intp)


def fresh_mutant(
    space: SearchSpace,
    candidate: Candidate,
    taken: Container[Hashable],
    rate: float,
    rng: Generator,
) -> Candidate:
    """The candidate itself if it is not taken, else the first free mutant on a random walk from it.

    If the walk leads nowhere new, a random candidate takes its place.
    """
    for _ in range(TRIES):
        if space.key(candidate) not in taken:
            return candidate
        candidate = space.mutate(space.stack([candidate]), rate, rng)[0]
    return space.fresh(taken, rng)


def without_repeats(
    space: SearchSpace, population: Population, taken: set[Hashable], rate: float, rng: Generator
) -> Population:
    """The population with all that is taken, or that an earlier row has, made mutants."""
    taken = set(taken)
    fresh = np.empty_like(population)
    for row, candidate in enumerate(population):
        fresh[row] = fresh_mutant(space, candidate, taken, rate, rng)
        taken.add(space.key(fresh[row]))
    return fresh


def offspring(
    space: SearchSpace,
    parents: Population,
    losses: Losses,
    n: int,
    rng: Generator,
    variation: Variation = DEFAULT,
) -> Population:
    """``n`` children of tournament winners, none of them equal to a parent or to another.

    Of the parents' losses only the order counts, so ranks will do for several objectives.
    """
    losses = as_losses(losses, len(parents))
    mothers = parents[tournament(losses, n, variation.entrants, rng)]
    fathers = parents[tournament(losses, n, variation.entrants, rng)]
    children = space.crossover(mothers, fathers, variation.crossover, rng)
    children = space.mutate(children, variation.mutation, rng)
    return without_repeats(space, children, set(space.keys(parents)), variation.mutation, rng)


def ranks(values: Values) -> Losses:
    """One number for each candidate, lower is better: a single objective is its own rank.

    Of several, the whole part is the front a candidate lies on, and the fraction is the smaller the
    more room it has on its front (NSGA-II, crowded comparison).
    """
    if values.ndim == 1 or values.shape[1] == 1:
        return np.asarray(values.reshape(-1), np.float64)
    order = np.zeros(len(values))
    for number, rows in enumerate(fronts(values)):
        order[rows] = number + 0.5 / (1 + crowding(values[rows]))
    return order


def fronts(values: Values) -> list[Rows]:
    """Rows by front: those that no row dominates, then those that only these dominate, and so on.

    A row dominates another if it is nowhere worse and somewhere better.
    """
    finite = np.where(np.isfinite(values), values, np.finfo(np.float64).max)
    nowhere_worse = (finite[:, None] <= finite[None]).all(-1)
    somewhere_better = (finite[:, None] < finite[None]).any(-1)
    dominates = np.asarray(nowhere_worse & somewhere_better)
    left = np.arange(len(values))
    by_front = []
    while len(left):
        free = ~dominates[np.ix_(left, left)].any(0)
        by_front.append(left[free])
        left = left[~free]
    return by_front


def crowding(values: Values) -> Losses:
    """Room around each row of one front: the sides of the box its neighbors span, ``[n]``.

    Objectives are scaled to their range on the front; rows at an end have infinite room.
    """
    room = np.zeros(len(values))
    for column in np.where(np.isfinite(values), values, np.finfo(np.float32).max).T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        span = ordered[-1] - ordered[0]
        room[order[[0, -1]]] = np.inf
        if span > 0:
            room[order[1:-1]] += (ordered[2:] - ordered[:-2]) / span
    return room


class Evolution(Seeded):
    """A population that keeps the best of parents and children.

    ``initial`` candidates are asked first, for a warm start, then random ones until the population
    has its ``size`` |P|, then children. What is told competes with the population for its places.
    A candidate that is told again takes its new loss.
    """

    def __init__(
        self,
        space: SearchSpace,
        size: int,
        rng: Generator,
        variation: Variation = DEFAULT,
        initial: Candidates = (),
    ) -> None:
        if size < 1:
            raise SearchError(f"a population needs at least one candidate, not {size}")
        super().__init__(space, rng)
        self.size = size
        self.variation = variation
        self.population = space.stack([])
        self.losses: Losses = np.zeros(0)
        self._queue = space.checked(initial)

    def ask(self, n: int = 1) -> Candidates:
        """Initial candidates, then random ones until the population is full, then children."""
        space = self.space
        queued, self._queue = self._queue[:n], self._queue[n:]
        missing = n - len(queued)
        if len(self.population) >= self.size:
            parents = (self.population, self.losses)
            more = offspring(space, *parents, missing, self._rng, self.variation)
        else:
            taken = {*space.keys(queued), *space.keys(self.population)}
            fresh = []
            for _ in range(missing):
                fresh.append(space.fresh(taken, self._rng))
                taken.add(space.key(fresh[-1]))
            more = space.stack(fresh)
        return space.candidates(np.concatenate([queued, more]))

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """Let the candidates compete with the population."""
        rivals = self.space.checked(candidates)
        fresh = as_losses(losses, len(rivals))
        again = set(self.space.keys(rivals))
        kept = [key not in again for key in self.space.keys(self.population)]
        population = np.concatenate([self.population[kept], rivals])
        all_losses = np.concatenate([self.losses[kept], fresh])
        best = survivors(self.space, population, all_losses, self.size)
        self.population, self.losses = population[best], all_losses[best]

    def _memory(self) -> State:
        return {
            "population": self.space.candidates(self.population),
            "losses": self.losses,
            "queue": self.space.candidates(self._queue),
        }

    def _remember(self, state: State) -> None:
        population, queue = (self.space.checked(state[key]) for key in ("population", "queue"))
        losses = as_losses(state["losses"], len(population))
        self.population, self.losses, self._queue = population, losses, queue
