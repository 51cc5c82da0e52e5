"""The part of a graph that reaches the measured nodes, and the structures that compute on it.

With the nodes ordered by their distance from the measured ones, all nodes within r hops are a
prefix, and what a layer needs of its input is a slice.

k inputs stand side by side, node by node, ``[n, k, C]``. Read as ``[n * k, C]`` they pass a linear
map at once, read as ``[n, k * C]`` a sparse product, which reads the graph once for all; neither
moves a number. A convolution that is given :class:`StackedStructure` does so without knowing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from autofgl.nn.features import InputFeatures, NodeInput
from autofgl.nn.kernels.operation import constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern
from autofgl.nn.structure import Structure

#: The loss of every node, ``[n]``, from scores ``[n, classes]`` and labels ``[n]``.
NodeLosses: TypeAlias = Callable[[Tensor, Tensor], Tensor]

#: A radius within which this share of all reachable nodes lies is taken for the largest.
_NEARLY_ALL = 0.85


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
        with constants():
            nodes = torch.unique(torch.cat([part.long() for part in parts]))
            order, sizes = _by_distance(structure, nodes)
            self.labels = labels[nodes].to(self.device)
            places = [torch.searchsorted(nodes, part.long()) for part in parts]
            self.parts = [place.to(self.device) for place in places]
            self._sizes = _levels(sizes)
            self._x = x if isinstance(x, InputFeatures) else InputFeatures(x)
            self._order = order
            self._structure = _reordered(structure, order)
            self._views: dict[tuple[int, int], Structure] = {}
        self.node_loss: NodeLosses = _cross_entropy

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

    @cached_property
    def features(self) -> InputFeatures:
        """Features of all reachable nodes, nearest first."""
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


class _View(Structure):
    """A structure that takes its operators from another one."""

    def __init__(self, origin: Structure, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.dtype = origin.dtype
        self._origin = origin

    @property
    def device(self) -> torch.device:
        """Where the operators are."""
        return self._origin.device

    @cached_property
    def edge_index(self) -> Tensor:
        """Sources and targets ``[2, E]``, by target."""
        with constants():
            return torch.stack([self.sum.pattern.col, self.sum.pattern.row]).long()

    @property
    def edge_weight(self) -> Tensor | None:
        """Weights in the order of :attr:`edge_index`; none if all are one."""
        return None if self.weighted_sum is self.sum else self.weighted_sum.values


class PrefixStructure(_View):
    """The first rows of a structure whose nodes are ordered by distance, with its normalization.

    The first ``rows`` nodes keep all their incoming edges, which come from the first ``num_nodes``.
    """

    def __init__(self, whole: Structure, rows: int, num_nodes: int) -> None:
        super().__init__(whole, num_nodes)
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
    def unweighted_symmetric(self) -> SparseOperator:
        """Rows of the whole's operator."""
        if self._whole.edge_weight is None:
            return self.symmetric
        return self._cut(self._edges, self._whole.unweighted_symmetric)

    @cached_property
    def weighted_sum(self) -> SparseOperator:
        """Rows of the whole's operator."""
        if self._whole.edge_weight is None:
            return self.sum
        return self._cut(self._edges, self._whole.weighted_sum)

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


class StackedStructure(_View):
    """A structure for several inputs side by side."""

    def __init__(self, single: Structure, copies: int) -> None:
        super().__init__(single, single.num_nodes * copies)
        self._single = single
        self._copies = copies

    @cached_property
    def gcn(self) -> SparseOperator:
        """The single structure's, for every copy."""
        return StackedOperator(self._single.gcn, self._copies)

    @cached_property
    def symmetric(self) -> SparseOperator:
        """The single structure's, for every copy."""
        return StackedOperator(self._single.symmetric, self._copies)

    @cached_property
    def unweighted_symmetric(self) -> SparseOperator:
        """The single structure's, for every copy."""
        if self._single.edge_weight is None:
            return self.symmetric
        return StackedOperator(self._single.unweighted_symmetric, self._copies)

    @cached_property
    def weighted_sum(self) -> SparseOperator:
        """The single structure's, for every copy."""
        if self._single.edge_weight is None:
            return self.sum
        return StackedOperator(self._single.weighted_sum, self._copies)

    @cached_property
    def sum(self) -> SparseOperator:
        """The single structure's, for every copy."""
        return StackedOperator(self._single.sum, self._copies)

    @cached_property
    def mean(self) -> SparseOperator:
        """The single structure's, for every copy."""
        return StackedOperator(self._single.mean, self._copies)

    @cached_property
    def _looped(self) -> SparsePattern:
        return stacked_pattern(self._single.gcn.pattern, self._copies)[0]


class StackedOperator(SparseOperator):
    """An operator on ``[n * copies, C]`` that multiplies every copy by a single one ``[m, n]``."""

    def __init__(self, single: SparseOperator, copies: int) -> None:
        self._single = single
        self._copies = copies

    def __matmul__(self, dense: Tensor) -> Tensor:
        """``[m * copies, n * copies] @ [n * copies, C]``."""
        width = dense.shape[1]
        side_by_side = dense.reshape(-1, self._copies * width)
        return (self._single @ side_by_side).view(-1, width)

    def to(self, device: torch.device) -> SparseOperator:
        """The same on a device."""
        return StackedOperator(self._single.to(device), self._copies)

    @cached_property
    def pattern(self) -> SparsePattern:  # type: ignore[override]
        """The pattern with an entry for each copy of an entry."""
        return stacked_pattern(self._single.pattern, self._copies)[0]

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        """The values in that order."""
        with constants():
            return self._single.values[stacked_pattern(self._single.pattern, self._copies)[1]]


def stacked_pattern(pattern: SparsePattern, copies: int) -> tuple[SparsePattern, Tensor]:
    """The pattern ``[m * copies, n * copies]`` of a matrix acting on every copy.

    It comes with the entry of the single pattern for each of its own.
    """
    with constants():
        row, col = pattern.row.long(), pattern.col.long()
        copy = torch.arange(copies, device=col.device).unsqueeze(1)
        rows, columns = (row * copies + copy).reshape(-1), (col * copies + copy).reshape(-1)
        shape = (pattern.shape[0] * copies, pattern.shape[1] * copies)
        stacked, order = SparsePattern.from_coo(rows, columns, shape)
        return stacked, order % pattern.nnz if pattern.nnz else order


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
