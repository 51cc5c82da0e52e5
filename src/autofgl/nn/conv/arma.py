"""Auto-regressive moving-average convolution."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import glorot
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class ARMAConv(Convolution):
    r"""The operator of `"Graph Neural Networks with Convolutional ARMA Filters"
    <https://arxiv.org/abs/1901.01343>`_.

    .. math::
        \mathbf{X}^{\prime} = \frac{1}{K} \sum_{k=1}^{K} \mathbf{X}_k^{(T)}, \quad
        \mathbf{X}_k^{(t+1)} = \sigma \left( \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}
        \mathbf{X}_k^{(t)} \mathbf{W} + \mathbf{X}^{(0)} \mathbf{V} \right)

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        num_stacks: Number :math:`K` of parallel stacks.
        num_layers: Number :math:`T` of steps.
        shared_weights: Whether the steps of a stack share :math:`\mathbf{W}` and
            :math:`\mathbf{V}`.
        act: The activation :math:`\sigma`; None for none.
        dropout: Dropout on the skip connection's :math:`\mathbf{X}^{(0)}`.
        bias: Whether to add a bias.

    Shapes: ``[n, in_channels]`` → ``[n, out_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_stacks: int = 1,
        num_layers: int = 1,
        shared_weights: bool = False,
        act: Callable[[Tensor], Tensor] | None = functional.relu,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.num_stacks = num_stacks
        self.num_layers = num_layers
        self.shared_weights = shared_weights
        self.act = act
        self.dropout = dropout
        stacks, steps = num_stacks, 1 if shared_weights else num_layers
        self.weight = nn.Parameter(
            torch.empty(max(1, steps - 1), stacks, out_channels, out_channels)
        )
        self.init_weight = nn.Parameter(torch.empty(stacks, in_channels, out_channels))
        self.root_weight = nn.Parameter(torch.empty(steps, stacks, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(steps, stacks, 1, out_channels)) if bias else None

    def reset_parameters(self, generator: Rng = None) -> None:
        """Glorot weights, zero bias."""
        for weight in (self.weight, self.init_weight, self.root_weight):
            glorot(weight, generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """Convolve; the generator drives the dropout of the skip connection."""
        out = _all_stacks(x, self.init_weight)  # [n, stacks * out_channels]
        root: Tensor | None = None
        for step in range(self.num_layers):
            if step > 0:
                out = self._next(out, step)
            if root is None or not self._same_root:
                root = self._root(x, step, generator)
            out = structure.symmetric @ out + root
            out = out if self.act is None else self.act(out)
        return self._by_stack(out).mean(1)

    @property
    def _same_root(self) -> bool:
        """Whether every step adds the same skip connection."""
        return self.shared_weights and not (self.training and self.dropout > 0)

    def _by_stack(self, out: Tensor) -> Tensor:
        return out.view(len(out), self.num_stacks, self.out_channels)

    def _next(self, out: Tensor, step: int) -> Tensor:
        weight = self.weight[0 if self.shared_weights else step - 1]
        stacked = self._by_stack(out)
        return torch.einsum("nki,kio->nko", stacked, weight).reshape(out.shape)

    def _root(self, x: NodeInput, step: int, generator: Rng) -> Tensor:
        index = 0 if self.shared_weights else step
        root = _all_stacks(
            dropout(x, self.dropout, self.training, generator), self.root_weight[index]
        )
        return root if self.bias is None else root + self.bias[index].reshape(-1)


def _all_stacks(x: NodeInput, weight: Tensor) -> Tensor:
    """``x`` times each of the stacks' weights ``[stacks, in, out]``, in one product."""
    return x @ weight.transpose(0, 1).reshape(weight.shape[1], -1)
