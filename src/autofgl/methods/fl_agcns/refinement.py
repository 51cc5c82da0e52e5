"""Which networks FL-AGCNS tries on their own after the search.

Shared weights tell which layers are good, but little of the activations at both ends: a relu at the
output, say, costs a SuperNet nothing and kills many networks that are trained from scratch. If all
of a population have it, their layers cannot be told apart. So activations come first, on a network
whose trial costs little, and each step starts from the best network so far:

1. the shallowest of the search's best networks,
2. the same with every other output activation,
3. the best so far with every other input activation,
4. the search's layers between the activations that have turned out best, shallow ones first,
5. if that has changed which network is best, its activations once more,
6. children of the best, by evolution, as long as there are trials left.
"""

import math
from collections.abc import Sequence
from typing import Any

from autofgl.methods.fl_agcns.client import variation
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_codes, make_space
from autofgl.nn.space import Genotype
from autofgl.runtime.state import Saved
from autofgl.runtime.trials import Trial
from autofgl.search.evolution import Evolution
from autofgl.seeding import numpy_generator

#: How often another child is asked for if its network had a trial before.
ATTEMPTS = 20
#: What is varied in the steps before the evolution.
STEPS = ("shallowest", "outputs", "inputs", "layers", "outputs", "inputs")
#: Kinds of layers that are looked at, even if there are few trials.
FEWEST = 6


class Refinement(Saved):
    """Proposes one network after the other, from the search's networks as text, best first."""

    saved = ("_step", "_queue", "_last", "_evolution")

    def __init__(self, searched: list[str], settings: FLAGCNSSettings, seed: int) -> None:
        self._space = make_space(settings)
        size = math.ceil(settings.trials / 3)
        count = max(size, FEWEST)
        kinds: dict[Any, Genotype] = {}  # the best network of each kind of layers, best first
        for network in map(self._space.parse, searched):
            kinds.setdefault(network.shape()[1], network)
        best = list(kinds.values())[:count]
        # A network without layers is not worth a trial before the others.
        self._kinds = sorted(best, key=lambda network: network.depth or math.inf)
        rng = numpy_generator(seed, "trials")
        self._evolution = Evolution(make_codes(self._space), size, rng, variation(settings))
        self._step = 0
        self._queue: list[str] = []
        self._last = ""

    def ask(self, over: Sequence[Trial], best: Trial | None) -> str:
        """A network that had no trial yet, if one turns up soon; ``best`` would be chosen now."""
        seen = {self._space.parse(one.candidate).shape() for one in over}
        self._last = self._planned(best, seen) or self._child(seen)
        return self._last

    def tell(self, score: float) -> None:
        """What became of the last one."""
        code = self._space.encode(self._space.parse(self._last))
        self._evolution.tell([code], [score])

    def _planned(self, best: Trial | None, seen: set[Any]) -> str:
        """The next network of the steps before the evolution; empty if there is none."""
        while self._queue or self._step < len(STEPS):
            if not self._queue:
                self._queue = [str(network) for network in self._plan(STEPS[self._step], best)]
                self._step += 1
            while self._queue:
                network = self._queue.pop(0)
                if self._space.parse(network).shape() not in seen:
                    return network
        return ""

    def _plan(self, step: str, best_trial: Trial | None) -> list[Genotype]:
        """The networks of a step, from the best so far."""
        if step == "shallowest":
            return self._kinds[:1]
        if best_trial is None:  # all diverged
            return self._kinds
        best = self._space.parse(best_trial.candidate)
        ends = self._space.activations
        if step == "outputs":
            return [Genotype(best.input, best.layers, output) for output in ends]
        if step == "inputs":
            return [Genotype(input_, best.layers, best.output) for input_ in ends]
        return [Genotype(best.input, kind.layers, best.output) for kind in self._kinds]

    def _child(self, seen: set[Any]) -> str:
        for _ in range(ATTEMPTS):
            network = self._space.decode(self._evolution.ask(1)[0])
            if network.shape() not in seen:
                break
        return str(network)
