"""From the outputs of paths to the losses of networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from autofgl.nn.sparse import SparseOperator, SparsePattern
from autofgl.nn.supernet.field import Field


def fusion_operator(
    members: Sequence[tuple[int, ...]], order: Sequence[int], dtype: torch.dtype
) -> SparseOperator:
    """The matrix ``[networks, paths]`` that takes each network's mean over its paths."""
    column = {path: index for index, path in enumerate(order)}
    row = torch.tensor([index for index, paths in enumerate(members) for _ in paths])
    col = torch.tensor([column[path] for paths in members for path in paths])
    share = torch.tensor([1 / len(paths) for paths in members for _ in paths], dtype=dtype)
    pattern, arranged = SparsePattern.from_coo(row, col, (len(members), len(order)))
    return SparseOperator(pattern, share[arranged])


def node_losses(scores: Tensor, field: Field) -> Tensor:
    """Cross-entropy of each network at each measured node, ``[A, T]``."""
    labels = field.labels.repeat(len(scores))
    losses = functional.cross_entropy(scores.reshape(len(labels), -1), labels, reduction="none")
    return losses.view(len(scores), -1)


def mean_losses(scores: Tensor, field: Field) -> Tensor:
    """Mean cross-entropy of each network, ``[A]``; zero without nodes."""
    return node_losses(scores, field).sum(1) / max(1, field.measured)


def part_sums(scores: Tensor, field: Field) -> Tensor:
    """Loss sum, correct predictions and number of nodes of each part, ``[A, parts, 3]``."""
    losses = node_losses(scores, field).double()
    correct = (scores.argmax(2) == field.labels).double()
    rows = torch.stack([losses, correct, torch.ones_like(losses)], dim=2)
    return torch.stack([rows[:, part].sum(1) for part in field.parts], dim=1)
