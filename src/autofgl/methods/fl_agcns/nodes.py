"""On which nodes a client's SuperNet learns, and on which its networks are compared.

Those are all training and all validation nodes, with everything that reaches them, unless there are
too many: then a step of the SuperNet takes a mini-batch with a sample of its neighborhood, and
codes are compared on a sample of the validation nodes, the same one all the time, so that they are
compared on equal terms. All networks of a step compute on one subgraph, however deep they are; what
lies farther away than it reaches is not heard (as in ShaDow-GNN, Zeng et al., 2021).

On average over the draws a mini-batch has the gradient of all training nodes, where the network
looks no farther than the subgraph reaches and adds up its neighbors. Sums over the sampled
validation nodes are multiplied by the number of nodes that each stands for, so that the sum over
clients weighs every client by its own number of nodes, whatever it samples.
"""

import warnings
from functools import cached_property

import numpy as np
import torch

from autofgl.errors import GraphNotice
from autofgl.graphs.client_graph import ClientGraph, Ints
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings
from autofgl.nn.sampling.subgraphs import SubgraphSampler
from autofgl.nn.supernet import ReceptiveField
from autofgl.nn.supernet.receptive_field import NodeLosses
from autofgl.runtime.batches import batch_at
from autofgl.runtime.client_data import ClientData
from autofgl.seeding import numpy_generator

#: Training nodes and neighbors of a step where nobody says: about 4,000 nodes with neighbors.
BATCH, FANOUTS = 128, (5, 5)
#: Numbers of the width that a layer holds for each node, in the mean over its types.
_HELD = 8
_FLOAT = 4
#: Bytes of a megabyte, the unit of ``search_memory``.
MEGABYTE = 1 << 20


def too_large(graph: ClientGraph, settings: FLAGCNSSettings) -> bool:
    """Whether one network of all layers on all nodes is too much for memory."""
    entries = graph.num_nodes * settings.hidden * settings.layers
    return entries * _HELD * _FLOAT > settings.search_memory * MEGABYTE


class SearchNodes:
    """The nodes of one client as its SuperNet gets to see them."""

    def __init__(self, data: ClientData, settings: FLAGCNSSettings) -> None:
        graph = data.graph
        inputs = data.inputs(settings.normalize_features)
        inputs = inputs.origin or inputs
        self._features, self._structure = inputs.features, inputs.structure
        self._labels = torch.from_numpy(graph.y.copy())
        self._train: Ints = np.flatnonzero(graph.train_mask)
        self._val: Ints = np.flatnonzero(graph.val_mask)
        self._name, self._seed, self._device = graph.name, data.seed, data.device
        self._steps = settings.weight_steps
        self._batch, self._fanouts = settings.batch, settings.fanouts(None)
        if not self._batch and too_large(graph, settings):
            self._batch, self._fanouts = BATCH, list(FANOUTS)
            self._tell(graph, settings)
        self._sample = settings.val_sample or 2 * self._batch
        self._loss: NodeLosses | None = None

    def _tell(self, graph: ClientGraph, settings: FLAGCNSSettings) -> None:
        fanout = ",".join(map(str, FANOUTS))
        warnings.warn(
            f"{graph.name}: {graph.num_nodes} nodes are too many for the SuperNet at once with "
            f"search_memory={settings.search_memory}: its steps take batch={BATCH} "
            f"fanout={fanout}, and codes are compared on {settings.val_sample or 2 * BATCH} "
            "validation nodes",
            GraphNotice,
            stacklevel=2,
        )

    @property
    def train_nodes(self) -> int:
        """Number of training nodes."""
        return len(self._train)

    @property
    def val_nodes(self) -> int:
        """Number of validation nodes."""
        return len(self._val)

    @property
    def val_weight(self) -> float:
        """How many validation nodes each of the measured ones stands for."""
        return self.val_nodes / max(self.val_field.measured, 1)

    def weigh(self, loss: NodeLosses) -> None:
        """Measure networks by a loss."""
        self._loss = self.val_field.node_loss = loss

    def train_field(self, generation: int, step: int) -> ReceptiveField:
        """Training nodes of a step, with what reaches them."""
        if self._batch and self.train_nodes:
            at = (generation - 1) * self._steps + step + 1
            name = f"supernet-{self._name}"
            chosen = batch_at(self.train_nodes, self._batch, at, self._seed, name)
            rng = numpy_generator(self._seed, "supernet-neighbors", self._name, generation, step)
            field = self._drawn(self._train[chosen], rng)
        else:
            field = self._whole_train
        if self._loss is not None:
            field.node_loss = self._loss
        return field

    @cached_property
    def val_field(self) -> ReceptiveField:
        """The validation nodes that codes are compared on, with what reaches them."""
        rng = numpy_generator(self._seed, "val-sample", self._name)
        nodes = self._val
        if self._sample and self._sample < len(nodes):
            nodes = np.sort(rng.choice(nodes, self._sample, replace=False))
        return self._drawn(nodes, rng) if self._batch and len(nodes) else self._around(nodes)

    @cached_property
    def _whole_train(self) -> ReceptiveField:
        return self._around(self._train)

    @cached_property
    def _sampler(self) -> SubgraphSampler:
        return SubgraphSampler(self._structure, self._fanouts)

    def _drawn(self, nodes: Ints, rng: np.random.Generator) -> ReceptiveField:
        drawn = self._sampler.draw(nodes, rng)
        return ReceptiveField.around(self._features, self._labels, drawn, self._device)

    def _around(self, nodes: Ints) -> ReceptiveField:
        parts = [torch.from_numpy(nodes)]
        return ReceptiveField(self._features, self._structure, self._labels, parts, self._device)
