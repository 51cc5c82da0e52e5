"""Which networks FL-AGCNS tries on their own after the search: those it found, then their children.

Shared weights tell which layers are good, but little of the activations at both ends: a relu at the
output, say, costs a SuperNet nothing and kills many networks that are trained from scratch. So only
half of the first networks are as they were found, and the others have the same layers between
drawn activations.
"""

import math
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.methods.fl_agcns_client import variation
from autofgl.methods.search_settings import SearchSettings
from autofgl.methods.search_space import make_codes, make_space
from autofgl.nn.space import Genotype, Space
from autofgl.search import Evolution
from autofgl.seeding import numpy_generator

#: How often another code is asked for if its network was tried before.
TRIES = 20


class Refinement:
    """Evolution of networks with weights of their own.

    Args:
        found: The search's networks as text, best first.
        settings: How many trials there are, and how children come about.
        seed: Root seed.
    """

    def __init__(self, found: list[str], settings: SearchSettings, seed: int) -> None:
        self._space = make_space(settings)
        rng = numpy_generator(seed, "trials")
        networks = [self._space.parse(code) for code in found]
        first = first_networks(self._space, networks, math.ceil(settings.trials / 3), rng)
        codes = [self._space.encode(network) for network in first]
        ways = variation(settings)
        self._evolution = Evolution(make_codes(self._space), len(codes), rng, ways, codes)
        self._code: Any = None

    def ask(self, tried: list[str]) -> str:
        """A network that was not tried, if one turns up soon."""
        shapes = {self._space.parse(code).shape() for code in tried}
        for _ in range(TRIES):
            self._code = self._evolution.ask(1)[0]
            network = self._space.decode(self._code)
            if network.shape() not in shapes:
                break
        return str(network)

    def tell(self, score: float) -> None:
        """What became of the last one."""
        self._evolution.tell([self._code], [score])

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {"evolution": self._evolution.state(), "code": self._code}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._evolution.load_state(state["evolution"])
        self._code = state["code"]


def first_networks(
    space: Space, found: list[Genotype], count: int, rng: np.random.Generator
) -> list[Genotype]:
    """Networks to begin with: the best with different layers, then these between other activations.

    A pair of activations comes back only after all pairs had their turn.
    """
    kinds: dict[Any, Genotype] = {}
    for network in found:
        kinds.setdefault(network.shape()[1], network)
    best = list(kinds.values())
    chosen = best[: math.ceil(count / 2)]
    ends = len(space.activations)
    inputs, outputs = rng.permutation(ends), rng.permutation(ends)
    for turn in range(count - len(chosen)):
        code = space.encode(best[turn % len(best)])
        code[0], code[-1] = inputs[turn % ends], outputs[(turn + turn // ends) % ends]
        chosen.append(space.decode(code))
    return chosen
