"""Graph convolution."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class GCNConv(Convolution):
    r"""The operator of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_.

    .. math::
        \mathbf{X}^{\prime} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \mathbf{X} \mathbf{\Theta} + \mathbf{b}

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        bias: Whether to add :math:`\mathbf{b}`.

    Shapes: ``[n, in_channels]`` → ``[n, out_channels]``.
    """

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, bias=False, scheme="glorot")
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def reset_parameters(self, generator: Rng = None) -> None:
        """Glorot weights, zero bias."""
        self.lin.reset_parameters(generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        out = self.lin.propagate(structure.gcn, x)
        return out if self.bias is None else out + self.bias
