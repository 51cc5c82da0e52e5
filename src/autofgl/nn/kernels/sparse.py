"""One differentiable product of a sparse and a dense matrix, on which every convolution stands.

Notation: a sparse matrix of shape ``[m, n]`` has ``nnz`` entries, kept in CSR order (by row). Its
*values* are a vector ``[nnz]`` in that order. A row of a product is a weighted sum of rows, which
torch calls a bag of embeddings: where FBGEMM sums them, that takes less than half as long as a CSR
product in MKL, which is several times faster than gathering and scattering messages. The transpose
that the gradient needs is laid out once. Devices without CSR products gather and scatter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from autofgl.nn.kernels.operation import Operation, constants, unwrap

_INT32_LIMIT = 2**31 - 1
#: Where torch has products with matrices in the CSR layout.
_CSR_DEVICES = ("cpu", "cuda")
#: Whether torch was built with FBGEMM, which has single precision on the CPU.
_HAS_FBGEMM = "fbgemm" in torch.backends.quantized.supported_engines


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """Where the entries of a sparse matrix stand, by row and by column.

    Make one with :meth:`from_csr` or :meth:`from_coo`. Indices are int32 where they fit, since MKL
    converts wider ones at every call.
    """

    shape: tuple[int, int]  # (m, n)
    crow: Tensor  # start of each row, [m + 1]
    col: Tensor  # column of each entry, [nnz]
    crow_t: Tensor  # start of each column in the transpose, [n + 1]
    col_t: Tensor  # row of each entry, in the order of the transpose, [nnz]
    to_t: Tensor  # values[to_t] are the values in the order of the transpose
    from_t: Tensor  # the inverse permutation

    @classmethod
    def from_csr(cls, crow: Tensor, col: Tensor, shape: tuple[int, int]) -> SparsePattern:
        """A pattern from row starts ``[m + 1]`` and columns ``[nnz]``."""
        with constants():
            dtype = torch.int32 if max(*shape, len(col)) < _INT32_LIMIT else torch.int64
            crow, col = unwrap(crow).to(dtype), unwrap(col).to(dtype)
            transpose = _transpose_by_counting if col.is_cpu else _transpose_by_sorting
            crow_t, col_t, to_t = transpose(crow, col, shape)
            from_t = torch.empty_like(to_t)
            from_t[to_t.long()] = torch.arange(len(col), dtype=dtype, device=col.device)
            return cls(shape, crow, col, crow_t, col_t, to_t, from_t)

    @classmethod
    def from_coo(
        cls, row: Tensor, col: Tensor, shape: tuple[int, int]
    ) -> tuple[SparsePattern, Tensor]:
        """A pattern from coordinates ``[nnz]`` in any order; repeated ones stay apart.

        Returns:
            The pattern, and ``order`` such that ``values[order]`` are in the pattern's order.
        """
        with constants():
            row, col = unwrap(row).long(), unwrap(col).long()
            order = torch.argsort(row * shape[1] + col, stable=True)
            return cls.from_csr(_starts(row[order], shape[0]), col[order], shape), order

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return self.col.numel()

    @property
    def T(self) -> SparsePattern:
        """The pattern of the transposed matrix."""
        by_column, by_row = (self.crow_t, self.col_t), (self.crow, self.col)
        return SparsePattern(self.shape[::-1], *by_column, *by_row, self.from_t, self.to_t)

    def to(self, device: torch.device) -> SparsePattern:
        """The same on a device."""
        with constants():
            indices = (getattr(self, field.name) for field in fields(self)[1:])
            return SparsePattern(self.shape, *(index.to(device) for index in indices))

    @cached_property
    def row(self) -> Tensor:
        """Row of each entry, ``[nnz]``."""
        with constants():
            return self.col_t.index_select(0, self.from_t)

    @cached_property
    def symmetric(self) -> bool:
        """Whether entries (i, j) and (j, i) always occur together (columns sorted in each row)."""
        if self.shape[0] != self.shape[1]:
            return False
        with constants():
            return torch.equal(self.crow, self.crow_t) and torch.equal(self.col, self.col_t)


class SparseOperator:
    """A sparse matrix with constant values, ready to be multiplied: ``operator @ dense``.

    The product is differentiable in the dense factor, any number of times. A symmetric matrix is
    its own transpose and is kept once.
    """

    #: Whether what it is multiplied by is shown to other clients.
    crosses: ClassVar[bool] = False

    def __init__(self, pattern: SparsePattern, values: Tensor) -> None:
        self.pattern = pattern
        self.values = values

    @property
    def shape(self) -> tuple[int, int]:
        """``(m, n)``."""
        return self.pattern.shape

    @property
    def T(self) -> SparseOperator:
        """The transposed matrix."""
        return self._transposed or self

    def __matmul__(self, dense: Tensor) -> Tensor:
        """``[m, n] @ [n, k] -> [m, k]``."""
        return _ConstantProduct.apply(dense, self)

    def to(self, device: torch.device) -> SparseOperator:
        """The same on a device, laid out as it is here."""
        if device == self.values.device:
            return self
        with constants():
            moved = SparseOperator(self.pattern.to(device), self.values.to(device))
            transposed = self._transposed
            if transposed is None:
                moved._transposed = None
            else:
                values = transposed.values.to(device)
                moved._transposed = SparseOperator(moved.pattern.T, values)
                moved._transposed._transposed = moved
            return moved

    def to_dense(self) -> Tensor:
        """The matrix ``[m, n]`` with its zeros."""
        with constants():
            dense = self.values.new_zeros(self.shape)
            index = (self.pattern.row.long(), self.pattern.col.long())
            return dense.index_put_(index, self.values, accumulate=True)

    @cached_property
    def csr(self) -> Tensor:
        """The matrix in torch's CSR layout."""
        with constants():
            return _csr(self.pattern, self.values)

    @cached_property
    def _transposed(self) -> SparseOperator | None:
        """The transposed matrix, or nothing where it is this one."""
        with constants():
            values = self.values.index_select(0, self.pattern.to_t)
            if self.pattern.symmetric and torch.equal(values, self.values):
                return None
            return SparseOperator(self.pattern.T, values)


