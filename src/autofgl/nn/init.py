"""Initialisation with an explicit generator, after the schemes that PyG's convolutions use."""

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Resettable(Protocol):
    """Anything that can draw its parameters anew."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters."""
        ...


def glorot(tensor: Tensor, generator: torch.Generator | None = None) -> None:
    """Uniform in ±√(6 / (fan in + fan out)); the fans are the last two sizes."""
    bound = math.sqrt(6.0 / (tensor.size(-2) + tensor.size(-1)))
    nn.init.uniform_(tensor, -bound, bound, generator=generator)


def uniform(tensor: Tensor, fan: int, generator: torch.Generator | None = None) -> None:
    """Uniform in ±1/√fan: torch's default for linear layers and recurrent cells."""
    bound = 1.0 / math.sqrt(fan) if fan else 0.0
    nn.init.uniform_(tensor, -bound, bound, generator=generator)


def reset(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Reset every part of a module that has parameters, in the order of registration."""
    for child in module.children():
        if isinstance(child, Resettable):
            child.reset_parameters(generator)
        else:
            reset(child, generator)
