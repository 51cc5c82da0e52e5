"""Labelled nodes that the server itself holds, kept from all clients, to judge weights by."""

import numpy as np
import torch

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.method import Weights
from autofgl.nn.features import InputFeatures
from autofgl.nn.models import ModelSpec
from autofgl.nn.models.gcn import GCN
from autofgl.nn.structure import Structure


class ServerTest:
    """A GCN on the server's own graph.

    Args:
        graph: The graph; all of its labelled nodes count.
        spec: The network.
        normalise: Whether features are scaled.
    """

    def __init__(self, graph: ClientGraph, spec: ModelSpec, normalise: bool) -> None:
        features = InputFeatures.from_client(graph.x)
        self._features = features.row_normalised() if normalise else features
        self._structure = Structure.from_client(graph)
        self._nodes = np.flatnonzero(graph.y >= 0)
        self._labels = torch.from_numpy(graph.y[self._nodes])
        self._model = GCN(spec).eval()

    @torch.no_grad()
    def accuracy(self, weights: Weights) -> float:
        """Share of the nodes that are classified right."""
        self._model.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
        chosen = self._model(self._features, self._structure)[self._nodes].argmax(1)
        return float((chosen == self._labels).double().mean())
