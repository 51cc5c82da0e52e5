"""Torch's own generator, lent to code from outside that knows no other."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from autofgl.nn.kernels.operation import Rng

#: Held by whoever uses torch's own generator.
_LOCK = threading.RLock()


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
