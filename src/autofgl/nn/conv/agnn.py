"""Convolution with attention by cosine similarity (AGNN)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class AGNNConv(Convolution):
    r"""The operator of `"Attention-based Graph Neural Network for Semi-supervised Learning"
    <https://arxiv.org/abs/1803.03735>`_, attention by cosine similarity.

    .. math::
        \mathbf{X}^{\prime} = \mathbf{P} \mathbf{X}, \quad P_{ij} = \mathrm{softmax}_{j \in
        \mathcal{N}(i) \cup \{i\}} \left( \beta \cdot \cos(\mathbf{x}_i, \mathbf{x}_j) \right)

    Without ``requires_grad``, :math:`\beta` is not trained and stays 1.
    """

    beta: Tensor

    def __init__(self, requires_grad: bool = True) -> None:
        super().__init__()
        if requires_grad:
            self.beta = nn.Parameter(torch.ones(1))
        else:
            self.register_buffer("beta", torch.ones(1))

    def reset_parameters(self, generator: Rng = None) -> None:  # noqa: ARG002
        """β = 1; nothing is drawn."""
        nn.init.ones_(self.beta)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = structure.joined(as_tensor(x))
        edges = structure.attention
        unit = functional.normalize(x, dim=-1)
        cosines = edges.inner(structure.own_rows(unit), unit)
        weights = edges.softmax((self.beta * cosines).unsqueeze(1))
        return edges.weighted_sum(weights, x.unsqueeze(0)).squeeze(0)
