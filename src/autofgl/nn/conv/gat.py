"""Convolution of the graph attention network (GAT)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure

_NEGATIVE_SLOPE = 0.2


class GATConv(Convolution):
    r"""The operator of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_{j \in \mathcal{N}(i) \cup \{i\}} \alpha_{ij}
        \mathbf{\Theta} \mathbf{x}_j, \quad \alpha_{ij} = \mathrm{softmax}_j \left(
        \mathrm{LeakyReLU} \left( \mathbf{a}_s^{\top} \mathbf{\Theta} \mathbf{x}_j +
        \mathbf{a}_t^{\top} \mathbf{\Theta} \mathbf{x}_i \right) \right)

    Args:
        in_channels: Width of the input.
        out_channels: Width of each head.
        heads: Number of heads.
        concat: Whether to concatenate the heads; otherwise their mean is taken.
        dropout: Dropout on the attention coefficients.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.dropout = dropout
        self.lin = Linear(in_channels, heads * out_channels, bias=False, scheme="glorot")
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.bias = nn.Parameter(torch.empty(heads * out_channels if concat else out_channels))

    def forward(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """Convolve; the generator drives the dropout of coefficients."""
        mapped = structure.joined(self.lin(x))
        edges = structure.attention
        messages = mapped.view(-1, self.heads, self.out_channels).transpose(0, 1).contiguous()
        weights = edges.softmax(self._scores(structure, messages))
        weights = dropout(weights, self.dropout, self.training, generator)
        out = edges.weighted_sum(weights, messages)  # [heads, n, out_channels]
        if self.concat:
            return out.transpose(0, 1).reshape(-1, len(self.bias)) + self.bias
        return out.mean(0) + self.bias

    def _scores(self, structure: Structure, messages: Tensor) -> Tensor:
        """Unnormalized coefficients ``[E, heads]`` of messages ``[heads, n, out_channels]``."""
        vectors = torch.stack([self.att_src[0], self.att_dst[0]], dim=-1)  # [heads, C, 2]
        source, target = torch.bmm(messages, vectors).permute(2, 1, 0).contiguous()  # [n, heads]
        edges = structure.attention
        targets = structure.own_rows(target)
        scores = edges.over_sources.T @ source + edges.over_targets.T @ targets
        return functional.leaky_relu(scores, _NEGATIVE_SLOPE)
