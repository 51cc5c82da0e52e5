"""The linear map with which most convolutions begin, and how weights are initialized.

Weights are drawn from an explicit generator, after the schemes that PyG's convolutions use.
"""

import math
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.kernels.sparse import SparseOperator


class Linear(nn.Module):
    r"""An affine map :math:`\mathbf{X} \mathbf{W} + \mathbf{b}`.

    The weight is ``[in_channels, out_channels]``, the transpose of torch's, so that neither the
    product with sparse features nor the weight's gradient has to be rearranged.

    The scheme ``"uniform"`` is torch's default for linear layers (Kaiming with a = √5),
    ``"glorot"`` that of the GCN.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        scheme: Literal["uniform", "glorot"] = "uniform",
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.scheme = scheme
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def reset_parameters(self, generator: Rng = None) -> None:
        """Draw the weight, then the bias."""
        if self.scheme == "glorot":
            glorot(self.weight, generator)
        else:
            uniform(self.weight, self.in_channels, generator)
        if self.bias is not None:
            uniform(self.bias, self.in_channels, generator)

    def forward(self, x: NodeInput) -> Tensor:
        """The affine map."""
        if isinstance(x, Tensor) and self.bias is not None:
            return torch.addmm(self.bias, x, self.weight)
        return self.add_bias(x @ self.weight)

    def product(self, x: NodeInput) -> Tensor:
        """The linear part alone."""
        return x @ self.weight

    def grows(self, x: NodeInput) -> bool:
        """Whether the product is wider than ``x``, so that others with ``x`` itself cost less."""
        return isinstance(x, Tensor) and self.in_channels < self.out_channels

    def add_bias(self, x: Tensor) -> Tensor:
        """``x`` plus the bias, if there is one."""
        return x if self.bias is None else x + self.bias

    def propagate(self, operator: SparseOperator, x: NodeInput) -> Tensor:
        """``operator @ x @ weight``, in the cheaper of the two orders, without the bias; in the
        second one where ``x`` would cross to other clients.
        """
        if self.grows(x) and not getattr(operator, "crosses", False):
            return operator @ x @ self.weight  # type: ignore[operator]
        return operator @ (x @ self.weight)


@runtime_checkable
class Resettable(Protocol):
    """Anything that can draw its parameters again."""

    def reset_parameters(self, generator: Rng = None) -> None:
        """Draw all parameters."""
        ...


def glorot(tensor: Tensor, generator: Rng = None) -> None:
    """Uniform in ±√(6 / (fan in + fan out)); the fans are the last two sizes."""
    bound = math.sqrt(6.0 / (tensor.size(-2) + tensor.size(-1)))
    nn.init.uniform_(tensor, -bound, bound, generator=generator)


def uniform(tensor: Tensor, fan: int, generator: Rng = None) -> None:
    """Uniform in ±1/√fan: torch's default for linear layers and recurrent cells."""
    bound = 1.0 / math.sqrt(fan) if fan else 0.0
    nn.init.uniform_(tensor, -bound, bound, generator=generator)


def reset_children(module: nn.Module, generator: Rng = None) -> None:
    """Reset every part of a module that has parameters, in the order of registration."""
    for child in module.children():
        if isinstance(child, Resettable):
            child.reset_parameters(generator)
        else:
            reset_children(child, generator)
