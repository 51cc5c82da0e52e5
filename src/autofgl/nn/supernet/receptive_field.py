"""The part of a graph that reaches the measured nodes, and the structures that compute on it.

With the nodes ordered by their distance from the measured ones, all nodes within r hops are a
prefix, and what a layer needs of its input is a slice.

The structures for it are in :mod:`autofgl.nn.supernet.views`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from autofgl.nn.features import InputFeatures, NodeInput, SelectedRows
from autofgl.nn.kernels.operation import constants
from autofgl.nn.sampling.subgraphs import Subgraph
from autofgl.nn.structure import Structure
from autofgl.nn.supernet.views import PrefixStructure, StackedStructure

#: The loss of every node, ``[n]``, from scores ``[n, classes]`` and labels ``[n]``.
NodeLosses: TypeAlias = Callable[[Tensor, Tensor], Tensor]

#: A radius within which this share of all reachable nodes lies is taken for the largest.
_NEARLY_ALL = 0.85
#: More edges are listed once only.
_MANY_EDGES = 1 << 15
#: Fewer measured nodes are not halved.
_FEWEST = 16


class ReceptiveField:
    """Features, edges and labels around the nodes on which networks are measured.

    Build it once for each set of nodes (training, validation) and use it for all populations. The
    parts are sets of nodes, as indices; a node may be in several. It is laid out on the CPU, where
    its arguments are; networks compute on the device. ``node_loss`` gives the loss of every node
    from scores and labels: cross-entropy, unless somebody sets another.
    """

    def __init__(
        self,
        x: NodeInput,
        structure: Structure,
        labels: Tensor,
        parts: Sequence[Tensor],
        device: torch.device | None = None,
    ) -> None:
        self.device = device or structure.device
        self._x = x if isinstance(x, InputFeatures) else InputFeatures(x)
        self._origin: tuple[Structure, Tensor] | None = (structure, labels)
        with constants():
            self._nodes = torch.unique(torch.cat([part.long() for part in parts]))
            self._order, sizes = _by_distance(structure, self._nodes)
            self.labels = labels[self._nodes].to(self.device)
            places = [torch.searchsorted(self._nodes, part.long()) for part in parts]
            self.parts = [place.to(self.device) for place in places]
            self._sizes = _levels(sizes)
            self._structure = _reordered(structure, self._order)
        self._views: dict[tuple[int, int], Structure] = {}
        self.node_loss: NodeLosses = _cross_entropy

    @classmethod
    def around(
        cls,
        x: InputFeatures,
        labels: Tensor,
        drawn: Subgraph,
        device: torch.device | None = None,
    ) -> ReceptiveField:
        """The field of a subgraph's first nodes, which are those asked for: what they hear from
        farther away than it reaches is left out. Labels are those of the whole graph.
        """
        field = cls.__new__(cls)
        field.device = device or drawn.structure.device
        field._x, field._order, field._structure = x, drawn.nodes, drawn.structure
        asked = drawn.sizes[0]
        with constants():
            field.labels = labels[drawn.nodes[:asked]].to(field.device)
            field.parts = [torch.arange(asked, device=field.device)]
        field._sizes, field._views, field._origin = _levels(list(drawn.sizes)), {}, None
        field.node_loss = _cross_entropy
        return field

    @property
    def measured(self) -> int:
        """Number of measured nodes."""
        return len(self.labels)

    @property
    def limit(self) -> int:
        """The radius within which everything reachable lies."""
        return len(self._sizes) - 1

    def size(self, radius: int) -> int:
        """Number of nodes within a radius."""
        return self._sizes[min(radius, self.limit)]

    @property
    def copies(self) -> int:
        """How often edges may be listed side by side, for layers with weights of their own for
        every edge: on a large graph one input alone keeps a core busy.
        """
        return 1 if self.edges(self.limit) > _MANY_EDGES else 4

    def edges(self, radius: int) -> int:
        """Number of edges to nodes within a radius, with a self loop for each."""
        rows = self.size(radius)
        return int(self._structure.sum.pattern.crow[rows]) + rows

    @cached_property
    def _halves(self) -> list[ReceptiveField]:
        """The fields of both halves of the measured nodes."""
        if self._origin is None or self.measured < _FEWEST:
            return []
        bounds = [0, self.measured // 2, self.measured]
        structure, labels = self._origin
        with constants():
            whole = [self._nodes[part.cpu()] for part in self.parts]
            sides = [self._nodes[low:high] for low, high in pairwise(bounds)]
            fields = []
            for side in sides:
                parts = [part[torch.isin(part, side)] for part in whole]
                fields.append(ReceptiveField(self._x, structure, labels, parts, self.device))
            return fields

    def halves(self) -> list[ReceptiveField]:
        """Two fields with half of the measured nodes each, laid out once; none of a subgraph, or
        where there are few nodes.
        """
        for half in self._halves:
            half.node_loss = self.node_loss
        return self._halves

    @cached_property
    def features(self) -> InputFeatures:
        """Features of all reachable nodes, nearest first; dense ones exist once, where these are
        most of the nodes.
        """
        most = 2 * len(self._order) > self._x.shape[0]
        if most and isinstance(self._x.matrix, Tensor):
            return SelectedRows(self._x.to(self.device), self._order.to(self.device))
        return self._x.rows(self._order).to(self.device)

    def structure(self, radius: int, copies: int) -> Structure:
        """What several inputs, ``[nodes * copies, C]``, need to hear all neighbors in a radius.

        Nodes within the radius have all their edges, those one hop farther none.
        """
        radius = min(radius, self.limit)
        if (radius, 1) not in self._views:
            sizes = self.size(radius), self.size(radius + 1)
            prefix = PrefixStructure(self._structure, *sizes)
            self._views[radius, 1] = prefix.to(self.device)
        if (radius, copies) not in self._views:
            self._views[radius, copies] = StackedStructure(self._views[radius, 1], copies)
        return self._views[radius, copies]

    def mean_losses(self, scores: Tensor) -> Tensor:
        """Mean loss of networks ``[A]`` by their scores ``[A, T, classes]``; zero without
        nodes.
        """
        return self._losses(scores).sum(1) / max(1, self.measured)

    def part_sums(self, scores: Tensor) -> Tensor:
        """Loss sum, correct predictions and number of nodes of each part, ``[A, parts, 3]``."""
        losses = self._losses(scores).double()
        correct = (scores.argmax(2) == self.labels).double()
        rows = torch.stack([losses, correct, torch.ones_like(losses)], dim=2)
        return torch.stack([rows[:, part].sum(1) for part in self.parts], dim=1)

    def _losses(self, scores: Tensor) -> Tensor:
        """Loss of each network at each measured node, ``[A, T]``."""
        labels = self.labels.repeat(len(scores))
        return self.node_loss(scores.reshape(len(labels), -1), labels).view(len(scores), -1)


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels, reduction="none")


def _by_distance(structure: Structure, nodes: Tensor) -> tuple[Tensor, list[int]]:
    """Reachable nodes, nearest first, and how many there are within each radius.

    Reached is what sends: distance is counted against the direction of the edges.
    """
    seen = torch.zeros(structure.num_nodes, dtype=torch.bool)
    seen[nodes] = True
    source, target = structure.edge_index
    order, sizes = [nodes], [len(nodes)]
    while True:
        reached = torch.zeros_like(seen)
        reached[source[seen[target]]] = True
        fresh = torch.nonzero(reached & ~seen).squeeze(1)
        if not len(fresh):
            return torch.cat(order), sizes
        seen[fresh] = True
        order.append(fresh)
        sizes.append(sizes[-1] + len(fresh))


def _levels(sizes: list[int]) -> list[int]:
    """Numbers of nodes by radius, where radii that hold nearly everything are one."""
    small = [size for size in sizes if size < _NEARLY_ALL * sizes[-1]]
    return [*small, sizes[-1]]


def _reordered(structure: Structure, order: Tensor) -> Structure:
    """The structure of the nodes in ``order``; their other incoming edges do not exist."""
    place = torch.full((structure.num_nodes,), -1)
    place[order] = torch.arange(len(order))
    edges = place[structure.edge_index]
    kept = (edges >= 0).all(0)
    weight = None if structure.edge_weight is None else structure.edge_weight[kept]
    return Structure(edges[:, kept], len(order), structure.dtype, weight)
