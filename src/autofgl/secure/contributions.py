"""What a party contributes to a sum: a header and named vectors, flat and perhaps as integers.

Messages may come from anybody: fields are taken out of them by functions that check them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.interface import Array, Payload, Reveal, SecureSumError, SumVectors

MAX_VALUES = 1 << 32

T = TypeVar("T")


def take_field(message: Payload, key: str, kind: type[T]) -> T:
    """A field of a message, which must be there and of that very type."""
    value = message.get(key)
    if type(value) is not kind:
        raise SecureSumError(f"malformed message: '{key}' should be {kind.__name__}")
    return value


def take_names(message: Payload, key: str) -> list[str]:
    """A list of different names."""
    names = take_field(message, key, list)
    if not all(type(name) is str for name in names) or len(set(names)) != len(names):
        raise SecureSumError(f"malformed message: '{key}' should be a list of different names")
    return names


def take_bytes_by_name(message: Payload, key: str, size: int | None = None) -> dict[str, bytes]:
    """A dict of byte strings, all of one size if that is given."""
    items: dict[Any, Any] = take_field(message, key, dict)
    for name, value in items.items():
        if type(name) is not str or type(value) is not bytes or size not in (None, len(value)):
            raise SecureSumError(f"malformed message: '{key}' should map names to bytes")
    return items


def take_words(message: Payload, key: str, size: int) -> NDArray[np.uint64]:
    """A vector of ``size`` unsigned 64-bit words."""
    words = take_field(message, key, np.ndarray)
    if words.dtype != np.uint64 or words.shape != (size,):
        raise SecureSumError(f"malformed message: '{key}' should be {size} 64-bit words")
    return words


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
        shapes = take_field(message, "shapes", list)
        if len(shapes) != len(names) or not all(_is_shape(shape) for shape in shapes):
            raise SecureSumError("malformed message: 'shapes' should be a shape for each name")
        layout = cls(tuple(names), tuple(tuple(shape) for shape in shapes))
        if layout.size > MAX_VALUES:
            raise SecureSumError(f"a sum of {layout.size:,} values is larger than is accepted")
        return layout

    def split(self, flat: NDArray[np.float64]) -> SumVectors:
        """The named arrays in a flat vector."""
        named: SumVectors = {}
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


def _is_shape(shape: Any) -> bool:
    return type(shape) is list and all(type(n) is int and 0 <= n <= MAX_VALUES for n in shape)


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


def _numbers(name: str, array: Any) -> Array:
    numbers: Array = np.asarray(array)
    if numbers.dtype.kind not in "fiu":
        raise SecureSumError(f"'{name}' has dtype {numbers.dtype}, which cannot be summed")
    return numbers


def drop_zeros(vectors: Mapping[str, Array], support: Mapping[str, Array]) -> dict[str, Array]:
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
        mask = support[name]
        if mask.dtype != np.bool_ or mask.shape != array.shape:
            raise SecureSumError(
                f"the support of '{name}' should be boolean, of shape {array.shape}"
            )
        if np.any(array[~mask]):
            raise SecureSumError(f"'{name}' is not zero outside its support")
        if mask.any():
            kept[name] = array[mask]
    return kept


def restore_zeros(sums: Mapping[str, Array], support: Mapping[str, Array]) -> SumVectors:
    """Undo :func:`drop_zeros` on the sums: zeros outside the support."""
    full: SumVectors = {name: array for name, array in sums.items() if name not in support}
    for name, mask in support.items():
        full[name] = np.zeros(mask.shape)
        if name in sums:
            full[name][np.asarray(mask, bool)] = sums[name]
    return full


@dataclass(frozen=True)
class FixedPoint:
    """Values as multiples of ``2**-fraction_bits``, so that masks cancel exactly.

    Each of ``parties`` values may be as large as :attr:`limit`; then no sum of them leaves
    ``[-capacity, capacity]``, and nothing can wrap.

    Attributes:
        fraction_bits: Bits after the point.
        capacity: Largest magnitude, as an integer, that a sum may have.
        parties: How many values a sum may have.
    """

    fraction_bits: int
    capacity: int
    parties: int

    @property
    def limit(self) -> float:
        """Largest magnitude of one party's value."""
        return float(self.capacity // self.parties) / 2.0**self.fraction_bits

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest multiples.

        Raises:
            SecureSumError: A value is larger than :attr:`limit`.
        """
        largest = float(max(values.max(), -values.min())) if values.size else 0.0
        # the first comparison keeps the second, which is exact, from overflowing
        most = self.capacity // self.parties
        if largest > self.limit or math.ceil(math.ldexp(largest, self.fraction_bits)) > most:
            raise SecureSumError(
                f"a value of magnitude {largest:.9g} would overflow: the limit is "
                f"{self.limit:.9g} for {self.parties} parties at {self.fraction_bits} fraction "
                "bits; scale the values down or use fewer fraction bits"
            )
        scaled = values * 2.0**self.fraction_bits
        return np.rint(scaled, out=scaled).astype(np.int64)

    def decode(self, sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """The values of summed multiples."""
        return sums.astype(np.float64) * 2.0**-self.fraction_bits


@dataclass(frozen=True)
class Header:
    """What must be equal in all contributions to one sum.

    Attributes:
        tag: Name of the sum.
        session: Names the keys.
        reveal: Who may read the sum.
        fraction_bits: The values' precision.
        layout: Names and shapes of the vectors.
    """

    tag: str
    session: bytes
    reveal: str
    fraction_bits: int
    layout: Layout

    def __post_init__(self) -> None:
        if self.reveal not in ("server", "parties"):
            raise SecureSumError(f"a sum is for 'server' or 'parties', not for '{self.reveal}'")

    def to_payload(self) -> Payload:
        """The header as it travels."""
        return {
            "tag": self.tag,
            "session": self.session,
            "reveal": self.reveal,
            "fraction_bits": self.fraction_bits,
            **self.layout.to_payload(),
        }

    @classmethod
    def from_payload(cls, message: Payload) -> "Header":
        """Read a header."""
        return cls(
            take_field(message, "tag", str),
            take_field(message, "session", bytes),
            take_field(message, "reveal", str),
            take_field(message, "fraction_bits", int),
            Layout.from_payload(message),
        )


def common_header(
    tag: str,
    reveal: Reveal,
    session: bytes,
    contributions: Mapping[str, Payload],
    parties: tuple[str, ...],
    fewest: int,
) -> Header:
    """The header that all contributions share.

    Raises:
        SecureSumError: They are too few, or do not belong to this sum, or differ in shape.
    """
    if strangers := sorted(set(contributions) - set(parties)):
        raise SecureSumError(f"'{tag}' has contributions of strangers: {', '.join(strangers)}")
    if len(contributions) < fewest:
        raise SecureSumError(
            f"'{tag}' needs contributions of {fewest} parties, {len(contributions)} came"
        )
    headers = {name: Header.from_payload(message) for name, message in contributions.items()}
    first_name, first = next(iter(headers.items()))
    for name, header in headers.items():
        _check_header(name, header, tag, reveal, session)
        if header.layout != first.layout:
            raise SecureSumError(
                f"'{tag}': the vectors of {first_name} and {name} differ: "
                f"{first.layout.difference(header.layout)}"
            )
        if header.fraction_bits != first.fraction_bits:
            raise SecureSumError(f"'{tag}': {first_name} and {name} differ in fraction bits")
    return first


def _check_header(name: str, header: Header, tag: str, reveal: Reveal, session: bytes) -> None:
    if header.tag != tag:
        raise SecureSumError(f"the contribution of {name} to '{tag}' was made for '{header.tag}'")
    if header.session != session:
        raise SecureSumError(
            f"the contribution of {name} to '{tag}' was made with other keys than were agreed on"
        )
    if header.reveal != reveal:
        raise SecureSumError(
            f"{name} contributed to '{tag}' for the {header.reveal} to read, not the {reveal}"
        )
