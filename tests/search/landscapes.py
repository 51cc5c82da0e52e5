"""Search problems whose optimum is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autofgl.search.baselines import RandomSearch
from autofgl.search.feo import Memo, client_step, evolve, gamma, next_population, quotas
from autofgl.search.genes import Categorical, Float, Integer, LogFloat, Ordinal
from autofgl.search.searcher import Losses, Searcher
from autofgl.search.space import Chromosome, Codes, Population, SearchSpace

Loss = Callable[[Population], Losses]


@dataclass(frozen=True)
class Landscape:
    """A table with the loss of every code."""

    codes: Codes
    table: Losses

    @property
    def optimum(self) -> float:
        return float(self.table.min())

    def __call__(self, population: Population) -> Losses:
        return np.asarray(self.table[tuple(population.T)])


def chain(seed: int, cardinalities: tuple[int, ...] = (5, 4, 4, 4, 4, 4, 4, 5)) -> Landscape:
    """102,400 codes; every gene acts together with the next one, the last with the first.

    The optimum is one code, and a random code has a loss near 1.
    """
    rng = np.random.default_rng([1, seed])
    genes = np.indices(cardinalities)
    pairs = zip(range(len(genes)), np.roll(range(len(genes)), -1), strict=True)
    parts = [rng.random((cardinalities[a], cardinalities[b]))[genes[a], genes[b]] for a, b in pairs]
    return Landscape(Codes(cardinalities), 2 * np.mean(parts, axis=0))


def lowest_loss(searcher: Searcher, loss: Loss, budget: int, batch: int = 20) -> float:
    """Lowest loss among the first ``budget`` codes."""
    best = np.inf
    for _ in range(budget // batch):
        codes = searcher.ask(batch)
        losses = loss(codes)
        searcher.tell(codes, losses)
        best = min(best, losses.min())
    return float(best)


@dataclass(frozen=True)
class Federation:
    """Clients with losses of their own, and the lowest weighted mean that any code has."""

    codes: Codes
    losses: Sequence[Loss]
    val_counts: tuple[int, ...]
    optimum: float


def disagreeing_clients(seed: int, choices: int = 4) -> Federation:
    """Three clients, 12 genes: three decisive ones for each client, three that all argue about.

    *Decisive genes*, a deceptive trap. One combination is right and has loss 0. Short of it, the
    loss falls with the number of genes at the value of a decoy, down to 0.3, so that selection
    leads away from the right combination. The client is indifferent to the others' decisive genes.

    *Common genes*: every client has a taste of its own, drawn at random, so that the optimum of the
    weighted mean is hardly ever a client's own.

    The parts share no gene, hence the optimum is: all traps right, and for every common gene the
    value with the lowest weighted taste.
    """
    rng = np.random.default_rng([2, seed])
    places = rng.permutation(12).reshape(4, 3)
    right = rng.integers(0, choices, 12)
    decoy = (right + rng.integers(1, choices, 12)) % choices
    tastes = 0.3 / 3 * rng.random((3, 3, choices))
    val_counts = (200, 150, 150)

    def client(i: int) -> Loss:
        own, common = places[i], places[3]

        def loss(population: Population) -> Losses:
            solved = np.all(population[:, own] == right[own], axis=1)
            decoyed = np.mean(population[:, own] == decoy[own], axis=1)
            taste = sum(tastes[i, g, population[:, gene]] for g, gene in enumerate(common))
            return np.asarray(np.where(solved, 0.0, 1 - 0.7 * decoyed) + taste)

        return loss

    mean_taste = np.tensordot(np.array(val_counts) / sum(val_counts), tastes, 1)
    optimum = float(mean_taste.min(axis=1).sum())
    return Federation(Codes((choices,) * 12), [client(i) for i in range(3)], val_counts, optimum)


class SimulatedSearch:
    """Algorithm 1 on a simulated federation, counting every loss that a client computes."""

    def __init__(self, federation: Federation, size: int, seed: int) -> None:
        self.federation = federation
        self.size = size
        self.best = np.inf
        self.generation = 0
        codes = federation.codes
        self._rng = np.random.default_rng([3, seed])
        self._client_rngs = [np.random.default_rng([4, seed, i]) for i in range(3)]
        self._clients = [Memo(codes, loss) for loss in federation.losses]
        self._population = RandomSearch(codes, self._rng).ask(size)
        self._own = [self._population] * len(self._clients)

    @property
    def evaluations(self) -> int:
        return sum(client.evaluated for client in self._clients)

    def run(self, budget: int, share: Callable[[int], float] = gamma) -> float:
        """How far the best code is from the optimum after ``budget`` losses."""
        while self.evaluations < budget:
            self.generation += 1
            self._step(share(self.generation))
        return float(self.best - self.federation.optimum)

    def _step(self, share: float) -> None:
        codes = self.federation.codes
        shared = evolve(codes, self._population, self._fll(self._population), self._rng)
        received = self._ask_clients(shared, share) if share else []
        fll = self._fll(shared)
        self._population = next_population(codes, received, shared, fll, self.size, self._rng)

    def _ask_clients(self, shared: Population, share: float) -> list[Population]:
        codes = self.federation.codes
        received = []
        places = quotas(self.size, share, self.federation.val_counts).clients
        for i, (client, rng) in enumerate(zip(self._clients, self._client_rngs, strict=True)):
            step = client_step(codes, self._own[i], shared, client, places[i], rng)
            self._own[i] = step.population
            received.append(step.best)
        return received

    def _fll(self, population: Population) -> Losses:
        counts = np.array(self.federation.val_counts)
        losses = np.stack([client(population) for client in self._clients])
        fll: Losses = counts @ losses / counts.sum()
        self.best = min(self.best, fll.min())
        return fll


@dataclass(frozen=True)
class MixedLandscape:
    """Losses over a space of mixed types; the optimum has loss 0.

    Attributes:
        space: The space.
        loss: Loss of a chromosome.
        goal: Losses up to here count as the optimum; below it lies no other valley.
    """

    space: SearchSpace
    loss: Callable[[Chromosome], float]
    goal: float


def _training(one: Chromosome) -> float:
    """A rate with a best magnitude, a depth that wants a rate of its own, a kind of network."""
    rate = np.log10(one["lr"]) + 2.5 + 0.2 * (one["layers"] - 2)
    kind = {"mean": 0.0, "max": 0.4, "sum": 0.8}[one["kind"]]
    return float(rate**2 + 0.2 * (one["layers"] - 2) ** 2 + kind)


def _two_clients(one: Chromosome) -> float:
    """The mean of two clients with different optima, as in the joint space of ASFGNN."""
    first = (one["a.dropout"] - 0.1) ** 2 * 8 + 0.15 * abs(one["a.layers"] - 4)
    second = (one["b.dropout"] - 0.4) ** 2 * 8 + 0.15 * abs(one["b.layers"] - 2)
    width = 0.1 * abs([64, 128, 256, 512].index(one["hidden"]) - 2)
    return float((first + second) / 2 + width)


def _switch(one: Chromosome) -> float:
    """Which half of a bent valley is the deeper one depends on a switch."""
    x, y = one["x"], one["y"]
    valley = (y - x**2) ** 2 + 0.05 * (x - 1) ** 2
    return float(valley + (0.0 if one["on"] else 0.5 + 0.3 * x**2))


MIXED = {
    "training": MixedLandscape(
        SearchSpace(
            (
                LogFloat("lr", 1e-5, 1.0),
                Integer("layers", 1, 6),
                Categorical("kind", ("sum", "max", "mean")),
            )
        ),
        _training,
        goal=0.05,
    ),
    "two clients": MixedLandscape(
        SearchSpace(
            (
                Float("a.dropout", 0.0, 0.7),
                Integer("a.layers", 1, 5),
                Float("b.dropout", 0.0, 0.7),
                Integer("b.layers", 1, 5),
                Ordinal("hidden", (64, 128, 256, 512)),
            )
        ),
        _two_clients,
        goal=0.05,
    ),
    "switch": MixedLandscape(
        SearchSpace(
            (Float("x", -2.0, 2.0), Float("y", -1.0, 3.0), Categorical("on", (False, True)))
        ),
        _switch,
        goal=0.01,
    ),
}


def evaluations_to_goal(searcher: Searcher, landscape: MixedLandscape, most: int) -> int:
    """Evaluations until the optimum is found; ``most`` if it is not."""
    for count in range(1, most + 1):
        [one] = searcher.ask()
        loss = landscape.loss(one)
        searcher.tell([one], [loss])
        if loss <= landscape.goal:
            return count
    return most
