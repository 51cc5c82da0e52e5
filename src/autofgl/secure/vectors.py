"""Named arrays of any shape as one flat vector, and back."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.interface import Array, Payload, SecureSumError, Sums
from autofgl.secure.messages import take, take_names

MAX_VALUES = 1 << 32


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the arrays in a flat vector, sorted by name."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Values in the flat vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    def to_payload(self) -> Payload:
        """The layout as it travels."""
        return {"names": list(self.names), "shapes": [list(shape) for shape in self.shapes]}

    @classmethod
    def from_payload(cls, message: Payload) -> "Layout":
        """Read and check a layout.

        Raises:
            SecureSumError: It is malformed or describes too many values.
        """
        names = take_names(message, "names")
        shapes = take(message, "shapes", list)
        if len(shapes) != len(names) or not all(_is_shape(shape) for shape in shapes):
            raise SecureSumError("malformed message: 'shapes' should be a shape for each name")
        layout = cls(tuple(names), tuple(tuple(shape) for shape in shapes))
        if layout.size > MAX_VALUES:
            raise SecureSumError(f"a sum of {layout.size:,} values is larger than is accepted")
        return layout

    def split(self, flat: NDArray[np.float64]) -> Sums:
        """The named arrays in a flat vector."""
        named: Sums = {}
        start = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            stop = start + math.prod(shape)
            named[name] = flat[start:stop].reshape(shape)
            start = stop
        return named

    def difference(self, other: "Layout") -> str:
        """One line on how another layout differs from this one."""
        mine = dict(zip(self.names, self.shapes, strict=True))
        theirs = dict(zip(other.names, other.shapes, strict=True))
        if odd := sorted(mine.keys() ^ theirs.keys()):
            return f"only one of them has {', '.join(repr(name) for name in odd)}"
        name = next(name for name in self.names if mine[name] != theirs[name])
        return f"'{name}' has shape {mine[name]} in one and {theirs[name]} in the other"


def flatten(vectors: Mapping[str, Array]) -> tuple[Layout, NDArray[np.float64]]:
    """The layout of named arrays and their values in one float64 vector.

    Raises:
        SecureSumError: An array holds no numbers, or a value is NaN or infinite.
    """
    names = tuple(sorted(vectors))
    arrays = [_numbers(name, vectors[name]) for name in names]
    layout = Layout(names, tuple(array.shape for array in arrays))
    flat = np.concatenate([np.empty(0), *(array.reshape(-1) for array in arrays)])
    if not np.isfinite(flat).all():
        bad = next(name for name, part in layout.split(flat).items() if not np.isfinite(part).all())
        raise SecureSumError(f"'{bad}' holds NaN or infinite values, which cannot be summed")
    return layout, flat


def select(vectors: Mapping[str, Array], support: Mapping[str, Array]) -> dict[str, Array]:
    """Leave out the entries that every party knows to be zero.

    Args:
        vectors: The named arrays.
        support: For some of the names, a boolean array of the same shape, equal at all parties:
            true where a value may differ from zero.

    Returns:
        The arrays with a support reduced to its true entries, or left out where it has none.

    Raises:
        SecureSumError: A value outside the support is not zero.
    """
    kept: dict[str, Array] = {}
    for name, array in vectors.items():
        if name not in support:
            kept[name] = array
            continue
        mask = _mask(name, support[name], array.shape)
        if np.any(array[~mask]):
            raise SecureSumError(f"'{name}' is not zero outside its support")
        if mask.any():
            kept[name] = array[mask]
    return kept


def spread(sums: Mapping[str, Array], support: Mapping[str, Array]) -> Sums:
    """Undo :func:`select` on the sums: zeros outside the support."""
    full: Sums = {name: array for name, array in sums.items() if name not in support}
    for name, mask in support.items():
        full[name] = np.zeros(mask.shape)
        if name in sums:
            full[name][np.asarray(mask, bool)] = sums[name]
    return full


def _numbers(name: str, array: Any) -> Array:
    numbers: Array = np.asarray(array)
    if numbers.dtype.kind not in "fiu":
        raise SecureSumError(f"'{name}' has dtype {numbers.dtype}, which cannot be summed")
    return numbers


def _mask(name: str, mask: Array, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise SecureSumError(f"the support of '{name}' should be boolean, of shape {shape}")
    return mask


def _is_shape(shape: Any) -> bool:
    return type(shape) is list and all(type(n) is int and 0 <= n <= MAX_VALUES for n in shape)
