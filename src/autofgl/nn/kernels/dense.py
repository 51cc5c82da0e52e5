"""One differentiable product of dense matrices.

Torch hands products of single precision to MKL, which leaves half of a processor idle that is not
Intel's. oneDNN, which comes with torch too, does not: on a Zen 5 core it reaches 230 billion
operations a second where MKL reaches 110, for a few hundred rows as for thousands. Small products,
other types and other devices stay with torch.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autofgl.nn.kernels.operation import Operation

#: ``x @ weight.T + bias`` by oneDNN. Torch has no public name for it: without it, all stays right.
_linear: Callable[..., Tensor] | None
_linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
    _linear = None
#: Products of fewer multiplications are done before oneDNN has begun.
_WORTH = 1 << 20


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """``[m, k] @ [k, n]``, plus a bias ``[n]`` if there is one.

    Differentiable in all of them, any number of times.
    """
    if _suits_onednn(left, right):
        return _Product.apply(left, right, bias)
    return left @ right if bias is None else torch.addmm(bias, left, right)


def multiply(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`product` without a gradient, for operations that have one of their own."""
    if _linear is not None and _suits_onednn(left, right):
        return _linear(_compact(left), _compact(right).t(), bias, "none", [], "")
    return left @ right if bias is None else torch.addmm(bias, left, right)


def _suits_onednn(left: Tensor, right: Tensor) -> bool:
    if _linear is None or torch.compiler.is_compiling():
        return False
    if not (left.is_cpu and left.dtype == right.dtype == torch.float32 and left.dim() == 2):
        return False
    return left.shape[0] * left.shape[1] * right.shape[1] >= _WORTH


def _compact(matrix: Tensor) -> Tensor:
    """Without gaps, which oneDNN has no fast way for."""
    return matrix if matrix.is_contiguous() or matrix.t().is_contiguous() else matrix.contiguous()


class _Product(Operation):
    @staticmethod
    def forward(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
        return multiply(left, right, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Any) -> None:
        left, right, _ = inputs
        ctx.save_for_backward(left, right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        wants_left, wants_right, wants_bias = ctx.needs_input_grad
        return (
            product(grads[0], right.t()) if wants_left else None,
            product(left.t(), grads[0]) if wants_right else None,
            grads[0].sum(0) if wants_bias else None,
        )
