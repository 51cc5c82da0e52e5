"""Gated graph sequence convolution."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.errors import UserError
from autofgl.nn import init
from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.structure import Structure


class GRUCell(nn.Module):
    """A gated recurrent unit, as torch's, drawn from an explicit generator.

    Args:
        channels: Width of the input and of the state.
        bias: Whether to add biases.

    Shapes:
        - **input:** message ``[n, channels]``, state ``[n, channels]``
        - **output:** ``[n, channels]``
    """

    def __init__(self, channels: int, bias: bool = True) -> None:
        super().__init__()
        self.channels = channels
        self.weight_ih = nn.Parameter(torch.empty(3 * channels, channels))
        self.weight_hh = nn.Parameter(torch.empty(3 * channels, channels))
        self.bias_ih = nn.Parameter(torch.empty(3 * channels)) if bias else None
        self.bias_hh = nn.Parameter(torch.empty(3 * channels)) if bias else None

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Torch's default for recurrent cells."""
        for parameter in self.parameters():
            init.uniform(parameter, self.channels, generator)

    def forward(self, message: Tensor, state: Tensor) -> Tensor:
        """The next state."""
        return torch.gru_cell(
            message, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )


class GatedGraphConv(Convolution):
    r"""The operator of `"Gated Graph Sequence Neural Networks"
    <https://arxiv.org/abs/1511.05493>`_.

    .. math::
        \mathbf{H}^{(0)} = \mathbf{X} \, \Vert \, \mathbf{0}, \quad
        \mathbf{H}^{(l+1)} = \mathrm{GRU} \left( \mathbf{A} \mathbf{H}^{(l)} \mathbf{\Theta}_l,
        \mathbf{H}^{(l)} \right)

    Args:
        out_channels: Width of the output; narrower input is padded with zeros.
        num_layers: Number of steps.
        bias: Whether the recurrent unit has biases.

    Shapes:
        - **input:** ``[n, C]``, C at most ``out_channels``
        - **output:** ``[n, out_channels]``
    """

    def __init__(self, out_channels: int, num_layers: int, bias: bool = True) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.weight = nn.Parameter(torch.empty(num_layers, out_channels, out_channels))
        self.rnn = GRUCell(out_channels, bias=bias)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Uniform in ±1/√out_channels."""
        init.uniform(self.weight, self.out_channels, generator)
        self.rnn.reset_parameters(generator)

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
            state = self.rnn(structure.sum @ (state @ weight), state)
        return state
