"""Convolution with a mixture of Gaussians (GMM)."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear, glorot
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure

_TINY = 1e-15


class GMMConv(Convolution):
    r"""The operator of `"Geometric Deep Learning on Graphs and Manifolds using Mixture Model CNNs"
    <https://arxiv.org/abs/1611.08402>`_ (MoNet) with a mixture of K = ``kernel_size`` Gaussians.

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)}
        \sum_{k=1}^K w_k(\mathbf{e}_{ij}) \, \mathbf{\Theta}_k \mathbf{x}_j + \mathbf{W}
        \mathbf{x}_i + \mathbf{b}, \quad w_k(\mathbf{e}) = \exp \left( -\frac{1}{2} \sum_d
        \frac{(e_d - \mu_{kd})^2}{\sigma_{kd}^2} \right)

    The coordinates of an edge come from the degrees of its ends, as in MoNet's experiment on Cora;
    see :func:`pseudo_coordinates`. As in PyG's code, and unlike its formula, there is no 1/K.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.empty(in_channels, out_channels * kernel_size))
        self.mu = nn.Parameter(torch.empty(kernel_size, 2))
        self.sigma = nn.Parameter(torch.empty(kernel_size, 2))
        self.root = Linear(in_channels, out_channels, bias=False, scheme="glorot")
        self.bias = nn.Parameter(torch.empty(out_channels))

    def reset_parameters(self, generator: Rng = None) -> None:
        """Glorot weights, means and deviations, zero bias."""
        for parameter in (self.g, self.mu, self.sigma, self.root.weight):
            glorot(parameter, generator)
        nn.init.zeros_(self.bias)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        messages = structure.joined(x @ self.g)
        out = structure.mixed_mean(self.edge_weights(structure), messages)
        return out + self.root.product(x) + self.bias

    def edge_weights(self, structure: Structure) -> Tensor:
        """The Gaussians at every edge, ``[E, K]``; see :func:`pseudo_coordinates`."""
        offsets = pseudo_coordinates(structure).unsqueeze(1) - self.mu  # [E, K, 2]
        distance = offsets.square() / (_TINY + self.sigma.square())
        return torch.exp(-0.5 * distance.sum(-1))


def pseudo_coordinates(structure: Structure) -> Tensor:
    r"""For each edge, :math:`((1 + d_j)^{-1/2}, (1 + d_i)^{-1/2})` of its source and target.

    MoNet has :math:`d^{-1/2}`; one is added, as the authors of FL-AGCNS do, so that a source
    without incoming edges has a finite coordinate.

    Returns:
        ``[E, 2]``, in the order of ``structure.unweighted_symmetric``.
    """
    return (structure.end_degrees + 1).rsqrt()
