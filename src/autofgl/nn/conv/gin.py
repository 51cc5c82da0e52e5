"""Convolution of the graph isomorphism network (GIN)."""

from typing import cast

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import Linear, reset_children
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class GINConv(Convolution):
    r"""The operator of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ with a perceptron of two layers.

    .. math::
        \mathbf{X}^{\prime} = \mathrm{MLP} \left( (\mathbf{A} + (1 + \epsilon) \mathbf{I})
        \mathbf{X} \right)

    There is no batch normalization; a network of one's own may have it.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        hidden_channels: Width of the hidden layer; that of the output if None.
        train_eps: Whether :math:`\epsilon` is trained; otherwise it stays 0.
    """

    eps: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int | None = None,
        train_eps: bool = False,
    ) -> None:
        super().__init__()
        hidden = out_channels if hidden_channels is None else hidden_channels
        self.nn = nn.Sequential(
            Linear(in_channels, hidden), nn.ReLU(), Linear(hidden, out_channels)
        )
        if train_eps:
            self.eps = nn.Parameter(torch.zeros(1))
        else:
            self.register_buffer("eps", torch.zeros(1))

    def reset_parameters(self, generator: Rng = None) -> None:
        """Torch's default for linear layers; ε = 0."""
        reset_children(self.nn, generator)
        nn.init.zeros_(self.eps)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        first = cast(Linear, self.nn[0])
        if isinstance(x, Tensor) and first.grows(x) and not structure.crosses:
            hidden = first.add_bias(first.product(self._with_neighbors(x, structure)))
        else:
            hidden = first.add_bias(self._with_neighbors(first.product(x), structure))
        out: Tensor = self.nn[1:](hidden)
        return out

    def _with_neighbors(self, x: Tensor, structure: Structure) -> Tensor:
        return structure.sum @ x + (1 + self.eps) * x
