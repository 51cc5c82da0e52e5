"""Networks as plain operations on an edge list, which other programs can run.

Our operators multiply in torch's CSR layout and are laid out before: no exporter follows that. Here
the same products gather and scatter along ``edge_index``, in operations that ONNX has too, for any
number of nodes and edges. It is for what is handed on: training is several times faster as it is.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from autofgl.nn.features import Scaling
from autofgl.nn.models.base import GNN
from autofgl.nn.models.own import OwnNetwork


class PortableNetwork(nn.Module):
    """A trained network from node features and an edge list to class scores.

    Args:
        network: In evaluation mode.
        weighted: Whether edges have weights.
    """

    def __init__(self, network: GNN, weighted: bool = False) -> None:
        super().__init__()
        self.network = network
        self.scaling: Scaling = network.scales_features
        self.weighted = weighted

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Scores ``[n, classes]`` of features ``[n, F]``, edges ``[2, E]`` and weights ``[E]``."""
        x = _scaled(x, self.scaling)
        if isinstance(self.network, OwnNetwork):
            return self.network.call(x, edge_index, edge_weight)
        edges: Any = EdgeList(edge_index, x.shape[0], x.dtype, edge_weight)
        return self.network.logits(x, edges, None)


class EdgeList:
    """The operators of a :class:`~autofgl.nn.structure.Structure`, made anew in each call.

    A self loop counts as in the structure; where a node has several of them and weights, they add
    up. One more edge, which weighs and counts nothing, is there so that no tensor is ever empty:
    runtimes differ in what they make of empty sums.
    """

    def __init__(
        self, edge_index: Tensor, nodes: int, dtype: torch.dtype, weight: Tensor | None
    ) -> None:
        self.edge_index = edge_index
        ends = torch.cat([edge_index, edge_index.new_zeros(2, 1)], dim=1)
        self.source, self.target = ends[0], ends[1]
        self.nodes = nodes
        self.dtype = dtype
        ones = torch.ones_like(edge_index[0], dtype=dtype)
        self._ones = torch.cat([ones, ones.new_zeros(1)])
        self._weight = self._ones if weight is None else torch.cat([weight, ones.new_zeros(1)])
        self._proper = (self.source != self.target).to(dtype)
        self._weighted = weight is not None

    @cached_property
    def gcn(self) -> "EdgeOperator":
        """See :attr:`Structure.gcn <autofgl.nn.structure.Structure.gcn>`."""
        values = self._weight * self._proper
        own = torch.ones_like(self._degree(values))
        if self._weighted:
            loops = self._ones * (1 - self._proper)
            given = self._degree(self._weight * loops)
            own = torch.where(self._degree(loops) > 0, given, own)
        scale = _inverse_root(self._degree(values) + own)
        values = values * scale.index_select(0, self.source) * scale.index_select(0, self.target)
        return EdgeOperator(self, values, own * scale * scale)

    @cached_property
    def symmetric(self) -> "EdgeOperator":
        """See :attr:`Structure.symmetric <autofgl.nn.structure.Structure.symmetric>`."""
        scale = _inverse_root(self._degree(self._weight))
        return EdgeOperator(
            self,
            self._weight * scale.index_select(0, self.source) * scale.index_select(0, self.target),
        )

    @cached_property
    def mean(self) -> "EdgeOperator":
        """See :attr:`Structure.mean <autofgl.nn.structure.Structure.mean>`."""
        degree = self._degree(self._ones).clamp(min=1)
        return EdgeOperator(self, self._ones / degree.index_select(0, self.target))

    @cached_property
    def sum(self) -> "EdgeOperator":
        """See :attr:`Structure.sum <autofgl.nn.structure.Structure.sum>`."""
        return EdgeOperator(self, self._ones)

    @cached_property
    def weighted_sum(self) -> "EdgeOperator":
        """See :attr:`Structure.weighted_sum <autofgl.nn.structure.Structure.weighted_sum>`."""
        return EdgeOperator(self, self._weight)

    @cached_property
    def attention(self) -> "EdgeAttention":
        """See :attr:`Structure.attention <autofgl.nn.structure.Structure.attention>`."""
        nodes = torch.arange(self.nodes, device=self.source.device)
        source, target = torch.cat([self.source, nodes]), torch.cat([self.target, nodes])
        kept = torch.cat([self._proper, torch.ones_like(nodes, dtype=self.dtype)]) > 0
        return EdgeAttention(source, target, kept, self.nodes)

    @cached_property
    def end_degrees(self) -> Tensor:
        """See :attr:`Structure.end_degrees <autofgl.nn.structure.Structure.end_degrees>`."""
        degree = self._degree(self._ones)
        return torch.stack(
            [degree.index_select(0, self.source), degree.index_select(0, self.target)], dim=1
        )

    #: No rows of other clients are taken in.
    crosses = False

    def joined(self, x: Tensor) -> Tensor:
        """All nodes are here."""
        return x

    def joined_together(self, *many: Tensor) -> tuple[Tensor, ...]:
        """The same for several vectors."""
        return many

    def own_rows(self, x: Tensor) -> Tensor:
        """All rows."""
        return x

    @property
    def joined_sum(self) -> "EdgeOperator":
        """See :attr:`Structure.joined_sum <autofgl.nn.structure.Structure.joined_sum>`."""
        return self.sum

    def mixed_mean(self, weights: Tensor, messages: Tensor) -> Tensor:
        """See :meth:`Structure.mixed_mean <autofgl.nn.structure.Structure.mixed_mean>`."""
        return self._all.mixed_mean(weights, messages)

    def softmax_sum(self, messages: Tensor) -> Tensor:
        """See :meth:`Structure.softmax_sum <autofgl.nn.structure.Structure.softmax_sum>`."""
        sent = messages.index_select(0, self.source)
        weighted = self._all.softmax(sent) * sent
        return torch.zeros_like(messages).index_add(0, self.target, weighted)

    @property
    def _all(self) -> "EdgeAttention":
        """The edges as they are, without added self loops."""
        return EdgeAttention(self.source, self.target, self._ones > 0, self.nodes)

    def _degree(self, values: Tensor) -> Tensor:
        """What arrives at each node, ``[n]``."""
        return values.new_zeros(self.nodes).index_add(0, self.target, values)


