"""Mini-batches of a client's training nodes, each with a sample of its neighborhood.

The nodes are shuffled for every epoch and cut into batches. Order and neighbors depend on the run's
seed, the client and the round alone, so that a resumed run draws what an undisturbed one would.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from autofgl.graphs.client_graph import Ints
from autofgl.nn.features import InputFeatures
from autofgl.nn.sampling.subgraphs import ALL, SubgraphSampler
from autofgl.nn.structure import Structure
from autofgl.seeding import numpy_generator

#: Entries of a hidden layer that an evaluation may hold at once: beyond, it goes chunk by chunk.
MOST_ENTRIES = 1 << 26
#: Nodes of a chunk at first, and at least.
_CHUNK, _SMALLEST_CHUNK = 1 << 16, 1 << 8


@dataclass(frozen=True)
class Batch:
    """A small graph, and the labels of its first nodes, which are those to learn from; ``nodes``
    are their places in the whole graph.
    """

    features: InputFeatures
    structure: Structure
    labels: Tensor
    nodes: Tensor


class MiniBatches:
    """Cuts a client's training nodes into batches, drawn on the CPU and moved to a device."""

    def __init__(
        self,
        features: InputFeatures,
        structure: Structure,
        nodes: Tensor,
        labels: Tensor,
        size: int,
        fanouts: Sequence[int],
        device: torch.device,
    ) -> None:
        self._features = features
        self._labels = labels
        self._device = device
        self._nodes: Ints = nodes.numpy()
        self._size = size
        self._sampler = SubgraphSampler(structure, fanouts)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return -(-len(self._nodes) // self._size)

    def epoch(self, seed: int, *names: str | int) -> Iterator[Batch]:
        """All nodes, in batches."""
        rng = numpy_generator(seed, "batches", *names)
        for chosen in _cut(len(self._nodes), self._size, rng):
            yield self._batch(chosen, rng)

    def at(self, round_: int, seed: int, name: str) -> Batch:
        """One batch for a round: rounds go through an epoch's batches one by one."""
        chosen = batch_at(len(self._nodes), self._size, round_, seed, name)
        return self._batch(chosen, numpy_generator(seed, "neighbors", name, round_))

    def _batch(self, chosen: Ints, rng: np.random.Generator) -> Batch:
        part = self._sampler.draw(self._nodes[chosen], rng)
        features, labels = self._features.rows(part.nodes), self._labels[chosen]
        at = self._device
        nodes = torch.from_numpy(self._nodes[chosen])
        return Batch(features.to(at), part.structure.to(at), labels.to(at), nodes.to(at))


def batch_at(nodes: int, size: int, round_: int, seed: int, name: str) -> Ints:
    """Places of the nodes of a round's batch: rounds go through an epoch's batches one by one."""
    epoch, index = divmod(round_ - 1, -(-nodes // size))
    return _cut(nodes, size, numpy_generator(seed, "epoch", name, epoch))[index]


def _cut(nodes: int, size: int, rng: np.random.Generator) -> list[Ints]:
    order = rng.permutation(nodes)
    return [order[begin : begin + size] for begin in range(0, nodes, size)]


def outputs_in_chunks(
    model: nn.Module,
    features: InputFeatures,
    structure: Structure,
    hops: int,
    most: int,
    device: torch.device,
) -> Tensor:
    """A network's outputs for all nodes ``[n, classes]``, from as few at once as memory allows.

    Each chunk has the whole neighborhood of its nodes, so that the outputs are those of a pass over
    the whole graph. A chunk whose neighborhood has more than ``most`` nodes is halved.
    """
    sampler = SubgraphSampler(structure, [ALL] * hops)
    outputs, begin, size = [], 0, _CHUNK
    while begin < structure.num_nodes:
        asked = np.arange(begin, min(begin + size, structure.num_nodes))
        part = sampler.draw(asked)
        if len(part.nodes) > most and size > _SMALLEST_CHUNK:
            size //= 2
            continue
        rows = features.rows(part.nodes).to(device)
        outputs.append(model(rows, part.structure.to(device))[: len(asked)])
        begin += size
    return torch.cat(outputs)
