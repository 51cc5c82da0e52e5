"""A client's search for its own configuration (Rezaei et al., 2024, sections 3.1 and 3.2).

Chromosomes are judged by :mod:`autofgl.methods.graphfl.trials`. The best one's trained network is
where the client's training starts, as in the paper.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Configurations
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.trials import ChromosomeTrials, Situation
from autofgl.methods.graphfl.vicinity import without_test
from autofgl.runtime.specs import family_spec
from autofgl.search.genetic import Genetic, RandomChromosomes
from autofgl.search.space import Chromosome
from autofgl.seeding import numpy_generator

#: Genes that decide which entries a network holds.
_SHAPE = ("model", "layers", "hidden")
_SEARCHERS = {"genetic": Genetic, "random": RandomChromosomes}


@dataclass(frozen=True)
class Winner:
    """What a search comes to: the best chromosome, the state of its network after the trial, its
    loss.
    """

    chromosome: Chromosome
    trained: Payload
    loss: float
    trials: int
    seconds: float
    #: Loss of the federation's choice with each way of propagation; zeros if that was not tried.
    ways: list[float]


class Configurator:
    """Searches on one client's graph, from round to round with the same population."""

    def __init__(self, graph: ClientGraph, settings: GraphFLGASettings, seed: int) -> None:
        self.space = Configurations(family_spec(graph, settings), settings)
        self._settings = settings
        self._seed = seed
        self._graph = without_test(graph, settings, seed)
        self._searcher: Genetic | None = None
        self.trials = ChromosomeTrials(self._graph, settings, seed, self.space)
        #: Genes that all clients share, by vote.
        self.common: Chromosome = {}

    @property
    def possible(self) -> bool:
        """Whether there is anything to train on and to judge by."""
        return bool(self._graph.train_mask.any() and self._graph.val_mask.any())

    def evolve(self, now: Situation, given_up: Callable[[], bool] = lambda: False) -> Winner:
        """Search from the last population, with the global blocks of a round.

        An AutoFGLError says that no chromosome leads to a finite network, or that ``given_up`` is
        true.
        """
        start = time.perf_counter()
        trials, common = self.trials, self.expected(self._advised(now), now.at)
        trials.begin()
        ways = self._try_ways(common, now)
        searcher = self._renewed()
        for _ in range(self._settings.iterations):
            if given_up():
                raise AutoFGLError(f"{self._graph.name}: the search was given up")
            asked = searcher.ask()
            expected = [self.expected(one, now.at) for one in asked]
            searcher.tell(asked, trials.losses(expected, now, given_up))
        chromosome, loss = searcher.best
        winner = self.expected(chromosome, now.at)
        trained = trials.trained(winner, now) if math.isfinite(loss) else None
        if trained is None:
            raise AutoFGLError(f"{self._graph.name}: all configurations diverge: lower 'inner_lr'")
        seconds = time.perf_counter() - start
        return Winner(winner, trained, loss, trials.made, seconds, ways)

    def _try_ways(self, common: Chromosome, now: Situation) -> list[float]:
        """Losses of the federation's choice with each way of propagation, if all are tried at
        once.
        """
        ways = self.space.propagations
        if len(ways) < 2 or not self.trials.is_linear(common):
            return [0.0] * len(ways)
        variants = [{**common, "hops": hops, "teleport": teleport} for hops, teleport in ways]
        return self.trials.losses(variants, now)

    def _advised(self, now: Situation) -> Chromosome:
        """The federation's choice, at first the environment."""
        return self.space.full(now.advised or {})

    def expected(self, chromosome: Chromosome, at: int) -> Chromosome:
        """What a chromosome stands for in a round: with the genes that all clients share, and at
        first with the environment's shape.

        Otherwise clients leave a network that is not trained yet for one that adapts faster to
        their few labels, and all have to begin again (docs/results/graphfl-ga.md).
        """
        chromosome = {**chromosome, **self.common}
        return chromosome if at > self._settings.structure_after else self._at_home(chromosome)

    def population_state(self) -> Payload:
        """Population, and what the searcher knows."""
        return {} if self._searcher is None else self._searcher.state()

    def load_population_state(self, state: Payload) -> None:
        """Take up where :meth:`population_state` was taken."""
        self._searcher = self._fresh() if state else None
        if self._searcher is not None:
            self._searcher.load_state(state)

    def state(self) -> Payload:
        """Population and moments."""
        return {"population": self.population_state(), "moments": self.trials.state()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.load_population_state(state["population"])
        self.trials.load_state(state["moments"])

    def _renewed(self) -> Genetic:
        """The last population, to be measured again, since the global weights are others.

        Its best with the environment's network takes part in every search: a population that has
        left the blocks which the others train would find back by chance only.
        """
        if self._searcher is None:
            self._searcher = self._fresh()
            return self._searcher
        self._searcher.renew([self._at_home(self._searcher.best[0])])
        return self._searcher

    def _at_home(self, chromosome: Chromosome) -> Chromosome:
        """The same with the shape of the environment's network."""
        own = self.space.environment
        return {name: own[name] if name in _SHAPE else v for name, v in chromosome.items()}

    def _fresh(self) -> Genetic:
        settings, genes = self._settings, self.space.genes
        own = {gene.name: self.space.environment[gene.name] for gene in genes.genes}
        return _SEARCHERS[settings.searcher](
            genes,
            numpy_generator(self._seed, "configuration", self._graph.name),
            settings.population,
            settings.breeding,
            [own] if settings.environment else [],
        )
