"""The linear map with which most convolutions begin, on dense or sparse input."""

from typing import Literal

import torch
from torch import Tensor, nn

from autofgl.nn import init
from autofgl.nn.features import NodeInput
from autofgl.nn.sparse import SparseOperator


class Linear(nn.Module):
    r"""An affine map :math:`\mathbf{X} \mathbf{W} + \mathbf{b}`.

    The weight is ``[in_channels, out_channels]``, the transpose of torch's, so that neither the
    product with sparse features nor the weight's gradient has to be rearranged.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        bias: Whether to add :math:`\mathbf{b}`.
        scheme: ``"uniform"`` is torch's default for linear layers (Kaiming with a = √5),
            ``"glorot"`` that of the GCN.

    Shapes:
        - **input:** ``[n, in_channels]``, a tensor or input features
        - **output:** ``[n, out_channels]``
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

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weight, then the bias."""
        if self.scheme == "glorot":
            init.glorot(self.weight, generator)
        else:
            init.uniform(self.weight, self.in_channels, generator)
        if self.bias is not None:
            init.uniform(self.bias, self.in_channels, generator)

    def forward(self, x: NodeInput) -> Tensor:
        """The affine map."""
        if isinstance(x, Tensor) and self.bias is not None:
            return torch.addmm(self.bias, x, self.weight)
        return self.shifted(self.product(x))

    def product(self, x: NodeInput) -> Tensor:
        """The linear part alone."""
        return x @ self.weight

    def shifted(self, x: Tensor) -> Tensor:
        """``x`` plus the bias, if there is one."""
        return x if self.bias is None else x + self.bias

    def propagated(self, operator: SparseOperator, x: NodeInput) -> Tensor:
        """``operator @ x @ weight``, in the cheaper of the two orders, without the bias."""
        if isinstance(x, Tensor) and self.in_channels < self.out_channels:
            return self.product(operator @ x)
        return operator @ self.product(x)

    def extra_repr(self) -> str:
        """Sizes, for ``repr``."""
        return f"{self.in_channels}, {self.out_channels}, bias={self.bias is not None}"
