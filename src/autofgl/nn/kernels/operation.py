"""Operations with gradients of their own, their constants, and their source of randomness."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import Function

#: Source of randomness; torch's default one if None.
Rng: TypeAlias = torch.Generator | None
#: Held by whoever uses torch's own generator.
_LOCK = threading.RLock()

# What torch has no public name for may be gone in its next version. Then constants that are first
# used inside a transform of torch.func are of no use afterwards, and operations take the slower
# way that is right in all cases.
_plain_mode: Callable[[], AbstractContextManager[Any]]
_plain_mode = getattr(torch._C, "_DisableFuncTorch", nullcontext)
_in_transform: Callable[[], bool]
_in_transform = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
# Public, but not in every version.
_unwrapped: Callable[[Tensor], Tensor]
_unwrapped = getattr(torch.func, "debug_unwrap", lambda tensor: tensor)


@contextmanager
def constants() -> Iterator[None]:
    """Build plain tensors, whatever mode the caller is in.

    Operators are laid out at first use and then kept. Without this, one that is first used inside
    ``torch.inference_mode`` or ``torch.func.grad`` would be unusable afterwards.
    """
    with torch.inference_mode(False), torch.no_grad(), _plain_mode():
        yield


def unwrap(tensor: Tensor) -> Tensor:
    """The plain tensor below the wrappers that ``torch.func`` puts around function arguments."""
    with constants():
        return _unwrapped(tensor).detach()


class Operation(Function):
    """A differentiable operation that is cheap to call.

    With ``setup_context``, which ``torch.func`` needs, torch inspects the signature of ``forward``
    at each call. On the small graphs of a client that costs more than the product itself.
    """

    @classmethod
    def apply(cls, *args: Any) -> Tensor:
        """Run ``forward``, recording it only where a gradient may be asked for."""
        run: Callable[..., Tensor] = cls.forward
        if _in_transform():
            run = super().apply
        elif torch.is_grad_enabled() and any(
            isinstance(arg, Tensor) and arg.requires_grad for arg in args
        ):
            run = super(Function, cls).apply  # type: ignore[misc]
        return run(*args)


@contextmanager
def global_randomness(generator: Rng) -> Iterator[None]:
    """Torch's own generator in the state of a named one, which goes on from where it ends; with
    None in a state that is always the same.

    One thread has it at a time, and it is put back as it was.
    """
    with _LOCK:
        before, named = torch.get_rng_state(), generator or torch.Generator().manual_seed(0)
        torch.set_rng_state(named.get_state())
        try:
            yield
        finally:
            named.set_state(torch.get_rng_state())
            torch.set_rng_state(before)
