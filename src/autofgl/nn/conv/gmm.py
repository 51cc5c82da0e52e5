"""Convolution with a mixture of Gaussians over pseudo-coordinates."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.attention import mixed_sum
from autofgl.nn.kernels.linear import Linear, glorot
from autofgl.nn.kernels.operation import Rng, constants
from autofgl.nn.structure import Structure

_TINY = 1e-15


class GMMConv(Convolution):
    r"""The operator of `"Geometric Deep Learning on Graphs and Manifolds using Mixture Model CNNs"
    <https://arxiv.org/abs/1611.08402>`_ (MoNet).

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)}
        \sum_{k=1}^K w_k(\mathbf{e}_{ij}) \, \mathbf{\Theta}_k \mathbf{x}_j + \mathbf{W}
        \mathbf{x}_i + \mathbf{b}, \quad w_k(\mathbf{e}) = \exp \left( -\frac{1}{2} \sum_d
        \frac{(e_d - \mu_{kd})^2}{\sigma_{kd}^2} \right)

    The coordinates of an edge come from the degrees of its ends, as in MoNet's experiment on Cora;
    see :func:`pseudo_coordinates`. As in PyG's code, and unlike its formula, there is no 1/K.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        kernel_size: Number :math:`K` of Gaussians.
        root_weight: Whether to add the node's own :math:`\mathbf{W} \mathbf{x}_i`.
        bias: Whether to add :math:`\mathbf{b}`.

    Shapes: ``[n, in_channels]`` → ``[n, out_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        root_weight: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.empty(in_channels, out_channels * kernel_size))
        self.mu = nn.Parameter(torch.empty(kernel_size, 2))
        self.sigma = nn.Parameter(torch.empty(kernel_size, 2))
        glorot = Linear(in_channels, out_channels, bias=False, scheme="glorot")
        self.root = glorot if root_weight else None
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def reset_parameters(self, generator: Rng = None) -> None:
        """Glorot weights, means and deviations, zero bias."""
        for parameter in (self.g, self.mu, self.sigma):
            glorot(parameter, generator)
        if self.root is not None:
            self.root.reset_parameters(generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        pattern = structure.symmetric.pattern
        weights = self._gaussians(pseudo_coordinates(structure))
        out = mixed_sum(pattern, weights, x @ self.g)
        out = out / pattern.crow.diff().clamp(min=1).unsqueeze(1)
        out = out if self.root is None else out + self.root(x)
        return out if self.bias is None else out + self.bias

    def _gaussians(self, coordinates: Tensor) -> Tensor:
        """``[E, 2] -> [E, K]``."""
        distance = (coordinates.unsqueeze(1) - self.mu).square() / (_TINY + self.sigma.square())
        return torch.exp(-0.5 * distance.sum(-1))


def pseudo_coordinates(structure: Structure) -> Tensor:
    r"""For each edge, :math:`((1 + d_j)^{-1/2}, (1 + d_i)^{-1/2})` of its source and target.

    MoNet has :math:`d^{-1/2}`; one is added, as the authors of FL-AGCNS do, so that a source
    without incoming edges has a finite coordinate. The degree of a source is read off
    :math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}`, which holds it even where a structure
    has only some of a graph's rows.

    Returns:
        ``[E, 2]``, in the order of ``structure.symmetric``.
    """
    with constants():
        operator = structure.symmetric
        target = operator.pattern.crow.diff().to(structure.dtype)
        target = target.index_select(0, operator.pattern.row)
        product = operator.values.square() * target  # 1 / d of the source, or 0
        source = torch.where(product > 0, 1 / product, 0.0).round()
        return torch.stack([source, target], dim=1).add_(1).rsqrt_()
