"""Convolution of the simplified graph convolutional network (SGC)."""

import torch
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

    With a probability :math:`\alpha` of going back to the start, the power is personalized PageRank
    in K steps, as in :class:`~autofgl.nn.conv.appnp.APPNPConv`; the bias is not propagated.
    """

    def __init__(self, in_channels: int, out_channels: int, K: int = 1, alpha: float = 0.0) -> None:
        super().__init__()
        self.K = K
        self.alpha = alpha
        self.lin = Linear(in_channels, out_channels)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        if isinstance(x, Tensor) and self.lin.grows(x) and not structure.crosses:
            out: Tensor = self.lin(self._hops(structure.gcn, x))
            return out
        return self.lin.add_bias(self._hops(structure.gcn, self.lin.product(x)))

    def _hops(self, operator: SparseOperator, x: Tensor) -> Tensor:
        if self.alpha:
            start = x * self.alpha
            for _ in range(self.K):
                x = torch.add(start, operator @ x, alpha=1 - self.alpha)
            return x
        for _ in range(self.K):
            x = operator @ x
        return x
