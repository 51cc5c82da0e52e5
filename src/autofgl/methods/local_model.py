"""A network on one client's graph: local epochs, gradients, evaluation, state."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.methods.method import Weights
from autofgl.methods.metrics import SPLITS, Sums
from autofgl.methods.optimiser_state import load_optimiser_state, optimiser_state
from autofgl.methods.settings import TrainSettings
from autofgl.nn.features import InputFeatures
from autofgl.nn.networks import NetworkSpec, build_network, empty_network
from autofgl.nn.structure import DenseStructure, Structure
from autofgl.seeding import torch_generator


@dataclass(frozen=True)
class Inputs:
    """Everything precomputed about a graph.

    Attributes:
        features: Node features.
        structure: Edges.
        nodes: Training, validation and test nodes.
        labels: Their labels.
    """

    features: InputFeatures
    structure: Structure
    nodes: Sequence[Tensor]
    labels: Sequence[Tensor]

    @classmethod
    def of(cls, graph: ClientGraph, normalize_features: bool, dense: bool = False) -> "Inputs":
        """Those of a client's graph; ``dense`` pays off if it is tiny."""
        features = InputFeatures.from_client(to_dense(graph.x) if dense else graph.x)
        if normalize_features:
            features = features.row_normalised()
        structure = (DenseStructure if dense else Structure).from_client(graph)
        masks = (graph.train_mask, graph.val_mask, graph.test_mask)
        nodes = [torch.from_numpy(np.flatnonzero(mask)) for mask in masks]
        labels = torch.from_numpy(graph.y)
        return cls(features, structure, nodes, [labels[each] for each in nodes])


class LocalModel:
    """The network, its optimiser and everything precomputed about the graph.

    Chance enters in two places, both by name: the initial weights are the same for every client of
    a run, and dropout depends on client and round only, so that a resumed run draws what an
    undisturbed one would have drawn.

    Args:
        graph: The client's graph.
        spec: The network.
        settings: How it is trained.
        seed: Root of all chance.
        inputs: Those of the graph, if they are there already.
        weights: Where to begin; drawn if there are none.
    """

    def __init__(
        self,
        graph: ClientGraph,
        spec: NetworkSpec,
        settings: TrainSettings,
        seed: int,
        *,
        inputs: Inputs | None = None,
        weights: Weights | None = None,
    ) -> None:
        self.name = graph.name
        self._seed = seed
        inputs = inputs or Inputs.of(graph, settings.normalize_features)
        self._features, self._structure = inputs.features, inputs.structure
        self._nodes, self._labels = inputs.nodes, inputs.labels
        if weights is None:
            self.begin(spec, settings)
        else:
            self._take(empty_network(spec), spec, settings)
            self.load_weights(weights)

    def begin(self, spec: NetworkSpec, settings: TrainSettings) -> None:
        """Begin with a network at its initial weights; the features stay scaled as they are."""
        self._take(build_network(spec, torch_generator(self._seed, "weights")), spec, settings)

    def _take(self, model: nn.Module, spec: NetworkSpec, settings: TrainSettings) -> None:
        self.spec = spec
        self.settings = settings
        self.model = model
        self._optimiser = torch.optim.Adam(
            self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
        )

    @property
    def train_nodes(self) -> int:
        """Number of labelled training nodes."""
        return len(self._nodes[0])

    def dropout_generator(self, at: int, again: int = 0) -> torch.Generator:
        """The source of this client's dropout in a round, the first time and ``again``."""
        names = [at, again] if again else [at]
        return torch_generator(self._seed, "dropout", self.name, *names)

    def train(self, epochs: int, at: int) -> None:
        """Local full-batch epochs. A client without training nodes leaves its weights alone."""
        generator = self.dropout_generator(at)
        for _ in range(epochs if self.train_nodes else 0):
            self._backward(generator)
            self._optimiser.step()

    def gradient(self, at: int) -> Weights:
        """Gradient of the mean training loss at the present weights; zero without such nodes."""
        if self.train_nodes:
            self._backward(self.dropout_generator(at))
        else:
            self._optimiser.zero_grad(set_to_none=False)
        return {name: _gradient_of(parameter) for name, parameter in self.model.named_parameters()}

    def apply(self, gradient: Weights) -> None:
        """One optimiser step along a given gradient."""
        for name, parameter in self.model.named_parameters():
            parameter.grad = torch.from_numpy(gradient[name].astype(np.float32))
        self._optimiser.step()

    def evaluate(self) -> Sums:
        """Loss sum, correct predictions and count on each mask, ``[9]``.

        Raises:
            AutoFGLError: Training has diverged.
        """
        logits = self.logits()
        sums = np.zeros((len(SPLITS), 3))
        for row, nodes, labels in zip(sums, self._nodes, self._labels, strict=True):
            if len(nodes):
                chosen = logits[nodes]
                row[0] = float(F.cross_entropy(chosen, labels, reduction="sum"))
                row[1] = int((chosen.argmax(1) == labels).sum())
                row[2] = len(nodes)
        if not np.isfinite(sums).all():
            raise AutoFGLError(f"the loss of {self.name} is not finite any more: lower 'lr'")
        return sums.reshape(-1)

    @torch.no_grad()
    def logits(self) -> Tensor:
        """Outputs for all own nodes, without dropout, ``[n, classes]``."""
        self.model.eval()
        output: Tensor = self.model(self._features, self._structure)
        return output

    def inference_seconds(self, repeats: int = 5) -> float:
        """Median time of one pass over all own nodes."""
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.logits()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def weights(self) -> Weights:
        """A copy of the network's weights."""
        return {name: _copy(value) for name, value in self.model.state_dict().items()}

    def load_weights(self, weights: Weights) -> None:
        """Overwrite the network's weights."""
        with torch.no_grad():
            for name, parameter in self.model.state_dict().items():
                parameter.copy_(torch.from_numpy(weights[name].astype(np.float32)))

    def state(self) -> Payload:
        """Weights and the optimiser's moments."""
        return {"weights": self.weights(), "moments": optimiser_state(self._optimiser)}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.load_weights(state["weights"])
        self.load_moments(state["moments"])

    def load_moments(self, moments: Payload) -> None:
        """Have the optimiser go on with the moments of a state."""
        load_optimiser_state(self._optimiser, moments)

    def _backward(self, generator: torch.Generator) -> None:
        self.model.train()
        self._optimiser.zero_grad()
        logits = self.model(self._features, self._structure, generator)
        loss = F.cross_entropy(logits[self._nodes[0]], self._labels[0])
        loss.backward()  # type: ignore[no-untyped-call]


def _gradient_of(parameter: Tensor) -> Any:
    if parameter.grad is None:
        return np.zeros(parameter.shape, np.float32)
    return _copy(parameter.grad)


def _copy(tensor: Tensor) -> Any:
    return tensor.detach().numpy().copy()
