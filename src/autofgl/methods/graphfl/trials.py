"""Trials of chromosomes on one client: what a search measures.

In a trial a network is cut out of the global blocks, trained for a round as the client would train
it, or for several (``horizon``), adapted to the client's labeled nodes, and evaluated on its
validation nodes. The paper evaluates on local test data; here test nodes are never looked at.

What is evaluated is not the trained network itself but one on the way to it, as an average would be
(:func:`~autofgl.methods.graphfl.steps.weight_left`). When trained networks were judged alone,
chromosomes won that hardly trained, and the federation ceased to learn
(docs/results/graphfl-ga.md).

What makes it fast: linear networks are tried all at once
(:mod:`autofgl.methods.graphfl.linear_trials`); others compute nothing for nodes that are neither
judged nor trained on nor near them, and are given up on the way if they are worse than half of the
others were there; and what means the same is tried once in a round. The outer optimizer goes on
with the moments that the client's training left for a network of that shape.
"""

import math
import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Arrays, Configurations, take
from autofgl.methods.graphfl.linear_trials import LinearTrials
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.steps import shift
from autofgl.methods.graphfl.vicinity import judge, reach, vicinity
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.local_model import Weights
from autofgl.runtime.state import restore_state
from autofgl.search.space import Chromosome
from autofgl.sharing.meta.model import MetaModel
from autofgl.tasks.losses import NodeLoss

#: Loss counts so much less than accuracy: it only decides between equals.
_TIE = 1e-4
#: Fewest trials that got as far before one is given up for being worse than half of them.
_FEWEST = 4


class Situation(NamedTuple):
    """What trials of a round depend on: its number, the global blocks, what an average leaves of a
    client's training by shape (:func:`~autofgl.methods.graphfl.steps.weights_by_shape`), and how
    the last average moved the blocks, if that is known; the federation's choice.
    """

    at: int
    blocks: Arrays
    weights: Sequence[float]
    drift: Arrays | None = None
    advised: Chromosome | None = None


