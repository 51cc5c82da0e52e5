"""Convolution of GraphSAGE."""

from torch import Tensor

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.structure import Structure


class SAGEConv(Convolution):
    r"""The operator of `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ with the mean over the neighbors.

    .. math::
        \mathbf{X}^{\prime} = \mathbf{D}^{-1} \mathbf{A} \mathbf{X} \mathbf{W}_l + \mathbf{b}
        + \mathbf{X} \mathbf{W}_r
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_l = Linear(in_channels, out_channels)
        self.lin_r = Linear(in_channels, out_channels, bias=False)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        out = self.lin_l.add_bias(self.lin_l.propagate(structure.mean, x))
        return out + self.lin_r.product(x)
