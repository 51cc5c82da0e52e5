"""A client's search for its own configuration (Rezaei et al., 2024, sections 3.1 and 3.2).

A chromosome is judged by a trial: the network is cut out of the global blocks, trained for a round
as the client would train it, adapted to the client's labeled nodes, and evaluated on its validation
nodes. The paper evaluates on local test data; here test nodes are never looked at.

What is evaluated is not the trained network itself but one on the way to it, as an average would be
(:func:`weight_left`). When trained networks were judged alone, chromosomes won that hardly trained,
and the federation ceased to learn (docs/results/graphfl-ga.md).

A trial computes nothing for nodes that are neither judged nor trained on nor near them, and the
best one's trained network is kept, so that nothing is trained twice. The outer optimizer goes on
with the moments that the client's training left for a network of that shape.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Arrays, Configurations, take
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.vicinity import judge, reach, vicinity, without_test
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.local_model import Weights
from autofgl.runtime.specs import family_spec
from autofgl.runtime.state import restore_state
from autofgl.search.genetic import Genetic, RandomChromosomes
from autofgl.search.space import Chromosome
from autofgl.seeding import numpy_generator
from autofgl.sharing.meta.model import MetaModel
from autofgl.tasks.losses import NodeLoss

#: Loss counts so much less than accuracy: it only decides between equals.
_TIE = 1e-4
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


class Configurator:
    """Searches on one client's graph, from round to round with the same population."""

    def __init__(self, graph: ClientGraph, settings: GraphFLGASettings, seed: int) -> None:
        self.space = Configurations(family_spec(graph, settings), settings)
        self._settings = settings
        self._seed = seed
        self._graph = without_test(graph, settings, seed)
        self._vicinities: dict[int, tuple[Inputs, Inputs]] = {}
        self._searcher: Genetic | None = None
        self._moments: dict[str, Payload] = {}
        #: What trials minimize; with weights of the classes once they are known.
        self.loss = NodeLoss.of(settings)

    @property
    def possible(self) -> bool:
        """Whether there is anything to train on and to judge by."""
        return bool(self._graph.train_mask.any() and self._graph.val_mask.any())

    def evolve(
        self,
        at: int,
        blocks: Arrays,
        weights: Sequence[float],
        given_up: Callable[[], bool] = lambda: False,
    ) -> Winner:
        """Search from the last population, with the global blocks of a round; see :func:`shift`.

        An AutoFGLError says that no chromosome leads to a finite network, or that ``given_up`` is
        true.
        """
        start = time.perf_counter()
        searcher = self._renewed()
        best: tuple[float, Payload] = (math.inf, {})
        trials = 0
        for _ in range(self._settings.iterations):
            asked = searcher.ask()
            losses = []
            for chromosome in asked:
                if given_up():
                    raise AutoFGLError(f"{self._graph.name}: the search was given up")
                expected = self.expected(chromosome, at)
                weight = weights[self.space.index_of(expected)]
                loss, model = self.trial(expected, at, blocks, weight)
                if model is not None and loss < best[0]:
                    best = (loss, model.state())
                losses.append(loss)
            searcher.tell(asked, losses)
            trials += len(asked)
        chromosome, _ = searcher.best
        if not best[1]:
            raise AutoFGLError(f"{self._graph.name}: all configurations diverge: lower 'inner_lr'")
        winner = self.expected(chromosome, at)
        return Winner(winner, best[1], best[0], trials, time.perf_counter() - start)

    def expected(self, chromosome: Chromosome, at: int) -> Chromosome:
        """What a chromosome stands for in a round: at first its shape is the environment's.

        Otherwise clients leave a network that is not trained yet for one that adapts faster to
        their few labels, and all have to begin again (docs/results/graphfl-ga.md).
        """
        return chromosome if at > self._settings.structure_after else self._at_home(chromosome)

    def trial(
        self, chromosome: Chromosome, at: int, blocks: Arrays, weight: float
    ) -> tuple[float, MetaModel | None]:
        """Loss of a chromosome, and the network that it trained; none if that diverged."""
        begin = time.perf_counter()
        before = take(blocks, self.space.parts_of(chromosome))
        spec = self.space.spec_of(chromosome)
        taught, judged = self._vicinities_of(reach(spec))
        model = MetaModel(
            self._graph.name, taught, spec, self.space.settings_of(chromosome), self._seed, before
        )
        self.recall(chromosome, model)
        model.loss = self.loss
        try:
            model.learn(at)
            trained = model.weights()
            model.load_weights(shift(before, trained, weight))
            accuracy, loss = judge(model, judged, self._settings)
            model.load_weights(trained)
        except AutoFGLError:
            return math.inf, None
        value = -accuracy + _TIE * min(loss, 100.0) + self.penalty(chromosome)
        if self._settings.time_weight:
            value += self._settings.time_weight * (time.perf_counter() - begin)
        return value, model

    def penalty(self, chromosome: Chromosome) -> float:
        """What a network of another shape than the environment's must be better by.

        It leaves the blocks that the others train, and on n validation nodes chance alone may make
        it look better: the standard error of an accuracy is at most 1 / (2√n).
        """
        if self.space.shape_of(chromosome) == self.space.shape_of(self.space.environment):
            return 0.0
        return self._settings.structure_margin * 0.5 / math.sqrt(self._graph.val_mask.sum())

    def remember(self, chromosome: Chromosome, model: MetaModel) -> None:
        """Keep the moments of a network that was trained, for others of its shape."""
        self._moments[self._kind(chromosome)] = model.state()["optimizer"]

    def recall(self, chromosome: Chromosome, model: MetaModel) -> None:
        """Have a network's optimizer go on with moments that were kept, if there are any."""
        moments = self._moments.get(self._kind(chromosome))
        if moments is not None:
            restore_state(model, ("_optimizer",), {"optimizer": moments})

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
        return {"population": self.population_state(), "moments": self._moments}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.load_population_state(state["population"])
        self._moments = dict(state["moments"])

    def _kind(self, chromosome: Chromosome) -> str:
        """What moments are kept by."""
        family, layers, hidden = self.space.shape_of(chromosome)
        return f"{family}/{layers}/{hidden}/{self.space.full(chromosome)['optimizer']}"

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

    def _vicinities_of(self, hops: int) -> tuple[Inputs, Inputs]:
        if hops not in self._vicinities:
            graph, settings = self._graph, self._settings
            self._vicinities[hops] = (
                vicinity(graph, graph.train_mask, hops, settings),
                vicinity(graph, graph.val_mask, hops, settings),
            )
        return self._vicinities[hops]


