"""Convolution with an autoregressive moving average (ARMA) filter."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class ARMAConv(Convolution):
    r"""The operator of `"Graph Neural Networks with Convolutional ARMA Filters"
    <https://arxiv.org/abs/1901.01343>`_, whose steps share their weights.

    .. math::
        \mathbf{X}^{\prime} = \frac{1}{K} \sum_{k=1}^{K} \mathbf{X}_k^{(T)}, \quad
        \mathbf{X}_k^{(t+1)} = \sigma \left( \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}
        \mathbf{X}_k^{(t)} \mathbf{W} + \mathbf{X}^{(0)} \mathbf{V} \right)

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        num_stacks: Number :math:`K` of parallel stacks.
        num_layers: Number :math:`T` of steps.
        act: The activation :math:`\sigma`; None for none.
        dropout: Dropout on the skip connection's :math:`\mathbf{X}^{(0)}`, drawn for every step.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_stacks: int = 1,
        num_layers: int = 1,
        act: Callable[[Tensor], Tensor] | None = torch.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.num_stacks = num_stacks
        self.num_layers = num_layers
        self.act = act
        self.dropout = dropout
        # PyG has weights for every step first; here they are those of the only one.
        self.weight = nn.Parameter(torch.empty(1, num_stacks, out_channels, out_channels))
        self.init_weight = nn.Parameter(torch.empty(num_stacks, in_channels, out_channels))
        self.root_weight = nn.Parameter(torch.empty(1, num_stacks, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(1, num_stacks, 1, out_channels))

    def forward(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """Convolve; the generator drives the dropout of the skip connection."""
        by_stack = (x.shape[0], self.num_stacks, self.out_channels)
        out = _all_stacks(x, self.init_weight)  # [n, stacks * out_channels]
        root = self._root(x, generator)
        for step in range(self.num_layers):
            if step > 0:
                mapped = torch.einsum("nki,kio->nko", out.view(by_stack), self.weight[0])
                out = mapped.reshape(out.shape)
                root = self._root(x, generator) if self.training and self.dropout > 0 else root
            out = structure.symmetric @ out + root
            out = out if self.act is None else self.act(out)
        return out.view(by_stack).mean(1)

    def _root(self, x: NodeInput, generator: Rng) -> Tensor:
        """The skip connection of all stacks."""
        dropped = dropout(x, self.dropout, self.training, generator)
        return _all_stacks(dropped, self.root_weight[0]) + self.bias[0].reshape(-1)


def _all_stacks(x: NodeInput, weight: Tensor) -> Tensor:
    """``x`` times each of the stacks' weights ``[stacks, in, out]``, in one product."""
    return x @ weight.transpose(0, 1).reshape(weight.shape[1], -1)
