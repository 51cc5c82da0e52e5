"""Operations with gradients of their own, and the constants that they keep."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import Function

#: Source of randomness; torch's default one if None.
Rng: TypeAlias = torch.Generator | None


@contextmanager
def constants() -> Iterator[None]:
    """Build plain tensors, whatever mode the caller is in.

    Operators are laid out at first use and then kept. Without this, one that is first used inside
    ``torch.inference_mode`` or ``torch.func.grad`` would be unusable afterwards.
    """
    with torch.inference_mode(False), torch.no_grad(), torch._C._DisableFuncTorch():
        yield


def unwrap(tensor: Tensor) -> Tensor:
    """The plain tensor below the wrappers that ``torch.func`` puts around function arguments."""
    with constants():
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        return tensor.detach()


class Operation(Function):
    """A differentiable operation that is cheap to call.

    With ``setup_context``, which ``torch.func`` needs, torch inspects the signature of ``forward``
    at each call. On the small graphs of a client that costs more than the product itself.
    """

    @classmethod
    def apply(cls, *args: Any) -> Tensor:
        """Run ``forward``, recording it only where a gradient may be asked for."""
        run: Callable[..., Tensor] = cls.forward
        if torch._C._are_functorch_transforms_active():
            run = super().apply
        elif torch.is_grad_enabled() and any(
            isinstance(arg, Tensor) and arg.requires_grad for arg in args
        ):
            run = super(Function, cls).apply  # type: ignore[misc]
        return run(*args)
