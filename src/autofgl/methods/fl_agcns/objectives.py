"""What a search minimises: a validation figure, alone or together with a network's size and time.

Parameters and latency are sums over a network's parts. A table ``[1 + types]`` holds the share of
input and output stage, and what one layer of each type adds; with it anyone can tell the cost of a
code without building its network.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import genotypes
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.features import InputFeatures
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.space import Space
from autofgl.nn.structure import Structure
from autofgl.runtime.local_model import median_seconds
from autofgl.runtime.trials import fitness

#: A cost of ``[1 + types]``: both ends of a network, then one layer of each type.
Table = Any


def objective_values(
    names: Sequence[str], losses: Any, accuracies: Any, costs: Mapping[str, Any]
) -> Any:
    """Values of codes, ``[n]`` for one objective and ``[n, k]`` for several.

    ``names`` has the validation objective, then those of ``costs`` that count; figures and costs
    are ``[n]``.
    """
    first = fitness(losses, accuracies, names[0])
    if len(names) == 1:
        return first
    return np.column_stack([first, *(costs[name] for name in names[1:])])


def cost_of(table: Table, space: Space, codes: Any) -> Any:
    """A cost of each code, ``[n]``."""
    counts = np.zeros((len(codes), len(space.types)))
    for row, genotype in enumerate(genotypes(space, codes)):
        for layer in genotype.existing:
            counts[row, space.types.index(layer.type)] += 1
    return table[0] + counts @ np.asarray(table[1:])


def parameter_table(space: Space, graph: ClientGraph, settings: Any) -> Table:
    """Number of parameters."""
    ends = settings.hidden * (graph.num_features + graph.classes)
    ends += settings.hidden + graph.classes
    kinds = [CONVOLUTIONS[kind].make(settings.hidden) for kind in space.types]
    sizes = [sum(value.numel() for value in kind.parameters()) for kind in kinds]
    return np.array([ends, *sizes], np.float64)


@torch.no_grad()
def latency_table(space: Space, graph: ClientGraph, settings: Any) -> Table:
    """Milliseconds of one pass over a client's graph, as measured here and now."""
    features, structure = InputFeatures.from_client(graph.x), Structure.from_client(graph)
    first = Linear(graph.num_features, settings.hidden)
    last = Linear(settings.hidden, graph.classes)
    hidden = first(features)
    runs: list[Callable[[], object]] = [lambda: last(first(features))]
    for kind in space.types:
        convolution = CONVOLUTIONS[kind].make(settings.hidden).eval()
        runs.append(partial(convolution, hidden, structure, None))
    times = []
    for run in runs:
        run()  # the first call does not count
        times.append(1000 * median_seconds(run))
    return np.array(times)
