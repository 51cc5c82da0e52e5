"""Convolution of the graph convolutional network (GCN)."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.structure import Structure


class GCNConv(Convolution):
    r"""The operator of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_.

    .. math::
        \mathbf{X}^{\prime} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \mathbf{X} \mathbf{\Theta} + \mathbf{b}
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, bias=False, scheme="glorot")
        self.bias = nn.Parameter(torch.empty(out_channels))

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        return self.lin.propagate(structure.gcn, x) + self.bias
