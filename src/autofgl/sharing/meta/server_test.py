"""The test phase at the server (GraphFL, section 4): the global model adapts to a few labels.

The papers test the global model on the server, which has nodes of its own: a few of each class to
adapt to, the others to be tested on. A client's test phase is another question: how well the model
adapts to that client.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autofgl.errors import UserError
from autofgl.graphs.client_graph import Bools, ClientGraph
from autofgl.nn.models.spec import NetworkSpec
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import Metrics
from autofgl.seeding import numpy_generator
from autofgl.sharing.meta.model import MetaModel

#: What the server's name is, where it trains like a client.
SERVER = "server"


@dataclass(frozen=True)
class AdaptedTest:
    """Figures of a model on the server's nodes: after adaptation, and without."""

    adapted_to: int  #: labeled nodes that it adapted to
    nodes: int  #: all other labeled nodes
    test_accuracy: float
    unadapted_test_accuracy: float


def server_test(
    graph: ClientGraph, spec: NetworkSpec, weights: Weights, settings: Any, seed: int
) -> AdaptedTest:
    """Adapt a model to ``server_labels`` nodes of each class, and test it on all others.

    Raises:
        UserError: The server has too few labeled nodes for that.
    """
    few = few_labels(graph, settings.server_labels, seed)
    rest = (graph.y >= 0) & ~few
    if not (few.any() and rest.any()):
        raise UserError(
            f"the server's graph has {int((graph.y >= 0).sum())} labeled nodes, too few to adapt "
            f"to server_labels={settings.server_labels} of each class and to test on others: give "
            "it more"
        )
    split = replace(graph, name=SERVER).with_masks(few, np.zeros_like(few), rest)
    scaling = settings.normalize_features
    local = MetaModel(SERVER, Inputs.of(split, scaling), spec, settings, seed, weights)
    adapted, unadapted = local.evaluate_adapted(), local.evaluate()
    accuracies = (Metrics.of(sums).test_accuracy for sums in (adapted, unadapted))
    return AdaptedTest(int(few.sum()), int(rest.sum()), *accuracies)


def few_labels(graph: ClientGraph, count: int, seed: int) -> Bools:
    """So many random nodes of each class, or all that there are."""
    chosen = np.zeros(graph.num_nodes, np.bool_)
    rng = numpy_generator(seed, "server labels")
    for label in range(graph.classes):
        nodes = np.flatnonzero(graph.y == label)
        chosen[rng.permutation(nodes)[:count]] = True
    return chosen
