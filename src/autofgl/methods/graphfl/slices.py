"""One average of networks that differ: each entry over those who hold it.

The paper does not say how unlike structures go into one FedAvg. Here the server keeps, for every
kind of convolution, the blocks of its widest and deepest network, and a client's network is a slice
of them, as in HeteroFL (Diao et al., 2021): the first rows and columns of each block. An entry is
averaged over the clients that hold it, and one that nobody holds stays as it is. Where all hold the
same this is FedAvg.

Entries mean the same in all networks that hold them: kinds of convolution have blocks of their own,
a hidden layer is named by its place, and the last layer by the number of hidden ones before it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from autofgl.errors import AutoFGLError

Arrays: TypeAlias = dict[str, Any]

_LAYER = re.compile(r"(?:convs|lins)\.(\d+)\.(.+)")


class Shape(NamedTuple):
    """What decides which entries a network holds: kind of convolution, depth, hidden width."""

    family: str
    layers: int
    hidden: int


@dataclass(frozen=True)
class Part:
    """Where a parameter of a client's network is: in the first ``sizes`` entries of a block."""

    block: str
    sizes: tuple[int, ...]

    @property
    def index(self) -> tuple[slice, ...]:
        """What to index the block with."""
        return tuple(slice(size) for size in self.sizes)


Parts: TypeAlias = Mapping[str, Part]


def parts_of(shape: Shape, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Part]:
    """Where parameters of these names, such as ``convs.0.lin.weight``, and sizes are.

    Raises:
        AutoFGLError: A parameter belongs to no layer, so that nobody can say what it means.
    """
    parts = {}
    for name, size in sizes.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            raise AutoFGLError(f"parameter '{name}' of {shape.family} is of no layer")
        layer, rest = int(match[1]), match[2]
        place = f"out.{layer}" if layer == shape.layers - 1 else f"hidden.{layer}"
        parts[name] = Part(f"{shape.family}/{place}.{rest}", tuple(size))
    return parts


def take(whole: Mapping[str, Any], parts: Parts) -> Arrays:
    """A network's parameters out of the blocks."""
    return {name: whole[part.block][part.index].copy() for name, part in parts.items()}


def put(weights: Mapping[str, Any], parts: Parts, sizes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """A network's parameters in blocks of these sizes; all other entries are zero."""
    whole = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
    for name, part in parts.items():
        whole[part.block][part.index] = weights[name]
    return whole


def merge(
    total: Mapping[str, Any],
    shares: Sequence[float],
    parts: Sequence[Parts],
    before: Mapping[str, Any],
    least: float,
) -> Arrays:
    """The blocks after an average.

    Args:
        total: Sums over the clients of their weighted blocks.
        shares: Sum of the weights of the clients of each shape.
        parts: What a network of each shape holds.
        before: The blocks before, for entries that nobody holds.
        least: Smaller sums of weights are rounding of a secure sum, and nobody's.
    """
    weights = {name: np.zeros(np.shape(value)) for name, value in before.items()}
    for share, own in zip(shares, parts, strict=True):
        if share < least:
            continue
        for part in own.values():
            weights[part.block][part.index] += share
    return {name: _divided(total[name], weights[name], value) for name, value in before.items()}


def _divided(total: Any, weight: Any, before: Any) -> Any:
    if not weight.any():
        return before
    mean = total / np.where(weight > 0, weight, 1.0)
    return np.where(weight > 0, mean, before).astype(np.float32)
