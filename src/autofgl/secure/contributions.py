"""What a party contributes to a sum: a header and named vectors, flat and perhaps as integers.

Messages may come from anybody: fields are taken out of them by functions that check them.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import Array, Payload, Reveal, SecureSumError, StepGrid, SumVectors
from autofgl.secure.packing import Packing, multiples_of

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


class Layout(dict[str, tuple[int, ...]]):
    """Shapes of the arrays in a flat vector, sorted by name."""

    @property
    def size(self) -> int:
        """Values in the flat vector."""
        return sum(map(math.prod, self.values()))

    @classmethod
    def of(cls, vectors: Mapping[str, Array]) -> "Layout":
        """That of named arrays."""
        return cls((name, np.shape(vectors[name])) for name in sorted(vectors))

    @classmethod
    def from_payload(cls, message: Payload) -> "Layout":
        """Read a layout and check that it does not describe too many values."""
        names, shapes = take_names(message, "names"), take_field(message, "shapes", list)
        sizes = [size for shape in shapes for size in (shape if type(shape) is list else [None])]
        wrong = any(type(size) is not int or not 0 <= size <= MAX_VALUES for size in sizes)
        if wrong or len(shapes) != len(names) or names != sorted(names):
            raise SecureSumError("malformed message: 'shapes' should be a shape for each name")
        layout = cls(zip(names, map(tuple, shapes), strict=True))
        if layout.size > MAX_VALUES:
            raise SecureSumError(f"a sum of {layout.size:,} values is larger than is accepted")
        return layout

    def split(self, flat: NDArray[Any]) -> SumVectors:
        """The named arrays in a flat vector."""
        named, start = {}, 0
        for name, shape in self.items():
            stop = start + math.prod(shape)
            named[name] = flat[start:stop].reshape(shape)
            start = stop
        return named

    def parts(self, grid: StepGrid | None) -> "tuple[Layout, Layout]":
        """The arrays at full precision, and those on a grid."""
        if grid is None:
            return self, Layout()
        steps = grid.steps
        full = Layout((name, shape) for name, shape in self.items() if name not in steps)
        return full, Layout((name, shape) for name, shape in self.items() if name in steps)

    def difference(self, other: "Layout") -> str:
        """One line on how another layout differs from this one."""
        if odd := sorted(self.keys() ^ other.keys()):
            return f"only one of them has {', '.join(map(repr, odd))}"
        name = next(name for name in self if self[name] != other[name])
        return f"'{name}' has shape {self[name]} in one and {other[name]} in the other"


def flatten(vectors: Mapping[str, Array]) -> tuple[Layout, NDArray[np.float64]]:
    """The layout of named arrays and their values, finite numbers all, in one float64 vector."""
    arrays = {name: np.asarray(vectors[name]) for name in sorted(vectors)}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise SecureSumError(f"'{name}' has dtype {array.dtype}, which cannot be summed")
    flat = np.concatenate([np.empty(0), *(array.reshape(-1) for array in arrays.values())])
    if not np.isfinite(flat).all():
        bad = next(name for name, array in arrays.items() if not np.isfinite(array).all())
        raise SecureSumError(f"'{bad}' holds NaN or infinite values, which cannot be summed")
    return Layout((name, array.shape) for name, array in arrays.items()), flat


def take_grid(message: Payload, layout: Layout) -> StepGrid | None:
    """The grid of some vectors, if they are on one."""
    if "bits" not in message:
        return None
    bits, steps = take_field(message, "bits", int), take_field(message, "steps", dict)
    sound = all(type(step) is float and 0 < step < math.inf for step in steps.values())
    if not (sound and 2 <= bits <= 64 and steps.keys() <= layout.keys()):
        raise SecureSumError("malformed message: 'steps' should be a step for some names")
    return StepGrid(bits, steps)


@dataclass(frozen=True)
class FixedPoint:
    """Values as multiples of ``2**-fraction_bits``, so that masks cancel exactly.

    Each of ``parties`` values may be as large as :attr:`limit`; then no sum of them leaves
    ``[-capacity, capacity]``, in multiples, and nothing can wrap.
    """

    fraction_bits: int
    capacity: int
    parties: int

    @property
    def limit(self) -> float:
        """Largest magnitude of one party's value."""
        return float(self.capacity // self.parties) / 2.0**self.fraction_bits

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest multiples, of values up to :attr:`limit`."""
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

    @property
    def word(self) -> int:
        """Bits of the integers that hold sums."""
        return self.capacity.bit_length() + 1

    def packing_for(self, least: int) -> Packing:
        """As many vectors on a grid as go into the integers, with multiples up to ``least``."""
        return Packing.of(self.word, self.parties, least)

    def packing(self, grid: StepGrid) -> Packing:
        """How the vectors on a grid are packed."""
        if not 2 <= grid.bits <= self.word:
            raise SecureSumError(f"malformed message: digits of {grid.bits} bits in {self.word}")
        return Packing(self.word, grid.bits, self.parties)

    def size(self, header: "Header") -> int:
        """Integers that the vectors of a sum take."""
        full, coarse = header.layout.parts(header.grid)
        packed = self.packing(header.grid).size(coarse.size) if header.grid else 0
        return full.size + packed

    def encode_vectors(
        self, vectors: Mapping[str, Array], grid: StepGrid | None
    ) -> tuple[Layout, NDArray[np.int64]]:
        """The layout of named arrays, and integers: those at full precision, then the grid's."""
        if grid is None:
            layout, flat = flatten(vectors)
            return layout, self.encode(flat)
        layout = Layout.of(vectors)
        _, flat = flatten({name: vectors[name] for name in layout.parts(grid)[0]})
        packing = self.packing(grid)
        packed = packing.pack(multiples_of(vectors, grid, packing.most))
        return layout, np.concatenate([self.encode(flat), packed])

    def decode_vectors(
        self, header: "Header", sums: NDArray[np.int64], grid: StepGrid | None = None
    ) -> SumVectors:
        """The named arrays of summed integers; ``grid`` has the steps that were not sent."""
        full, coarse = header.layout.parts(header.grid)
        found = full.split(self.decode(sums[: full.size]))
        if header.grid is None:
            return found
        steps = (grid or header.grid).steps
        if missing := coarse.keys() - steps.keys():
            raise SecureSumError(f"'{header.tag}': the step of '{min(missing)}' is not known")
        multiples = self.packing(header.grid).unpack(sums[full.size :], coarse.size)
        found |= {name: value * steps[name] for name, value in coarse.split(multiples).items()}
        return {name: found[name] for name in header.layout}


@dataclass(frozen=True)
class Header:
    """What must be equal in all contributions to one sum; the session names the keys."""

    tag: str
    session: bytes
    reveal: str
    fraction_bits: int
    layout: Layout
    grid: StepGrid | None = None

    @cached_property
    def digest(self) -> bytes:
        """Names the sum, its reader and its shapes, whatever the keys."""
        shapes = list(self.layout.items())
        grid = [[self.grid.bits, sorted(self.grid.steps.items())]] if self.grid else []
        text = json.dumps([self.tag, self.reveal, self.fraction_bits, shapes, *grid])
        return hashlib.sha256(text.encode()).digest()

    def to_payload(self) -> Payload:
        """The header as it travels."""
        if self.reveal not in ("server", "parties"):
            raise SecureSumError(f"a sum is for 'server' or 'parties', not for '{self.reveal}'")
        return {
            "tag": self.tag,
            "session": self.session,
            "reveal": self.reveal,
            "fraction_bits": self.fraction_bits,
            "names": list(self.layout),
            "shapes": [list(shape) for shape in self.layout.values()],
            **({"bits": self.grid.bits, "steps": dict(self.grid.steps)} if self.grid else {}),
        }

    @classmethod
    def from_payload(cls, message: Payload) -> "Header":
        """Read a header."""
        return cls(
            take_field(message, "tag", str),
            take_field(message, "session", bytes),
            take_field(message, "reveal", str),
            take_field(message, "fraction_bits", int),
            layout := Layout.from_payload(message),
            take_grid(message, layout),
        )


def digest_contribution(header: Header, integers: NDArray[np.int64], active: bool) -> str:
    """Names what a party contributes to a sum, so that it never contributes anything else to it."""
    digest = hashlib.sha256(header.digest + bytes([active]))
    digest.update(np.ascontiguousarray(integers).view(np.uint8).data)
    return digest.hexdigest()


def common_header(
    tag: str,
    reveal: Reveal,
    session: bytes,
    contributions: Mapping[str, Payload],
    parties: tuple[str, ...],
    fewest: int,
) -> Header:
    """The header that all contributions share; raises if they are too few or differ."""
    header, wrong = usual_header(tag, reveal, session, contributions, parties, fewest)
    if wrong:
        raise SecureSumError(next(iter(wrong.values())))
    return header


def usual_header(
    tag: str,
    reveal: Reveal,
    session: bytes,
    contributions: Mapping[str, Payload],
    parties: tuple[str, ...],
    fewest: int,
) -> tuple[Header, dict[str, str]]:
    """The header of most contributions, and what is wrong with the others, by party.

    Raises ``SecureSumError`` if too few have it.
    """
    if strangers := sorted(set(contributions) - set(parties)):
        raise SecureSumError(f"'{tag}' has contributions of strangers: {', '.join(strangers)}")
    headers: dict[str, Header] = {}
    wrong: dict[str, str] = {}
    for name, message in contributions.items():
        try:
            headers[name] = _own_header(tag, reveal, session, name, message)
        except SecureSumError as error:
            wrong[name] = str(error)
    digests = {name: header.digest for name, header in headers.items()}
    most, _ = next(iter(Counter(digests.values()).most_common(1)), (b"", 0))
    usual = {name: header for name, header in headers.items() if digests[name] == most}
    for name, header in headers.items():
        if name not in usual:
            wrong[name] = _difference(tag, next(iter(usual.items())), (name, header))
    if len(usual) < fewest and wrong:
        raise SecureSumError(next(iter(wrong.values())), wrong=tuple(wrong))
    if len(usual) < fewest:
        raise SecureSumError(f"'{tag}' needs contributions of {fewest} parties, {len(usual)} came")
    return next(iter(usual.values())), wrong


def _own_header(tag: str, reveal: str, session: bytes, name: str, message: Payload) -> Header:
    """The header of one contribution, which must be to this sum."""
    header = Header.from_payload(message)
    sent = f"the contribution of {name} to '{tag}' was made"
    if header.tag != tag:
        raise SecureSumError(f"{sent} for '{header.tag}'")
    if header.session != session:
        raise SecureSumError(f"{sent} with other keys than were agreed on")
    if header.reveal != reveal:
        raise SecureSumError(f"{sent} for the {header.reveal} to read, not the {reveal}")
    return header


def _difference(tag: str, first: tuple[str, Header], other: tuple[str, Header]) -> str:
    (first_name, usual), (name, header) = first, other
    if header.layout != usual.layout:
        how = usual.layout.difference(header.layout)
        return f"'{tag}': the vectors of {first_name} and {name} differ: {how}"
    return f"'{tag}': {first_name} and {name} differ in fraction bits or steps"
