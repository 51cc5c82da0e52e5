"""One random seed, named child generators.

Nothing in AutoFGL touches a global random state. Whoever needs random numbers asks for a generator
by name, so that adding a consumer never shifts the numbers of another.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def child_seed(root: int, *names: str | int) -> int:
    """A 63-bit seed that depends on the root and on every name, in order."""
    text = "/".join([str(root), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_generator(root: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for the named purpose."""
    return np.random.default_rng(child_seed(root, *names))


def torch_generator(root: int, *names: str | int) -> torch.Generator:
    """A CPU torch generator for the named purpose."""
    import torch  # takes seconds, and searchers do without it

    return torch.Generator().manual_seed(child_seed(root, *names))
