"""Node features as a network's input: dense, or sparse where most entries are zero."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from autofgl.nn.kernels.dropout import dropout, dropout_mask
from autofgl.nn.kernels.operation import Rng, constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import Features


#: How features are scaled, row by row: see :meth:`InputFeatures.scaled`.
Scaling: TypeAlias = Literal["unit"] | bool


class InputFeatures:
    """Constant features ``[n, F]``, of which a network needs little more than ``features @ W``.

    Sparse features cost a product and a dropout in proportion to their non-zero entries, and the
    gradient of ``W`` runs over a transpose that is laid out once.
    """

    def __init__(self, matrix: Tensor | SparseOperator) -> None:
        self.matrix = matrix

    @classmethod
    def from_client(cls, x: Features, dtype: torch.dtype = torch.float32) -> InputFeatures:
        """The features of a client graph: a NumPy array, or a SciPy CSR array.

        The values are copied, so that a read-only array may be handed in.
        """
        with constants():
            if not sp.issparse(x):
                return cls(torch.tensor(np.asarray(x), dtype=dtype))
            csr = sp.csr_array(x)
            starts, columns = torch.tensor(csr.indptr), torch.tensor(csr.indices)
            pattern = SparsePattern.from_csr(starts, columns, csr.shape)
            return cls(SparseOperator(pattern, torch.tensor(csr.data, dtype=dtype)))

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, F)``."""
        rows, columns = self.matrix.shape
        return rows, columns

    @property
    def dtype(self) -> torch.dtype:
        """Type of the entries."""
        return (self.matrix if isinstance(self.matrix, Tensor) else self.matrix.values).dtype

    def __matmul__(self, weight: Tensor) -> Tensor:
        """``[n, F] @ [F, k] -> [n, k]``, differentiable in the weight."""
        return self.matrix @ weight

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return (self.matrix if isinstance(self.matrix, Tensor) else self.matrix.values).device

    def to(self, device: torch.device) -> InputFeatures:
        """The same on a device."""
        return self if device == self.device else InputFeatures(self.matrix.to(device))

    def rows(self, index: Tensor) -> InputFeatures:
        """The features of some nodes ``[m, F]``, in the order of ``index`` (int64 ``[m]``)."""
        with constants():
            if isinstance(self.matrix, Tensor):
                return InputFeatures(self.matrix.index_select(0, index))
            pattern, values = self.matrix.pattern, self.matrix.values
            start = pattern.crow.index_select(0, index).long()
            count = pattern.crow.index_select(0, index + 1).long() - start
            crow = torch.cat([count.new_zeros(1), count.cumsum(0)])
            entry = torch.arange(int(crow[-1]), device=index.device)
            entry += torch.repeat_interleave(start - crow[:-1], count, output_size=len(entry))
            chosen = pattern.col.index_select(0, entry)
            part = SparsePattern.from_csr(crow, chosen, (len(index), pattern.shape[1]))
            return InputFeatures(SparseOperator(part, values.index_select(0, entry)))

    def dropout(self, p: float, generator: Rng = None) -> InputFeatures:
        """The features after dropout with probability ``p`` on the stored entries."""
        if isinstance(self.matrix, Tensor):
            return InputFeatures(dropout(self.matrix, p, True, generator))
        with constants():
            values = self.matrix.values
            dropped = dropout(values, p, True, generator)
            return InputFeatures(SparseOperator(self.matrix.pattern, dropped))

    def drop_nodes(self, p: float, generator: Rng = None) -> InputFeatures:
        """The features with whole rows dropped with probability ``p``, the others scaled."""
        with constants():
            mask = dropout_mask(
                torch.Size([self.shape[0]]), p, generator, dtype=self.dtype, device=self.device
            )
            if isinstance(self.matrix, Tensor):
                return InputFeatures(self.matrix * mask[:, None])
            pattern, values = self.matrix.pattern, self.matrix.values
            kept = values * mask.index_select(0, pattern.row)
            return InputFeatures(SparseOperator(pattern, kept))

    def scaled(self, how: Scaling) -> InputFeatures:
        """The features as ``normalize_features`` says: each row of length 1 (``unit``), each row
        summing to 1 (true), or as they are (false).
        """
        if how == "unit":
            return self._rows_over(lambda magnitudes: magnitudes.square(), torch.sqrt)
        return self.row_normalized() if how else self

    def row_normalized(self) -> InputFeatures:
        """The features with each row divided by the sum of its magnitudes; zero rows stay zero."""
        return self._rows_over(lambda magnitudes: magnitudes, lambda total: total)

    def _rows_over(
        self, part: Callable[[Tensor], Tensor], size: Callable[[Tensor], Tensor]
    ) -> InputFeatures:
        """Each row over its size, made of the sum of what its entries' magnitudes add to it."""
        with constants():
            if isinstance(self.matrix, Tensor):
                total = size(part(self.matrix.abs()).sum(1, keepdim=True))
                return InputFeatures(self.matrix / _one_for_zero(total))
            pattern, values = self.matrix.pattern, self.matrix.values
            ones = values.new_ones(pattern.shape[1], 1)
            total = size((SparseOperator(pattern, part(values.abs())) @ ones).squeeze(1))
            scaled = values / _one_for_zero(total).index_select(0, pattern.row)
            return InputFeatures(SparseOperator(pattern, scaled))

    @cached_property
    def dense(self) -> Tensor:
        """:meth:`to_dense`, laid out once and kept: networks from outside take nothing else."""
        with constants():
            return self.to_dense()

    def to_dense(self) -> Tensor:
        """The features as a dense tensor ``[n, F]``."""
        return self.matrix if isinstance(self.matrix, Tensor) else self.matrix.to_dense()


class SelectedRows(InputFeatures):
    """Some rows of dense features, without a copy of them: the product is made with all rows, of
    which these are taken.
    """

    def __init__(self, whole: InputFeatures, index: Tensor) -> None:
        super().__init__(whole.matrix)
        self._index = index

    @property
    def shape(self) -> tuple[int, int]:
        """``(m, F)``."""
        return len(self._index), self.matrix.shape[1]

    def __matmul__(self, weight: Tensor) -> Tensor:
        """``[m, F] @ [F, k] -> [m, k]``, differentiable in the weight."""
        return (self.matrix @ weight).index_select(0, self._index)

    def to(self, device: torch.device) -> InputFeatures:
        """The same on a device."""
        whole = InputFeatures(self.matrix).to(device)
        return SelectedRows(whole, self._index.to(device))

    def rows(self, index: Tensor) -> InputFeatures:
        """The features of some of these nodes."""
        return InputFeatures(self.matrix).rows(self._index.index_select(0, index))

    def dropout(self, p: float, generator: Rng = None) -> InputFeatures:
        """The features after dropout."""
        return SelectedRows(InputFeatures(self.matrix).dropout(p, generator), self._index)

    def drop_nodes(self, p: float, generator: Rng = None) -> InputFeatures:
        """The features with whole rows dropped."""
        return SelectedRows(InputFeatures(self.matrix).drop_nodes(p, generator), self._index)

    def to_dense(self) -> Tensor:
        """The features as a dense tensor ``[m, F]``."""
        return InputFeatures(self.matrix).to_dense().index_select(0, self._index)


#: What a layer that begins with a linear map accepts.
NodeInput: TypeAlias = Tensor | InputFeatures


def as_tensor(x: NodeInput) -> Tensor:
    """The input as a dense tensor ``[n, F]``."""
    return x if isinstance(x, Tensor) else x.to_dense()


def _one_for_zero(total: Tensor) -> Tensor:
    return torch.where(total == 0, 1.0, total)