def weights_by_shape(share: float, shares: Sequence[float], own: int) -> list[float]:
    """What an average of each shape would leave of a client's training, see :func:`weight_left`.

    ``shares`` are those of all that trained each shape in the last average, the client's in
    ``own``.
    """
    weights = []
    for index, of_shape in enumerate(shares):
        others = max(of_shape - share, 0.0) if index == own else of_shape
        weights.append(weight_left(share / (share + others)) if share else 0.0)
    return weights


def weight_left(share: float) -> float:
    """What of a client's training is left in an average in which it has this share of the weight.

    Of n equal clients that train on different nodes, what their steps have in common adds up, and
    what is peculiar to each averages out to 1/√n. A client cannot tell the two apart, and so all of
    its step counts as much as the peculiar part: √share.
    """
    return math.sqrt(min(max(share, 0.0), 1.0))


def shift(before: Weights, trained: Weights, weight: float) -> Weights:
    """A network on the way from its weights before training to those after, at ``weight`` of it."""
    return {name: value + weight * (trained[name] - value) for name, value in before.items()}


def distance(before: Weights, trained: Weights) -> float:
    """Euclidean length of a client's step, over all weights of its network; infinite or no number
    for weights that have diverged.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [np.sum(np.square(trained[name] - value)) for name, value in before.items()]
    return math.sqrt(sum(map(float, squares)))