class ChromosomeTrials:
    """Makes trials on a graph without test nodes; remembers those of the present situation."""

    def __init__(
        self, graph: ClientGraph, settings: GraphFLGASettings, seed: int, space: Configurations
    ) -> None:
        self._graph, self._settings, self._seed, self._space = graph, settings, seed, space
        self._vicinities: dict[int, tuple[Inputs, Inputs]] = {}
        self._linear = LinearTrials(graph, settings, seed)
        self._known: dict[Hashable, float] = {}
        self._scores: dict[int, list[float]] = {}
        self._best: tuple[float, Hashable, Payload] = (math.inf, None, {})
        self._moments: dict[str, Payload] = {}
        #: How many were made.
        self.made = 0
        #: What trials minimize; with weights of the classes once they are known.
        self.loss = NodeLoss.of(settings)

    def begin(self) -> None:
        """Forget the trials of another situation."""
        self._known, self._scores, self._best, self.made = {}, {}, (math.inf, None, {}), 0

    def losses(
        self,
        chromosomes: Sequence[Chromosome],
        now: Situation,
        given_up: Callable[[], bool] = lambda: False,
    ) -> list[float]:
        """Loss of each chromosome; what was tried before is not tried again."""
        keys = [self._key(one) for one in chromosomes]
        new = {
            key: one for key, one in zip(keys, chromosomes, strict=True) if key not in self._known
        }
        together = {key: one for key, one in new.items() if self.is_linear(one)}
        if together:
            losses = self.linear([*together.values()], now)
            self._known.update(zip(together, losses, strict=True))
        for key, one in new.items():
            if key in together:
                continue
            if given_up():
                raise AutoFGLError(f"{self._graph.name}: the search was given up")
            loss, model = self.trial(one, now)
            if model is not None and loss < self._best[0]:
                self._best = loss, key, model.state()
            self._known[key] = loss
        self.made += len(new)
        return [self._known[key] for key in keys]

    def linear(self, chromosomes: Sequence[Chromosome], now: Situation) -> list[float]:
        """Losses of linear networks, all at once."""
        space = self._space
        population = [(space.spec_of(one), space.settings_of(one)) for one in chromosomes]
        weight = now.weights[space.index_of(chromosomes[0])]
        pairs = self._linear.scores(
            population, now.at, now.blocks, weight, self.loss, drift=now.drift
        )
        return [
            self._value(one, score, loss) if math.isfinite(loss) else math.inf
            for one, (score, loss) in zip(chromosomes, pairs, strict=True)
        ]

    def trial(self, chromosome: Chromosome, now: Situation) -> tuple[float, MetaModel | None]:
        """Loss of a chromosome, and the network that a round trained; none if that diverged."""
        begin = time.perf_counter()
        try:
            score, loss, model = self._go(chromosome, now)
        except AutoFGLError:
            return math.inf, None
        value = self._value(chromosome, score, loss)
        if self._settings.time_weight:
            value += self._settings.time_weight * (time.perf_counter() - begin)
        return value, model

    def trained(self, chromosome: Chromosome, now: Situation) -> Payload | None:
        """State of a chromosome's network after a round; nothing if it diverges."""
        if self._best[1] == self._key(chromosome):
            return self._best[2]
        try:
            model = self._model(chromosome, now)
            model.learn(now.at)
        except AutoFGLError:
            return None
        return model.state()

    def penalty(self, chromosome: Chromosome) -> float:
        """What a network of another shape than the environment's must be better by.

        It leaves the blocks that the others train, and on n validation nodes chance alone may make
        it look better: the standard error of an accuracy is at most 1 / (2√n).
        """
        if self._space.shape_of(chromosome) == self._space.shape_of(self._space.environment):
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

    def state(self) -> Payload:
        """The moments."""
        return dict(self._moments)

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._moments = dict(state)

    def _go(self, chromosome: Chromosome, now: Situation) -> tuple[float, float, MetaModel]:
        """Score and loss after the rounds of the horizon, and the model as the first has left it.

        A network that is worse after one of them than half of the others were is judged there.
        """
        weight = now.weights[self._space.index_of(chromosome)]
        parts = self._space.parts_of(chromosome)
        drift = None if now.drift is None else take(now.drift, parts)
        model, last = self._model(chromosome, now), self._settings.horizon - 1
        _, judged = self._vicinities_of(chromosome)
        first: Payload = {}
        for again in range(last + 1):
            before = model.weights()
            model.learn(now.at, again)
            first = first or model.state()
            model.load_weights(_moved(before, model.weights(), weight, drift))
            score, loss = judge(model, judged, self._settings)
            others = self._scores.setdefault(again, [])
            hopeless = len(others) >= _FEWEST and score < statistics.median(others)
            others.append(score)
            if again == last or hopeless:
                break
        model.load_state(first)
        return score, loss, model

    def _value(self, chromosome: Chromosome, score: float, loss: float) -> float:
        return -score + _TIE * min(loss, 100.0) + self.penalty(chromosome)

    def _model(self, chromosome: Chromosome, now: Situation) -> MetaModel:
        """A chromosome's network with the weights of the blocks."""
        space = self._space
        before = take(now.blocks, space.parts_of(chromosome))
        taught, _ = self._vicinities_of(chromosome)
        spec, settings = space.spec_of(chromosome), space.settings_of(chromosome)
        model = MetaModel(self._graph.name, taught, spec, settings, self._seed, before)
        self.recall(chromosome, model)
        model.loss = self.loss
        return model

    def is_linear(self, chromosome: Chromosome) -> bool:
        """Whether it is tried together with others."""
        space = self._space
        spec, settings = space.spec_of(chromosome), space.settings_of(chromosome)
        return self._linear.suits(spec, settings, self.loss) and self._linear.possible

    def _key(self, chromosome: Chromosome) -> Hashable:
        """The same for all that mean the same."""
        return tuple(sorted(self._space.full(chromosome).items()))

    def _kind(self, chromosome: Chromosome) -> str:
        """What moments are kept by."""
        family, layers, hidden = self._space.shape_of(chromosome)
        return f"{family}/{layers}/{hidden}/{self._space.full(chromosome)['optimizer']}"

    def _vicinities_of(self, chromosome: Chromosome) -> tuple[Inputs, Inputs]:
        hops = reach(self._space.spec_of(chromosome))
        if hops not in self._vicinities:
            graph, settings = self._graph, self._settings
            self._vicinities[hops] = (
                vicinity(graph, graph.train_mask, hops, settings),
                vicinity(graph, graph.val_mask, hops, settings),
            )
        return self._vicinities[hops]


def _moved(before: Weights, trained: Weights, weight: float, drift: Weights | None) -> Weights:
    """A network as an average would leave it: on its way, and for the rest moved as all others."""
    moved = shift(before, trained, weight)
    if drift is None:
        return moved
    return {name: value + (1 - weight) * drift[name] for name, value in moved.items()}
