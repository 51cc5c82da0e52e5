"""The part of a graph that reaches the measured nodes, nearest nodes first.

With the nodes ordered by their distance from the measured ones, all nodes within r hops (the
*ball* of radius r) are a prefix, and what a layer needs of its input is a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from autofgl.nn.features import InputFeatures, NodeInput
from autofgl.nn.operation import constants
from autofgl.nn.sparse import SparseOperator, SparsePattern
from autofgl.nn.structure import Structure
from autofgl.nn.supernet.stacked import StackedStructure

#: A ball with this share of all reachable nodes is taken for all of them.
_NEARLY_ALL = 0.85


class Field:
    """Features, edges and labels around the nodes on which networks are measured.

    Build it once for each set of nodes (training, validation) and use it for all populations.

    Args:
        x: Node features ``[n, F]``.
        structure: The graph.
        labels: Labels ``[n]``.
        parts: One or several sets of nodes, as indices; a node may be in several.
    """

    def __init__(
        self, x: NodeInput, structure: Structure, labels: Tensor, parts: Sequence[Tensor]
    ) -> None:
        with constants():
            nodes = torch.unique(torch.cat([part.long() for part in parts]))
            order, sizes = _by_distance(structure, nodes)
            self.labels = labels[nodes]
            self.parts = [torch.searchsorted(nodes, part.long()) for part in parts]
            self._sizes = _levels(sizes)
            self._features = x if isinstance(x, InputFeatures) else InputFeatures(x)
            self._order = order
            self._structure = _reordered(structure, order)
            self._views: dict[int, _Views] = {}

    @property
    def measured(self) -> int:
        """Number of measured nodes."""
        return len(self.labels)

    @property
    def limit(self) -> int:
        """The radius of the ball that holds everything reachable."""
        return len(self._sizes) - 1

    def size(self, radius: int) -> int:
        """Number of nodes in a ball."""
        return self._sizes[min(radius, self.limit)]

    @cached_property
    def features(self) -> InputFeatures:
        """Features of all reachable nodes, nearest first."""
        with constants():
            matrix = self._features.matrix
            if isinstance(matrix, Tensor):
                return InputFeatures(matrix[self._order])
            return InputFeatures(_rows(matrix, self._order))

    def structure(self, radius: int, copies: int) -> Structure:
        """What several inputs need side by side, so that the ball's nodes hear all neighbours.

        Args:
            radius: The nodes of this ball have all their edges, those one hop farther none.
            copies: Number of inputs, which stand node by node: ``[nodes * copies, C]``.
        """
        radius = min(radius, self.limit)
        if radius not in self._views:
            view = BallStructure(self._structure, self.size(radius), self.size(radius + 1))
            self._views[radius] = _Views(view)
        return self._views[radius].stacked(copies)


class BallStructure(Structure):
    """The first rows of a structure, with its normalisation.

    Args:
        whole: The structure, nodes ordered by distance.
        rows: The first nodes, which keep all their incoming edges.
        num_nodes: The first nodes that those edges come from.
    """

    def __init__(self, whole: Structure, rows: int, num_nodes: int) -> None:
        with constants():
            super().__init__(whole.edge_index[:, :0], num_nodes, whole.dtype)
        self._whole = whole
        self._rows = rows

    @cached_property
    def gcn(self) -> SparseOperator:
        """Rows of the whole's operator."""
        return self._cut(self._looped, self._whole.gcn)

    @cached_property
    def symmetric(self) -> SparseOperator:
        """Rows of the whole's operator."""
        return self._cut(self._edges, self._whole.symmetric)

    @cached_property
    def _edges(self) -> SparsePattern:
        return self._prefix(self._whole.sum.pattern)

    @cached_property
    def _looped(self) -> SparsePattern:
        return self._prefix(self._whole.gcn.pattern)

    def _prefix(self, pattern: SparsePattern) -> SparsePattern:
        with constants():
            crow = pattern.crow[: self.num_nodes + 1].clamp(max=pattern.crow[self._rows])
            col = pattern.col[: int(crow[-1])]
            return SparsePattern.from_csr(crow, col, (self.num_nodes, self.num_nodes))

    def _cut(self, pattern: SparsePattern, whole: SparseOperator) -> SparseOperator:
        return SparseOperator(pattern, whole.values[: pattern.nnz])


class _Views:
    """A structure for any number of inputs side by side."""

    def __init__(self, single: Structure) -> None:
        self._kept: dict[int, Structure] = {1: single}

    def stacked(self, copies: int) -> Structure:
        if copies not in self._kept:
            self._kept[copies] = StackedStructure(self._kept[1], copies)
        return self._kept[copies]


def _by_distance(structure: Structure, nodes: Tensor) -> tuple[Tensor, list[int]]:
    """Reachable nodes, nearest first, and the size of every ball.

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
    """Sizes of the balls, those that hold nearly everything taken as one."""
    small = [size for size in sizes if size < _NEARLY_ALL * sizes[-1]]
    return [*small, sizes[-1]]


def _reordered(structure: Structure, order: Tensor) -> Structure:
    """The structure of the nodes in ``order``; their other incoming edges do not exist."""
    place = torch.full((structure.num_nodes,), -1)
    place[order] = torch.arange(len(order))
    edges = place[structure.edge_index]
    return Structure(edges[:, (edges >= 0).all(0)], len(order), structure.dtype)


def _rows(operator: SparseOperator, rows: Tensor) -> SparseOperator:
    """Some rows of a sparse matrix, in the given order."""
    starts = operator.pattern.crow.long()
    lengths = starts.diff()[rows]
    crow = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    offset = torch.arange(int(crow[-1])) - torch.repeat_interleave(crow[:-1], lengths)
    entries = torch.repeat_interleave(starts[rows], lengths) + offset
    shape = (len(rows), operator.shape[1])
    pattern = SparsePattern.from_csr(crow, operator.pattern.col[entries], shape)
    return SparseOperator(pattern, operator.values[entries])
