"""GraphSAGE convolution with the mean aggregator."""

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

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        root_weight: Whether to add the node's own :math:`\mathbf{X} \mathbf{W}_r`.
        bias: Whether to add :math:`\mathbf{b}`.

    Shapes: ``[n, in_channels]`` → ``[n, out_channels]``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, root_weight: bool = True, bias: bool = True
    ) -> None:
        super().__init__()
        self.lin_l = Linear(in_channels, out_channels, bias=bias)
        self.lin_r = Linear(in_channels, out_channels, bias=False) if root_weight else None

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        out = self.lin_l.add_bias(self.lin_l.propagate(structure.mean, x))
        return out if self.lin_r is None else out + self.lin_r(x)
