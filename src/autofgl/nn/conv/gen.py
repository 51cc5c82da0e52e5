"""Generalized aggregation."""

from typing import cast

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.attention import AttentionPattern
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.structure import Structure

#: Exponents of single precision go down to about -87; beyond this range sums might vanish.
_SAFE_RANGE = 60.0


class GENConv(Convolution):
    r"""The operator of `"DeeperGCN: All You Need to Train Deeper GCNs"
    <https://arxiv.org/abs/2006.07739>`_ with softmax aggregation.

    .. math::
        \mathbf{x}^{\prime}_i = \mathrm{MLP} \left( \mathbf{x}_i + \sum_{j \in \mathcal{N}(i)}
        \frac{\exp(t \, \mathbf{m}_j)}{\sum_{k \in \mathcal{N}(i)} \exp(t \, \mathbf{m}_k)} \odot
        \mathbf{m}_j \right), \quad \mathbf{m}_j = \mathrm{ReLU}(\mathbf{x}_j) + \epsilon

    A message depends on its sender alone, so that the aggregation is a quotient of two sums over
    neighbors, and no message is laid out per edge. The perceptron has no batch normalization
    (PyG's ``norm=None``): its running statistics would not federate.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output; other input is first mapped to it.
        t: Inverse temperature of the softmax.
        expansion: Width of the perceptron's hidden layer, in multiples of the output's.
        eps: The small :math:`\epsilon`.
        bias: Whether the linear maps have biases.

    Shapes: ``[n, in_channels]`` → ``[n, out_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        t: float = 1.0,
        expansion: int = 2,
        eps: float = 1e-7,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.t = t
        self.eps = eps
        if in_channels != out_channels:
            self.lin_src = Linear(in_channels, out_channels, bias=bias)
            self.lin_dst = Linear(in_channels, out_channels, bias=bias)
        hidden = out_channels * expansion
        # The third part stands where PyG has its dropout, so that names agree.
        self.mlp = nn.Sequential(
            Linear(out_channels, hidden, bias=bias),
            nn.ReLU(),
            nn.Identity(),
            Linear(hidden, out_channels, bias=bias),
        )

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        mapped = hasattr(self, "lin_src")
        source = self.lin_src(x) if mapped else as_tensor(x)
        target = self.lin_dst(x) if mapped else source
        messages = torch.relu(source) + self.eps
        return cast(Tensor, self.mlp(self.aggregate(messages, structure) + target))

    def aggregate(self, messages: Tensor, structure: Structure) -> Tensor:
        """Softmax aggregation ``[n, C]``; zero for a node without neighbors."""
        if not len(messages):
            return messages
        scores = self.t * messages
        low, high = scores.detach().aminmax(dim=0, keepdim=True)
        if not bool(((high - low) < _SAFE_RANGE).all()):
            return _edge_by_edge(scores, messages, _edges(structure))
        exponentials = (scores - high).exp()
        both = structure.sum @ torch.cat([exponentials, exponentials * messages], dim=1)
        total, weighted = both.chunk(2, dim=1)
        return weighted / total.masked_fill(total == 0, 1.0)


def _edges(structure: Structure) -> AttentionPattern:
    return AttentionPattern(structure.sum.pattern, structure.dtype)


def _edge_by_edge(scores: Tensor, messages: Tensor, edges: AttentionPattern) -> Tensor:
    """The same with the highest score of every neighborhood taken off, for any range."""
    rows = edges.pattern.col
    weights = edges.softmax(scores.index_select(0, rows))
    weighted = weights * messages.index_select(0, rows)
    return torch.zeros_like(messages).index_add(0, edges.pattern.row, weighted)
