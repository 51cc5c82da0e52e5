"""What networks need of a client's graph, laid out once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autofgl.graphs.client_graph import Bools, ClientGraph, to_dense
from autofgl.nn.cross_client import ClientOperators
from autofgl.nn.features import InputFeatures, Scaling
from autofgl.nn.structure import DenseStructure, Structure


@dataclass(frozen=True)
class Inputs:
    """Everything precomputed about a graph; nodes and labels are by mask."""

    features: InputFeatures
    structure: Structure
    nodes: Sequence[Tensor]
    labels: Sequence[Tensor]
    origin: "Inputs | None" = None  # what was moved here

    @classmethod
    def of(
        cls,
        graph: ClientGraph,
        scaling: Scaling,
        dense: bool = False,
        like: "Inputs | None" = None,
    ) -> "Inputs":
        """Those of a client's graph; ``dense`` pays off if it is tiny. All but the features may be
        that of inputs with another scaling.
        """
        features = input_features(graph, scaling, dense)
        if like is not None:
            return replace(like.origin or like, features=features)
        structure = (DenseStructure if dense else Structure).from_client(graph)
        nodes = [torch.from_numpy(np.flatnonzero(mask)) for mask in masks_of(graph)]
        labels = torch.from_numpy(graph.y)
        return cls(features, structure, nodes, [labels[each] for each in nodes])

    def to(self, device: torch.device) -> "Inputs":
        """The same on a device; they know where they come from."""
        if device == self.features.device:
            return self
        features, structure = self.features.to(device), self.structure.to(device)
        nodes, labels = ([one.to(device) for one in many] for many in (self.nodes, self.labels))
        return Inputs(features, structure, nodes, labels, origin=self)

    def without_test(self) -> "Inputs":
        """The same, but for the test nodes."""
        nothing = self.nodes[2][:0]
        return replace(self, nodes=[*self.nodes[:2], nothing], labels=[*self.labels[:2], nothing])


def masks_of(graph: ClientGraph) -> tuple[Bools, Bools, Bools]:
    """Training, validation and test mask."""
    return graph.train_mask, graph.val_mask, graph.test_mask


def label_counts(graph: ClientGraph) -> npt.NDArray[np.float64]:
    """Number of training nodes of each class, ``[C]``."""
    labels = graph.y[graph.train_mask]
    return np.bincount(labels, minlength=graph.classes).astype(np.float64)


def input_features(graph: ClientGraph, scaling: Scaling, dense: bool = False) -> InputFeatures:
    """A graph's features as networks take them."""
    return InputFeatures.from_client(to_dense(graph.x) if dense else graph.x).scaled(scaling)


class ClientData:
    """A client's graph, the run's seed, and what networks need of the graph, laid out once and
    moved to the device that they compute on.
    """

    def __init__(self, graph: ClientGraph, seed: int, device: torch.device | None = None) -> None:
        self.graph = graph
        self.seed = seed
        self.device = device or torch.device("cpu")
        self._inputs: dict[Scaling, Inputs] = {}

    def inputs(self, scaling: Scaling) -> Inputs:
        """The graph's inputs with features scaled in a way; all ways share the structure."""
        if scaling not in self._inputs:
            inputs = Inputs.of(self.graph, scaling, like=next(iter(self._inputs.values()), None))
            self._inputs[scaling] = inputs.to(self.device)
        return self._inputs[scaling]

    @cached_property
    def operators(self) -> ClientOperators:
        """Operators that reach the ends of cross-client edges."""
        return ClientOperators(self.graph)

    def counts(self) -> npt.NDArray[np.float64]:
        """Number of training, validation and test nodes, ``[3]``."""
        return np.array([mask.sum() for mask in masks_of(self.graph)], np.float64)

    def label_counts(self) -> npt.NDArray[np.float64]:
        """Number of training nodes of each class, ``[C]``."""
        return label_counts(self.graph)
