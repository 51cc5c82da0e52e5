"""The search space as searchers see it: integer codes in place of genotypes."""

from typing import Any

import numpy as np

from autofgl.methods.search_settings import SpaceSettings
from autofgl.nn.space import Genotype, Space
from autofgl.search import Codes


def make_space(settings: SpaceSettings) -> Space:
    """A(L) of the settings' kinds of layers, and their probability of ending a random network."""
    return Space(settings.layers, settings.type_names, stop=settings.stop)


def make_codes(space: Space) -> Codes:
    """The space's codes; two that build the same SuperNet path are one."""
    return Codes(
        tuple(int(count) for count in space.cardinalities),
        canonical=lambda code: space.encode(space.canonical(space.decode(code))),
        sample=lambda rng: space.encode(space.random(rng)),
    )


def genotypes(space: Space, codes: Any) -> list[Genotype]:
    """The architectures of codes ``[n, genes]``."""
    return [space.decode(code) for code in np.asarray(codes)]
