"""Structures that take their operators from another one: a part of its nodes, or several inputs.

k inputs stand side by side, node by node, ``[n, k, C]``. Read as ``[n * k, C]`` they pass a linear
map at once, read as ``[n, k * C]`` a sparse product, which reads the graph once for all; neither
moves a number. A convolution that is given :class:`StackedStructure` does so without knowing.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from autofgl.nn.kernels.operation import constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern
from autofgl.nn.structure import Structure


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
    def sum(self) -> SparseOperator:
        """Rows of the whole's operator."""
        return self._cut(self._edges, self._whole.sum)

    @cached_property
    def end_degrees(self) -> Tensor:
        """Those of the whole, which knows them even where its edges are a sample."""
        with constants():
            return self._whole.end_degrees[: self._edges.nnz]

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

    @property
    def single(self) -> Structure:
        """The structure of one input."""
        return self._single

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
    def end_degrees(self) -> Tensor:
        """The single structure's, for every copy."""
        with constants():
            pattern = self._single.unweighted_symmetric.pattern
            return self._single.end_degrees[stacked_pattern(pattern, self._copies)[1]]

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
