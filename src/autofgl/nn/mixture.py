"""Sums of several messages along every edge, each with a weight of its own."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from autofgl.nn.operation import constants
from autofgl.nn.sparse import SparsePattern, spmm

_KEPT: WeakKeyDictionary[SparsePattern, dict[int, SparsePattern]] = WeakKeyDictionary()


def mixed_sum(pattern: SparsePattern, weights: Tensor, messages: Tensor) -> Tensor:
    r"""For each target :math:`i`, :math:`\sum_j \sum_k w_{ij,k} \, \mathbf{m}_{j,k}`.

    Read by node and part, the messages are the rows of a matrix ``[n * K, C]`` and the weights the
    entries of a sparse matrix ``[n, n * K]``: one product, and nothing is rearranged.

    Args:
        pattern: A row per target, a column per source, ``[n, n]`` with E entries.
        weights: ``[E, K]``.
        messages: ``[n, K, C]`` or ``[n, K * C]``.

    Returns:
        ``[n, C]``.
    """
    parts = weights.shape[1]
    width = messages.shape[-1] if messages.dim() == 3 else messages.shape[1] // parts
    rows = messages.reshape(-1, width)
    return spmm(_by_part(pattern, parts), weights.reshape(-1), rows)


def _by_part(pattern: SparsePattern, parts: int) -> SparsePattern:
    """The pattern ``[n, n * parts]`` with ``parts`` neighbouring entries for every entry."""
    kept = _KEPT.setdefault(pattern, {})
    if parts not in kept:
        with constants():
            part = torch.arange(parts, device=pattern.col.device)
            col = (pattern.col.long().unsqueeze(1) * parts + part).reshape(-1)
            shape = (pattern.shape[0], pattern.shape[1] * parts)
            kept[parts] = SparsePattern.from_csr(pattern.crow.long() * parts, col, shape)
    return kept[parts]
