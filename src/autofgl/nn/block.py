"""A sampled convolution: a few rows of a client's matrix, over the few columns they need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from autofgl.nn.neighbourhood import Columns, Floats, Neighbourhood, index_type
from autofgl.nn.operation import constants
from autofgl.nn.sparse import SparseOperator, SparsePattern

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import Ints


@dataclass(frozen=True, eq=False)
class Block:
    """The sampled matrix of one convolution, Q̃ of FedGraph's Eq. 7, in CSR order.

    Rows are the nodes to compute, columns the nodes to compute them from. Every source has an
    entry.

    Attributes:
        targets: Own nodes, sorted and distinct, ``[r]``.
        sources: Columns of the neighbourhood, own and external, sorted and distinct, ``[c]``.
        indptr: Start of each row, ``[r + 1]``.
        indices: Source of each entry, as an index into ``sources``, ``[e]``.
        values: Value of each entry, ``[e]``.
        order: The entries by source, and by row where sources are equal, ``[e]``.
    """

    targets: Ints
    sources: Ints
    indptr: Ints
    indices: Ints
    values: Floats
    order: Ints

    @classmethod
    def of_entries(
        cls,
        neighbourhood: Neighbourhood,
        targets: Ints,
        counts: Ints,
        entries: Ints,
        scale: Floats | None = None,
    ) -> Block:
        """Some entries of a neighbourhood.

        Args:
            neighbourhood: The matrix.
            targets: Rows, sorted and distinct, ``[r]``.
            counts: Number of entries of each row, ``[r]``.
            entries: Places of the entries in the neighbourhood, row by row, ``[e]``.
            scale: Factors of the values, ``[e]``.
        """
        values = neighbourhood.values[entries]
        if scale is not None:
            values *= scale
        sources, indices, order = _numbered(neighbourhood.indices[entries])
        return cls(targets, sources, starts(counts), indices, values, order)

    @property
    def edges(self) -> int:
        """Number of entries, self loops among them."""
        return len(self.indices)

    @property
    def shape(self) -> tuple[int, int]:
        """``(r, c)``."""
        return (len(self.targets), len(self.sources))

    @cached_property
    def matrix(self) -> SparseOperator:
        """The matrix as an operator, ``[r, c]``: ``matrix @ dense`` has a gradient."""
        # The order is known: SparsePattern.from_csr would sort again, as dear as the whole sample.
        row = np.repeat(np.arange(len(self.targets)), np.diff(self.indptr))
        inverse = np.empty(self.edges, np.int64)
        inverse[self.order] = np.arange(self.edges)
        dtype = index_type(max(*self.shape, self.edges))
        columns = starts(np.bincount(self.indices, minlength=len(self.sources)))
        with constants():
            parts = (self.indptr, self.indices, columns, row[self.order], self.order, inverse)
            pattern = SparsePattern(self.shape, *(torch.from_numpy(p.astype(dtype)) for p in parts))
            return SparseOperator(pattern, torch.from_numpy(self.values))


def starts(counts: Ints) -> Ints:
    """Where each of several groups of these sizes starts, and where the last ends."""
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


def _numbered(columns: Columns) -> tuple[Ints, Ints, Ints]:
    """The distinct columns, the index of each column among them, and a stable order by column.

    Column and place are sorted as one integer, about twice as fast as ``np.unique``.
    """
    bits = len(columns).bit_length()
    keys = columns.astype(np.int64)
    keys <<= bits
    keys |= np.arange(len(columns))
    keys.sort()
    order = keys & ((1 << bits) - 1)
    keys >>= bits
    first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    number = np.empty(len(columns), np.int64)
    number[order] = np.cumsum(first) - 1
    return keys[first], number, order
