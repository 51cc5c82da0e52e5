"""Sums over the neighbors of a node, with weights that are computed for every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from autofgl.nn.kernels.operation import Operation, constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern, has_csr, sampled_product, spmm

_Kept: TypeAlias = WeakKeyDictionary[SparsePattern, dict[int, SparsePattern]]
#: Patterns with several messages along every edge, by the number of messages.
_BY_PART: _Kept = WeakKeyDictionary()
#: Patterns that stand several times one below the other.
_REPEATED: _Kept = WeakKeyDictionary()


class AttentionPattern:
    """E edges in CSR order, a row per target, with what attention needs to move along them.

    The incidence ``over_targets`` ``[n, E]`` adds up the edges of each target, its transpose hands
    each edge what belongs to its target; ``over_sources`` does so for the sources. CSR products
    with them beat scatter and gather.
    """

    def __init__(self, pattern: SparsePattern, dtype: torch.dtype = torch.float32) -> None:
        self.pattern = pattern
        m, n = pattern.shape
        with constants():
            edges = torch.arange(pattern.nnz, dtype=pattern.col.dtype, device=pattern.col.device)
        self.over_targets = _incidence(m, pattern.crow, edges, pattern.row, edges, dtype)
        self.over_sources = _incidence(
            n, pattern.crow_t, pattern.to_t, pattern.col, pattern.from_t, dtype
        )
        self._tiled = {1: pattern}

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the edges of each target, ``[E, heads] -> [E, heads]``."""
        return _EdgeSoftmax.apply(scores, self)

    def weighted_sum(self, weights: Tensor, x: Tensor) -> Tensor:
        """For each head and target, the sum of its sources' messages by weight.

        ``[E, heads]`` and messages ``[heads, n, C]`` to ``[heads, n, C]``. One product with a
        block-diagonal pattern serves all heads.
        """
        heads, _, width = x.shape
        if heads not in self._tiled:
            self._tiled[heads] = _block_diagonal(self.pattern, heads)
        values = weights.t().reshape(-1)
        return spmm(self._tiled[heads], values, x.reshape(-1, width)).view(heads, -1, width)

    def inner(self, targets: Tensor, sources: Tensor) -> Tensor:
        """Inner products of the rows at each edge's two ends, ``[E]``."""
        return sampled_product(self.pattern, targets, sources)

    def mixed_mean(self, weights: Tensor, messages: Tensor) -> Tensor:
        """:func:`mixed_mean` of these edges."""
        return mixed_mean(self.pattern, weights, messages)


def mixed_mean(pattern: SparsePattern, weights: Tensor, messages: Tensor) -> Tensor:
    r"""For each target :math:`i`, the mean over its sources j of
    :math:`\sum_k w_{ij,k} \, \mathbf{m}_{j,k}`.

    Read by node and part, the messages are the rows of a matrix ``[n * K, C]`` and the weights the
    entries of a sparse matrix ``[n, n * K]``: one product, and nothing is rearranged.

    Weights ``[E, K]`` and messages ``[n, K * C]`` to ``[n, C]``.
    """
    parts = weights.shape[1]
    rows = messages.reshape(-1, messages.shape[1] // parts)
    total = spmm(_kept(_BY_PART, pattern, parts, _by_part), weights.reshape(-1), rows)
    return total / pattern.crow.diff().clamp(min=1).unsqueeze(1)


def mixed_sums(pattern: SparsePattern, weights: Tensor, x: Tensor) -> Tensor:
    r"""For each part k and target i, :math:`\sum_j w_{ij,k} \, \mathbf{x}_j` over its sources j.

    :func:`mixed_mean` without its division, before any map: where few targets matter, only these
    need to be mapped. Weights ``[E, K]`` and ``[n, C]`` to ``[K, m, C]``.
    """
    parts = weights.shape[1]
    repeated = _kept(_REPEATED, pattern, parts, _repeated)
    return spmm(repeated, weights.t().reshape(-1), x).view(parts, -1, x.shape[1])


class _EdgeSoftmax(Operation):
    @staticmethod
    def forward(scores: Tensor, edges: AttentionPattern) -> Tensor:
        if scores.numel() == 0:
            return scores.clone()
        rows = edges.over_targets
        highest = _row_maxima(scores, edges.pattern)
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


def _row_maxima(scores: Tensor, pattern: SparsePattern) -> Tensor:
    """The highest of each row's scores, ``[nnz, heads] -> [m, heads]``."""
    if has_csr(scores):
        return torch.segment_reduce(scores, "max", offsets=pattern.crow, axis=0, unsafe=True)
    rows = pattern.row.long().unsqueeze(1).expand_as(scores)
    lowest = scores.new_full((pattern.shape[0], scores.shape[1]), -math.inf)
    return lowest.scatter_reduce_(0, rows, scores, "amax")


def _incidence(
    nodes: int, crow: Tensor, edges: Tensor, node: Tensor, place: Tensor, dtype: torch.dtype
) -> SparseOperator:
    """Ones ``[nodes, E]`` at the edges of each node.

    A node's edges are ``edges[crow[node] : crow[node + 1]]``; edge e belongs to ``node[e]`` and
    stands at ``place[e]`` of ``edges``.
    """
    with constants():
        starts = torch.arange(len(edges) + 1, dtype=edges.dtype, device=edges.device)
        pattern = SparsePattern((nodes, len(edges)), crow, edges, starts, node, place, edges)
        return SparseOperator(pattern, torch.ones(len(edges), dtype=dtype, device=edges.device))


def _block_diagonal(pattern: SparsePattern, copies: int) -> SparsePattern:
    with constants():
        block = torch.arange(copies, device=pattern.col.device).unsqueeze(1)
        m, n = pattern.shape
        col = (pattern.col + block * n).reshape(-1)
        crow = _repeated_starts(pattern, copies)
        return SparsePattern.from_csr(crow, col, (m * copies, n * copies))


def _kept(
    kept: _Kept, pattern: SparsePattern, copies: int, make: Callable[..., SparsePattern]
) -> SparsePattern:
    """What is made of a pattern once and kept with it."""
    made = kept.setdefault(pattern, {})
    if copies not in made:
        with constants():
            made[copies] = make(pattern, copies)
    return made[copies]


def _by_part(pattern: SparsePattern, parts: int) -> SparsePattern:
    """The pattern ``[n, n * parts]`` with ``parts`` neighboring entries for every entry."""
    part = torch.arange(parts, device=pattern.col.device)
    col = (pattern.col.long().unsqueeze(1) * parts + part).reshape(-1)
    shape = (pattern.shape[0], pattern.shape[1] * parts)
    return SparsePattern.from_csr(pattern.crow.long() * parts, col, shape)


def _repeated(pattern: SparsePattern, copies: int) -> SparsePattern:
    """The pattern ``[copies * m, n]`` of a matrix below itself."""
    crow = _repeated_starts(pattern, copies)
    m, n = pattern.shape
    return SparsePattern.from_csr(crow, pattern.col.repeat(copies), (m * copies, n))


def _repeated_starts(pattern: SparsePattern, copies: int) -> Tensor:
    block = torch.arange(copies, device=pattern.col.device).unsqueeze(1)
    ends = pattern.crow[1:] + block * pattern.nnz
    return torch.cat([ends.new_zeros(1), ends.reshape(-1)])
