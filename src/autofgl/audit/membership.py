"""Membership inference: which nodes was the final model trained on?

Yeom et al., 2018, "Privacy Risk in Machine Learning": a node with a small loss was probably trained
on. The threshold is calibrated to each client, which is what the area under its curve measures.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.audit.verdict import Leak, graded
from autofgl.graphs.client_graph import ClientGraph

Floats = npt.NDArray[np.float64]


def membership_leak(losses: Mapping[str, Floats], graphs: Sequence[ClientGraph]) -> Leak:
    """How well the loss of each node, ``[n]`` by client, tells training nodes from test nodes."""
    areas = {}
    for graph in graphs:
        train, test = graph.train_mask & (graph.y >= 0), graph.test_mask & (graph.y >= 0)
        if graph.name in losses and train.any() and test.any():
            own = -losses[graph.name]
            areas[graph.name] = area_under_curve(own[train], own[test])
    attack = "membership by loss"
    if not areas:
        return Leak("curious peer", attack, "nothing", "no model leaves its client")
    mean, worst = float(np.mean(list(areas.values()))), max(areas, key=lambda name: areas[name])
    got = f"which nodes the final model was trained on; {worst}'s with AUC {areas[worst]:.2f}"
    return Leak("curious peer", attack, graded(mean, 0.5, 1.0), got, "mean AUC", mean, 0.5)


def model_losses(model: Any, graph: ClientGraph, scaling: Any) -> Floats:
    """The loss of every node with a label, by a network on ``(x, structure)``; 0 for the others."""
    import torch
    from torch.nn import functional

    from autofgl.nn.features import InputFeatures
    from autofgl.nn.structure import Structure

    features = InputFeatures.from_client(graph.x).scaled(scaling)
    with torch.no_grad():
        logits = model.eval()(features, Structure.from_client(graph))
        labels = torch.from_numpy(np.maximum(graph.y, 0))
        losses = functional.cross_entropy(logits, labels, reduction="none").double().numpy()
    return np.where(graph.y >= 0, losses, 0.0)


def area_under_curve(members: Floats, others: Floats) -> float:
    """Chance that a member has the higher score than another; ties count half."""
    both = np.concatenate([members, others])
    _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    above = ranks[: len(members)].sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(others)))
