"""Convolution steered by features (FeaStNet)."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class FeaStConv(Convolution):
    r"""The translation-invariant operator of `"FeaStNet: Feature-Steered Graph Convolutions for 3D
    Shape Analysis" <https://arxiv.org/abs/1706.05206>`_ with a weight matrix for each of H heads.

    .. math::
        \mathbf{x}^{\prime}_i = \mathbf{b} + \frac{1}{|\mathcal{N}(i)| + 1}
        \sum_{j \in \mathcal{N}(i) \cup \{i\}} \sum_{h=1}^H q_h(\mathbf{x}_i, \mathbf{x}_j)
        \mathbf{W}_h \mathbf{x}_j, \quad q(\mathbf{x}_i, \mathbf{x}_j) = \mathrm{softmax}_h \left(
        \mathbf{u}_h^{\top} (\mathbf{x}_j - \mathbf{x}_i) + c_h \right)
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.lin = Linear(in_channels, heads * out_channels, bias=False)
        self.u = Linear(in_channels, heads, bias=False)
        self.c = nn.Parameter(torch.empty(heads))
        self.bias = nn.Parameter(torch.empty(out_channels))

    def reset_parameters(self, generator: Rng = None) -> None:
        """Uniform weights; offsets and bias are normal with deviation 0.1."""
        self.lin.reset_parameters(generator)
        self.u.reset_parameters(generator)
        nn.init.normal_(self.c, std=0.1, generator=generator)
        nn.init.normal_(self.bias, std=0.1, generator=generator)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        steering, messages = structure.joined_together(self.u(x), self.lin(x))  # [n, heads]
        weights = self.edge_weights(steering, structure)
        return structure.attention.mixed_mean(weights, messages) + self.bias

    def edge_weights(self, steering: Tensor, structure: Structure) -> Tensor:
        r"""The heads' shares in every edge, ``[E, H]``, from :math:`\mathbf{u}_h^{\top}
        \mathbf{x}_i` of every node, ``[n, H]``.
        """
        edges, targets = structure.attention, structure.own_rows(steering)
        scores = edges.over_sources.T @ steering - edges.over_targets.T @ targets
        return torch.softmax(scores + self.c, dim=1)
