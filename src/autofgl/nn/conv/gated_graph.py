"""Convolution of the gated graph network."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.errors import UserError
from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.linear import uniform
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class GatedGraphConv(Convolution):
    r"""The operator of `"Gated Graph Sequence Neural Networks"
    <https://arxiv.org/abs/1511.05493>`_ with a step for each of ``num_layers``.

    .. math::
        \mathbf{H}^{(0)} = \mathbf{X} \, \Vert \, \mathbf{0}, \quad
        \mathbf{H}^{(l+1)} = \mathrm{GRU} \left( \mathbf{A} \mathbf{H}^{(l)} \mathbf{\Theta}_l,
        \mathbf{H}^{(l)} \right)

    Shapes: ``[n, C]``, C at most ``out_channels`` → ``[n, out_channels]``.
    """

    def __init__(self, out_channels: int, num_layers: int) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.weight = nn.Parameter(torch.empty(num_layers, out_channels, out_channels))
        unset = nn.GRUCell(out_channels, out_channels, device="meta")  # draws nothing
        self.rnn = unset.to_empty(device=self.weight.device)

    def reset_parameters(self, generator: Rng = None) -> None:
        """Uniform in ±1/√out_channels."""
        for parameter in (self.weight, *self.rnn.parameters()):
            uniform(parameter, self.out_channels, generator)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = as_tensor(x)
        missing = self.out_channels - x.shape[1]
        if missing < 0:
            raise UserError(
                f"GatedGraphConv of width {self.out_channels} cannot take {x.shape[1]} channels: "
                "map them to fewer first"
            )
        state = functional.pad(x, (0, missing)) if missing else x
        for weight in self.weight:
            state = self.rnn(structure.weighted_sum @ (state @ weight), state)
        return state
