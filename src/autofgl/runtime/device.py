"""Where networks compute: the one place that chooses a device and fetches numbers from it.

Graphs are laid out and sampled on the CPU, and random numbers are drawn there, so that one seed
begins with the same weights and drops the same entries on every device. Whatever crosses between
parties is a NumPy array.
"""

from typing import Any

import torch
from torch import Tensor

from autofgl.errors import UserError


def choose_device(name: str = "cpu") -> torch.device:
    """The device of a name; ``auto`` is a graphics card if there is one.

    Raises:
        UserError: This machine has none of this name.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next((kind for kind, usable in there.items() if usable), "cpu")
    if not there.get(name, True):
        raise UserError(f"torch sees no device '{name}' here: use --device auto or --device cpu")
    return torch.empty(0, device=name).device  # with its number


def fetch(tensor: Tensor) -> Any:
    """A copy of a tensor's numbers, wherever they are."""
    return tensor.detach().cpu().numpy().copy()


def send(array: Any, like: Tensor) -> Tensor:
    """A copy of an array as a tensor of another one's type, where that one is."""
    return torch.tensor(array, dtype=like.dtype, device=like.device)