def spmm(pattern: SparsePattern, values: Tensor, dense: Tensor) -> Tensor:
    """Sparse ``[m, n]`` (values ``[nnz]`` at a pattern) times dense ``[n, k]``, ``[m, k]``.

    Differentiable in both, any number of times.
    """
    return _Product.apply(values, dense, pattern)


def sampled_product(pattern: SparsePattern, left: Tensor, right: Tensor) -> Tensor:
    """The entries of ``left @ right.T`` that the pattern names, differentiable in both factors.

    That is ``(left[row] * right[col]).sum(-1)``, ``[nnz]``, for ``[m, k]`` and ``[n, k]``.
    """
    return _SampledProduct.apply(left, right, pattern)


class _ConstantProduct(Operation):
    @staticmethod
    def forward(dense: Tensor, operator: SparseOperator) -> Tensor:
        return _multiply(operator.pattern, operator.values, dense, lambda: operator.csr)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Any) -> None:
        ctx.operator = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        return ctx.operator.T @ grads[0], None


class _Product(Operation):
    @staticmethod
    def forward(values: Tensor, dense: Tensor, pattern: SparsePattern) -> Tensor:
        return _multiply(pattern, values, dense, lambda: _csr(pattern, values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Any) -> None:
        values, dense, ctx.pattern = inputs
        ctx.save_for_backward(values, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, dense = ctx.saved_tensors
        wants_values, wants_dense, _ = ctx.needs_input_grad
        return (
            sampled_product(ctx.pattern, grads[0], dense) if wants_values else None,
            _transposed_product(ctx.pattern, values, grads[0]) if wants_dense else None,
            None,
        )


class _SampledProduct(Operation):
    @staticmethod
    def forward(left: Tensor, right: Tensor, pattern: SparsePattern) -> Tensor:
        zeros = left.new_zeros(pattern.nnz)
        if not (pattern.nnz and left.shape[1]):
            return zeros
        if not has_csr(left):
            return (left.index_select(0, pattern.row) * right.index_select(0, pattern.col)).sum(1)
        sample = _csr(pattern, zeros)
        product: Tensor = torch.sparse.sampled_addmm(sample, left.contiguous(), right.t(), beta=0.0)
        return product.values()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Any) -> None:
        left, right, ctx.pattern = inputs
        ctx.save_for_backward(left, right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        left, right = ctx.saved_tensors
        wants_left, wants_right, _ = ctx.needs_input_grad
        return (
            spmm(ctx.pattern, grads[0], right) if wants_left else None,
            _transposed_product(ctx.pattern, grads[0], left) if wants_right else None,
            None,
        )


def _transposed_product(pattern: SparsePattern, values: Tensor, dense: Tensor) -> Tensor:
    return spmm(pattern.T, values.index_select(0, pattern.to_t), dense)


def _transpose_by_counting(
    crow: Tensor, col: Tensor, shape: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Starts of the columns, row and place of each entry by column: in linear time, by SciPy."""
    places = np.arange(len(col), dtype=col.numpy().dtype)
    by_column = sp.csr_array((places, col.numpy(), crow.numpy()), shape=shape).tocsc()
    arrays = (by_column.indptr, by_column.indices, by_column.data)
    crow_t, col_t, to_t = (torch.from_numpy(array).to(col.dtype) for array in arrays)
    return crow_t, col_t, to_t


def _transpose_by_sorting(
    crow: Tensor, col: Tensor, shape: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The same where SciPy does not reach: on another device than the CPU."""
    rows = torch.arange(shape[0], dtype=col.dtype, device=col.device)
    row = torch.repeat_interleave(rows, crow.diff(), output_size=len(col))
    to_t = torch.argsort(col, stable=True)
    return _starts(col[to_t], shape[1]), row[to_t], to_t.to(col.dtype)


def _starts(index: Tensor, size: int) -> Tensor:
    """Where each of ``size`` groups starts in a sorted index, and where the last ends."""
    groups = torch.arange(size + 1, dtype=index.dtype, device=index.device)
    return torch.searchsorted(index, groups).to(index.dtype)


def _csr(pattern: SparsePattern, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        pattern.crow, pattern.col, values, pattern.shape, check_invariants=False
    )


def has_csr(tensor: Tensor) -> bool:
    """Whether torch multiplies by CSR matrices where a tensor is."""
    return tensor.device.type in _CSR_DEVICES


def _multiply(
    pattern: SparsePattern, values: Tensor, dense: Tensor, csr: Callable[[], Tensor]
) -> Tensor:
    """The product, in the fastest way that there is; ``csr`` makes the matrix in torch's layout."""
    shape = (pattern.shape[0], dense.shape[1])
    if pattern.nnz == 0 or shape[1] == 0:
        return dense.new_zeros(shape)
    if _HAS_FBGEMM and dense.is_cpu and dense.dtype == torch.float32:
        return _sum_bags(pattern, values, dense)
    if not has_csr(dense):
        messages = values.unsqueeze(1) * dense.index_select(0, pattern.col)
        return dense.new_zeros(shape).index_add_(0, pattern.row, messages)
    # ``csr @ dense`` zeroes and copies its result first; with beta = 0, MKL merely writes it.
    out = dense.new_empty(shape)
    return torch.addmm(out, csr(), dense.contiguous(), beta=0.0, out=out)


def _sum_bags(pattern: SparsePattern, values: Tensor, dense: Tensor) -> Tensor:
    """Each row of the product as a sum of rows of ``dense``, weighted by the row's values."""
    sums, *_ = torch.embedding_bag(
        dense.contiguous(),
        pattern.col,
        pattern.crow,
        mode=0,  # the sum
        per_sample_weights=values.contiguous(),
        include_last_offset=True,
    )
    return sums


def _consume_beta_warning() -> None:
    """Torch says once per process that its CSR layout is in beta: let it say so here, unheard."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        index = torch.zeros(1, dtype=torch.int32)
        torch.sparse_csr_tensor(index, index[:0], torch.zeros(0), (0, 0), check_invariants=False)


_consume_beta_warning()
