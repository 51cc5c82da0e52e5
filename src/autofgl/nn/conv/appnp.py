"""Propagation by personalized PageRank (APPNP)."""

import torch
from torch import Tensor

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.structure import Structure


class APPNPConv(Convolution):
    r"""The propagation of `"Predict then Propagate: Graph Neural Networks meet Personalized
    PageRank" <https://arxiv.org/abs/1810.05997>`_ in K steps. It has no parameters; :math:`\alpha`
    is the probability of going back to the start.

    .. math::
        \mathbf{X}^{(k)} = (1 - \alpha) \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \mathbf{X}^{(k-1)} + \alpha \mathbf{X}^{(0)},
        \quad \mathbf{X}^{\prime} = \mathbf{X}^{(K)}
    """

    def __init__(self, K: int, alpha: float) -> None:
        super().__init__()
        self.K = K
        self.alpha = alpha

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = as_tensor(x)
        start = x * self.alpha
        for _ in range(self.K):
            x = torch.add(start, structure.gcn @ x, alpha=1 - self.alpha)
        return x
