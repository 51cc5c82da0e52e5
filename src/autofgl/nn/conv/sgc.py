"""Convolution of the simplified graph convolutional network (SGC)."""

from torch import Tensor

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.sparse import SparseOperator
from autofgl.nn.structure import Structure


class SGConv(Convolution):
    r"""The operator of `"Simplifying Graph Convolutional Networks"
    <https://arxiv.org/abs/1902.07153>`_ with K hops.

    .. math::
        \mathbf{X}^{\prime} = \left(\tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \right)^K \mathbf{X} \mathbf{\Theta} + \mathbf{b}
    """

    def __init__(self, in_channels: int, out_channels: int, K: int = 1) -> None:
        super().__init__()
        self.K = K
        self.lin = Linear(in_channels, out_channels)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        if isinstance(x, Tensor) and self.lin.grows(x) and not structure.crosses:
            out: Tensor = self.lin(self._hops(structure.gcn, x))
            return out
        return self.lin.add_bias(self._hops(structure.gcn, self.lin.product(x)))

    def _hops(self, operator: SparseOperator, x: Tensor) -> Tensor:
        for _ in range(self.K):
            x = operator @ x
        return x
