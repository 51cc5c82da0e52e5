"""Several inputs side by side, as one input to a convolution.

k inputs stand node by node, ``[n, k, C]``. Read as ``[n * k, C]`` they pass a linear map at once,
read as ``[n, k * C]`` a sparse product, which reads the graph once for all; neither moves a number.
A convolution that is given :class:`StackedStructure` does so without knowing.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from autofgl.nn.operation import constants
from autofgl.nn.sparse import SparseOperator, SparsePattern
from autofgl.nn.structure import Structure


class StackedOperator(SparseOperator):
    """An operator on ``[n * copies, C]`` that multiplies every copy alike.

    Args:
        single: The operator ``[m, n]``.
        copies: Number of inputs side by side.
    """

    def __init__(self, single: SparseOperator, copies: int) -> None:
        self._single = single
        self._copies = copies

    def __matmul__(self, dense: Tensor) -> Tensor:
        """``[m * copies, n * copies] @ [n * copies, C]``."""
        width = dense.shape[1]
        side_by_side = dense.reshape(-1, self._copies * width)
        return (self._single @ side_by_side).view(-1, width)

    @cached_property
    def pattern(self) -> SparsePattern:  # type: ignore[override]
        """The pattern with an entry for each copy of an entry."""
        return stacked_pattern(self._single.pattern, self._copies)[0]

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        """The values in that order."""
        with constants():
            return self._single.values[stacked_pattern(self._single.pattern, self._copies)[1]]


class StackedStructure(Structure):
    """A structure for several inputs side by side.

    Args:
        single: The structure of one input.
        copies: Number of inputs.
    """

    def __init__(self, single: Structure, copies: int) -> None:
        with constants():
            nodes = single.num_nodes * copies
            super().__init__(single.edge_index[:, :0], nodes, single.dtype)
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


def stacked_pattern(pattern: SparsePattern, copies: int) -> tuple[SparsePattern, Tensor]:
    """The pattern ``[m * copies, n * copies]`` of a matrix acting on every copy.

    Returns:
        The pattern, and for each of its entries the entry of the single one.
    """
    with constants():
        row, col = pattern.row.long(), pattern.col.long()
        copy = torch.arange(copies, device=col.device).unsqueeze(1)
        rows, columns = (row * copies + copy).reshape(-1), (col * copies + copy).reshape(-1)
        shape = (pattern.shape[0] * copies, pattern.shape[1] * copies)
        found, order = SparsePattern.from_coo(rows, columns, shape)
        return found, order % pattern.nnz if pattern.nnz else order
