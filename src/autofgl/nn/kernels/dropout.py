"""Dropout whose randomness comes from an explicit generator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, overload

import torch
from torch import Tensor

from autofgl.nn.kernels.operation import Rng

if TYPE_CHECKING:
    from autofgl.nn.features import InputFeatures

_WORD_BITS = 64


@overload
def dropout(x: Tensor, p: float, training: bool, generator: Rng = None) -> Tensor: ...
@overload
def dropout(x: InputFeatures, p: float, training: bool, generator: Rng = None) -> InputFeatures: ...
def dropout(
    x: Tensor | InputFeatures, p: float, training: bool, generator: Rng = None
) -> Tensor | InputFeatures:
    """In training, zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Of input features, only the stored entries are dropped.
    """
    if not training or p == 0.0:
        return x
    if isinstance(x, Tensor):
        return x * dropout_mask(x.shape, p, generator, dtype=x.dtype, device=x.device)
    return x.dropout(p, generator)


def dropout_mask(
    shape: torch.Size,
    p: float,
    generator: Rng = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor:
    """A mask of zeros and ``1 / (1 - p)``, by which to multiply.

    Every entry is decided by 8 random bits where ``p`` is a multiple of 1/256, by 16 otherwise:
    drawing the bits a word at a time is about ten times faster than ``bernoulli_``. In the second
    case ``p`` is rounded to a multiple of 2⁻¹⁶; the scale is that of the rounded value, so that
    the expectation is exact. Bits are drawn where the generator is, then moved: one seed gives
    the same mask on every device.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability must lie in [0, 1], not {p}")
    bits, kind = (8, torch.int8) if (p * 256).is_integer() else (16, torch.int16)
    levels = 2**bits
    dropped = round(p * levels)
    if dropped == levels:
        return torch.zeros(shape, dtype=dtype, device=device)
    count = math.prod(shape)
    source = device if generator is None else generator.device
    words = torch.empty(-(-count * bits // _WORD_BITS), dtype=torch.int64, device=source)
    words.random_(-(2**63), None, generator=generator)
    noise = words.to(device).view(kind)[:count].view(shape)
    return noise.ge_(dropped - levels // 2).to(dtype).mul_(levels / (levels - dropped))
