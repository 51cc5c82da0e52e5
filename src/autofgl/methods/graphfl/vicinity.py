"""The parts of a client's graph that a trial computes on, and what it measures there."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autofgl.errors import AutoFGLError
from autofgl.graphs.client_graph import Bools, ClientGraph
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.details import objective_of
from autofgl.sharing.meta.model import MetaModel, unseen

#: Up to so many nodes dense matrices are faster.
_DENSE = 128


def vicinity(graph: ClientGraph, nodes: Bools, hops: int, settings: GraphFLGASettings) -> Inputs:
    """The nodes within ``hops`` of some, and one hop more, for the degrees of the farthest."""
    near = nodes.copy()
    source, target = graph.edge_index
    for _ in range(hops + 1):
        near[source[near[target]]] = True
    part = _induced(graph, near)
    return Inputs.of(part, settings.normalize_features, dense=part.num_nodes <= _DENSE)


@torch.no_grad()
def judge(model: MetaModel, inputs: Inputs, settings: GraphFLGASettings) -> tuple[float, float]:
    """Accuracy, or what is measured instead, and mean loss of the validation nodes, if finite."""
    ways = []
    if settings.fitness != "adapted":
        ways.append(model.outputs(inputs))
    if settings.fitness != "trained":
        ways.append(model.adapted_outputs(inputs))
    nodes, labels = inputs.nodes[1], inputs.labels[1]
    losses = [float(model.loss.mean(logits[nodes], labels)) for logits in ways]
    if not all(map(math.isfinite, losses)):
        raise AutoFGLError("the loss on validation nodes is not finite")
    right = [measure(settings, logits[nodes], labels) for logits in ways]
    return sum(right) / len(ways), sum(losses) / len(ways)


def measure(settings: GraphFLGASettings, logits: Tensor, labels: Tensor) -> float:
    """Accuracy, or its mean with how much less the loss is than that of guessing (1 for none);
    another objective stands in for the accuracy.
    """
    accuracy = float((logits.argmax(1) == labels).float().mean())
    accuracy = objective_of(settings, logits, labels, accuracy)
    if settings.measure == "accuracy":
        return accuracy
    skill = 1 - float(F.cross_entropy(logits, labels)) / math.log(max(logits.shape[1], 2))
    return (accuracy + skill) / 2


def reach(spec: ModelSpec) -> int:
    """Hops beyond which a node does not enter a network's output."""
    return spec.steps if spec.family in ("sgc", "appnp") else spec.layers


def without_test(graph: ClientGraph, settings: GraphFLGASettings, seed: int) -> ClientGraph:
    """The graph as a search may see it: no test nodes, and no labels that are not to be seen."""
    seen = ~np.isin(graph.y, unseen(graph.classes, settings.unseen_classes, seed))
    return replace(
        graph,
        y=np.where(seen & (graph.train_mask | graph.val_mask), graph.y, -1),
        train_mask=graph.train_mask & seen,
        val_mask=graph.val_mask & seen,
        test_mask=np.zeros_like(graph.test_mask),
    )


def _induced(graph: ClientGraph, keep: Bools) -> ClientGraph:
    place = np.cumsum(keep) - 1
    inside = keep[graph.edge_index].all(axis=0)
    rows = ("y", "train_mask", "val_mask", "test_mask", "node_id")
    return replace(
        graph,
        x=graph.x[np.flatnonzero(keep)],
        edge_index=place[graph.edge_index[:, inside]],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[inside],
        **{name: getattr(graph, name)[keep] for name in rows},
    )
