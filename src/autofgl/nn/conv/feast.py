"""Feature-steered convolution."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.attention import mixed_sum
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class FeaStConv(Convolution):
    r"""The translation-invariant operator of `"FeaStNet: Feature-Steered Graph Convolutions for 3D
    Shape Analysis" <https://arxiv.org/abs/1706.05206>`_.

    .. math::
        \mathbf{x}^{\prime}_i = \mathbf{b} + \frac{1}{|\mathcal{N}(i)| + 1}
        \sum_{j \in \mathcal{N}(i) \cup \{i\}} \sum_{h=1}^H q_h(\mathbf{x}_i, \mathbf{x}_j)
        \mathbf{W}_h \mathbf{x}_j, \quad q(\mathbf{x}_i, \mathbf{x}_j) = \mathrm{softmax}_h \left(
        \mathbf{u}_h^{\top} (\mathbf{x}_j - \mathbf{x}_i) + c_h \right)

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        heads: Number :math:`H` of weight matrices.
        bias: Whether to add :math:`\mathbf{b}`.

    Shapes: ``[n, in_channels]`` → ``[n, out_channels]``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, heads: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        self.lin = Linear(in_channels, heads * out_channels, bias=False)
        self.u = Linear(in_channels, heads, bias=False)
        self.c = nn.Parameter(torch.empty(heads))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def reset_parameters(self, generator: Rng = None) -> None:
        """Uniform weights; offsets and bias are normal with deviation 0.1."""
        self.lin.reset_parameters(generator)
        self.u.reset_parameters(generator)
        nn.init.normal_(self.c, std=0.1, generator=generator)
        if self.bias is not None:
            nn.init.normal_(self.bias, std=0.1, generator=generator)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        edges = structure.attention
        steering = self.u(x)  # [n, heads]
        scores = edges.over_sources.T @ steering - edges.over_targets.T @ steering
        weights = torch.softmax(scores + self.c, dim=1)
        out = mixed_sum(edges.pattern, weights, self.lin(x)) / _neighbors(edges.pattern.crow)
        return out if self.bias is None else out + self.bias


def _neighbors(crow: Tensor) -> Tensor:
    """Number of entries of each row, ``[n, 1]``, at least one."""
    return crow.diff().clamp(min=1).unsqueeze(1)