class EdgeOperator:
    """A sparse matrix on an edge list: values ``[E]``, and ``[n]`` on the diagonal if there are."""

    def __init__(self, edges: EdgeList, values: Tensor, diagonal: Tensor | None = None) -> None:
        self._edges, self._values, self._diagonal = edges, values, diagonal

    def __matmul__(self, dense: Tensor) -> Tensor:
        """``[n, n] @ [n, k] -> [n, k]``."""
        messages = self._values.unsqueeze(1) * dense.index_select(0, self._edges.source)
        out = torch.zeros_like(dense).index_add(0, self._edges.target, messages)
        return out if self._diagonal is None else out + self._diagonal.unsqueeze(1) * dense


class EdgeAttention:
    """What :class:`~autofgl.nn.kernels.attention.AttentionPattern` does, on an edge list."""

    def __init__(self, source: Tensor, target: Tensor, kept: Tensor, nodes: int) -> None:
        self._source, self._target, self._kept, self._nodes = source, target, kept, nodes
        self.over_sources = _HandedOut(source)
        self.over_targets = _HandedOut(target)

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the edges of each target, ``[E, heads] -> [E, heads]``."""
        scores = scores.masked_fill(~self._kept.unsqueeze(1), -1e30)
        lowest = scores.new_full((self._nodes, scores.shape[1]), -1e30)
        place = self._target.unsqueeze(1).expand_as(scores)
        highest = lowest.scatter_reduce(0, place, scores, "amax")
        shares = (scores - highest.index_select(0, self._target)).exp() * self._kept.unsqueeze(1)
        total = torch.zeros_like(lowest).index_add(0, self._target, shares)
        return shares / total.clamp(min=1).index_select(0, self._target)

    def weighted_sum(self, weights: Tensor, x: Tensor) -> Tensor:
        """``[E, heads]`` and messages ``[heads, n, C]`` to ``[heads, n, C]``."""
        heads, _, width = x.shape
        sent = x.transpose(0, 1).index_select(0, self._source)  # [E, heads, C]
        flat = (sent * weights.unsqueeze(2)).reshape(-1, heads * width)
        out = flat.new_zeros(self._nodes, heads * width).index_add(0, self._target, flat)
        return out.view(-1, heads, width).transpose(0, 1)

    def inner(self, targets: Tensor, sources: Tensor) -> Tensor:
        """Inner products of the rows at each edge's two ends, ``[E]``."""
        rows = targets.index_select(0, self._target)
        return (rows * sources.index_select(0, self._source)).sum(1)

    def mixed_mean(self, weights: Tensor, messages: Tensor) -> Tensor:
        """Weights ``[E, K]`` and messages ``[n, K * C]`` to ``[n, C]``."""
        parts = weights.shape[1]
        rows = messages.view(messages.shape[0], parts, -1).index_select(
            0, self._source
        )  # [E, K, C]
        kept = self._kept.to(rows.dtype)
        sent = (rows * (weights * kept.unsqueeze(1)).unsqueeze(2)).sum(1)
        total = sent.new_zeros(self._nodes, sent.shape[1]).index_add(0, self._target, sent)
        degree = kept.new_zeros(self._nodes).index_add(0, self._target, kept)
        return total / degree.clamp(min=1).unsqueeze(1)


class _HandedOut:
    """An incidence whose transpose hands each edge what belongs to one of its ends."""

    def __init__(self, index: Tensor) -> None:
        self._index = index

    @property
    def T(self) -> "_HandedOut":
        return self

    def __matmul__(self, dense: Tensor) -> Tensor:
        return dense.index_select(0, self._index)


def _inverse_root(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, degree.clamp(min=1e-30).pow(-0.5), 0.0)


def _scaled(x: Tensor, how: Scaling) -> Tensor:
    """Rows as :meth:`autofgl.nn.features.InputFeatures.scaled` has them."""
    if not how:
        return x
    size: Callable[[Tensor], Tensor] = torch.abs if how != "unit" else torch.square
    total = size(x).sum(1, keepdim=True)
    total = total.sqrt() if how == "unit" else total
    return x / torch.where(total == 0, 1.0, total)
