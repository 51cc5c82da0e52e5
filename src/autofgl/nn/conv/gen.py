"""Convolution of DeeperGCN (GEN)."""

from typing import cast

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.structure import Structure

#: Exponents of single precision go down to about -87; beyond this range sums might vanish.
_SAFE_RANGE = 60.0


class GENConv(Convolution):
    r"""The operator of `"DeeperGCN: All You Need to Train Deeper GCNs"
    <https://arxiv.org/abs/2006.07739>`_ with softmax aggregation, at PyG's temperature and width.

    .. math::
        \mathbf{x}^{\prime}_i = \mathrm{MLP} \left( \mathbf{x}_i + \sum_{j \in \mathcal{N}(i)}
        \frac{\exp(\mathbf{m}_j)}{\sum_{k \in \mathcal{N}(i)} \exp(\mathbf{m}_k)} \odot
        \mathbf{m}_j \right), \quad \mathbf{m}_j = \mathrm{ReLU}(\mathbf{x}_j) + 10^{-7}

    A message depends on its sender alone, so that the aggregation is a quotient of two sums over
    neighbors, and no message is laid out per edge. The perceptron, twice as wide between its
    layers, has no batch normalization (PyG's ``norm=None``): its running statistics would not
    federate.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        # The third part stands where PyG has its dropout, so that names agree.
        self.mlp = nn.Sequential(
            Linear(channels, 2 * channels, bias=False),
            nn.ReLU(),
            nn.Identity(),
            Linear(2 * channels, channels, bias=False),
        )

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = as_tensor(x)
        return cast(Tensor, self.mlp(self.aggregate(x, structure) + x))

    def aggregate(self, x: Tensor, structure: Structure) -> Tensor:
        """Softmax aggregation of the messages, ``[n, C]``; zero for a node without neighbors."""
        messages = structure.joined(torch.relu(x) + 1e-7)
        if messages.shape[0] == 0:
            return messages
        # Two passes: torch's ``aminmax`` along the rows takes twenty times as long.
        known = messages.detach()
        low, high = known.amin(0, keepdim=True), known.amax(0, keepdim=True)
        if torch.compiler.is_compiling() or not in_safe_range(low, high):
            return structure.softmax_sum(messages)
        exponentials = (messages - high).exp()
        both = structure.joined_sum @ torch.cat([exponentials, exponentials * messages], dim=1)
        total, weighted = both.chunk(2, dim=1)
        return weighted / total.masked_fill(total == 0, 1.0)


def in_safe_range(low: Tensor, high: Tensor) -> bool:
    """Whether no exponential of what lies between would vanish."""
    return bool(((high - low) < _SAFE_RANGE).all())
