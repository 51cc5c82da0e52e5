"""Attention over the neighbours of a node: softmax of edge scores, weighted sums of messages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autofgl.nn.operation import Operation, constants
from autofgl.nn.sparse import SparseOperator, SparsePattern, spmm


class AttentionPattern:
    """Edges in CSR order, a row per target node, with what attention needs to move along them.

    Args:
        pattern: A row per target, a column per source, ``[n, n]`` with E entries.
        dtype: Type of the scores.

    Attributes:
        over_targets: Incidence ``[n, E]``: adds up the edges of each target. Its transpose hands
            each edge what belongs to its target. CSR products with it beat scatter and gather.
        over_sources: The same for the sources.
    """

    def __init__(self, pattern: SparsePattern, dtype: torch.dtype = torch.float32) -> None:
        self.pattern = pattern
        self.over_targets = _row_incidence(pattern, dtype)
        self.over_sources = _column_incidence(pattern, dtype)
        self._tiled = {1: pattern}

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the edges of each target, ``[E, heads] -> [E, heads]``."""
        weights: Tensor = _EdgeSoftmax.apply(scores, self)
        return weights

    def weighted_sum(self, weights: Tensor, x: Tensor) -> Tensor:
        """For each head and target, the sum of its sources' messages by weight.

        Args:
            weights: ``[E, heads]``.
            x: Messages of the sources, ``[heads, n, C]``.

        Returns:
            ``[heads, n, C]``.
        """
        heads, _, width = x.shape
        values = weights.t().reshape(-1)
        return spmm(self._copies(heads), values, x.reshape(-1, width)).view(heads, -1, width)

    def _copies(self, heads: int) -> SparsePattern:
        """A block-diagonal pattern with a copy for each head: one product serves them all."""
        if heads not in self._tiled:
            self._tiled[heads] = _block_diagonal(self.pattern, heads)
        return self._tiled[heads]


class _EdgeSoftmax(Operation):
    @staticmethod
    def forward(scores: Tensor, edges: AttentionPattern) -> Tensor:
        if scores.numel() == 0:
            return scores.clone()
        rows = edges.over_targets
        highest = torch.segment_reduce(
            scores, "max", offsets=edges.pattern.crow, axis=0, unsafe=True
        )
        exponentials = (scores - rows.T @ highest).exp_()
        return exponentials.div_(rows.T @ (rows @ exponentials))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rows = inputs[1].over_targets
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        weighted = weights * grads[0]
        return weighted - weights * (ctx.rows.T @ (ctx.rows @ weighted)), None


def _row_incidence(pattern: SparsePattern, dtype: torch.dtype) -> SparseOperator:
    with constants():
        starts = torch.arange(pattern.nnz + 1, dtype=pattern.col.dtype, device=pattern.col.device)
        edges = starts[:-1]
        incidence = SparsePattern(
            (pattern.shape[0], pattern.nnz),
            crow=pattern.crow,
            col=edges,
            crow_t=starts,
            col_t=pattern.row,
            to_t=edges,
            from_t=edges,
        )
        return SparseOperator(incidence, torch.ones(pattern.nnz, dtype=dtype, device=edges.device))


def _column_incidence(pattern: SparsePattern, dtype: torch.dtype) -> SparseOperator:
    with constants():
        starts = torch.arange(pattern.nnz + 1, dtype=pattern.col.dtype, device=pattern.col.device)
        incidence = SparsePattern(
            (pattern.shape[1], pattern.nnz),
            crow=pattern.crow_t,
            col=pattern.to_t,
            crow_t=starts,
            col_t=pattern.col,
            to_t=pattern.from_t,
            from_t=pattern.to_t,
        )
        return SparseOperator(incidence, torch.ones(pattern.nnz, dtype=dtype, device=starts.device))


def _block_diagonal(pattern: SparsePattern, copies: int) -> SparsePattern:
    with constants():
        block = torch.arange(copies, device=pattern.col.device).unsqueeze(1)
        m, n = pattern.shape
        ends = pattern.crow[1:] + block * pattern.nnz
        crow = torch.cat([ends.new_zeros(1), ends.reshape(-1)])
        col = (pattern.col + block * n).reshape(-1)
        return SparsePattern.from_csr(crow, col, (m * copies, n * copies))
