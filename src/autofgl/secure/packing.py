"""Several small numbers in one integer, so that a sum of such integers holds all the sums.

Vectors whose values are whole multiples of a step need few bits. With k_j one of them and b bits
for each, an integer of w bits takes w // b of them::

    x = sum over j of k_j * 2**(b * j),  |k_j| <= K

The sum of n such integers has the sums of the k_j as its digits, from -2**(b - 1) on, if n * K is
less than 2**(b - 1): nothing is ever carried from one digit into the next. So whatever a secure
mode does to integers, masks or ciphertexts, costs a fraction, and the sums are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import Array, SecureSumError, StepGrid

#: Values that are worked on at once: they stay in the cache.
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Packing:
    """Digits of ``bits`` in integers of ``word`` bits, for sums of so many parties."""

    word: int
    bits: int
    parties: int

    @classmethod
    def of(cls, word: int, parties: int, least: int) -> "Packing":
        """As many digits in an integer as leave each party multiples up to ``least``; they share
        the bits that are left.
        """
        bits = 1 + (parties * least).bit_length()
        return cls(word, word // (word // bits), parties)

    @property
    def most(self) -> int:
        """Largest multiple of a party."""
        return ((1 << (self.bits - 1)) - 1) // self.parties

    @property
    def digits(self) -> int:
        """Digits of an integer."""
        return self.word // self.bits

    def size(self, values: int) -> int:
        """Integers that so many values take."""
        return -(-values // self.digits)

    def pack(self, multiples: NDArray[np.int64]) -> NDArray[np.int64]:
        """The integers; the first digits of all of them come first."""
        size = self.size(multiples.size)
        packed: NDArray[np.int64] = multiples[:size].copy()
        for place in range(1, self.digits):
            digit = multiples[place * size : (place + 1) * size]
            packed[: digit.size] += digit << (self.bits * place)
        return packed

    def unpack(self, sums: NDArray[np.int64], values: int) -> NDArray[np.int64]:
        """The sums of so many values."""
        planes = np.empty((self.digits, sums.size), np.int64)
        rest, spare = sums.astype(np.int64), 64 - self.bits
        for plane in planes:
            np.left_shift(rest, spare, out=plane)
            plane >>= spare
            rest -= plane
            rest >>= self.bits
        return planes.reshape(-1)[:values]


def multiples_of(vectors: Mapping[str, Array], grid: StepGrid, most: int) -> NDArray[np.int64]:
    """The multiples of their steps that vectors on a grid are, in order, up to ``most``."""
    names = sorted(grid.steps.keys() & vectors.keys())
    found = np.empty(sum(np.size(vectors[name]) for name in names), np.int64)
    start = 0
    for name in names:
        flat = np.reshape(vectors[name], -1)
        for begin in range(0, flat.size, _AT_ONCE):
            part = flat[begin : begin + _AT_ONCE]
            values = np.divide(part, grid.steps[name], dtype=np.float64)
            np.rint(values, out=values)
            if not -most <= values.min() <= values.max() <= most:
                raise SecureSumError(
                    f"'{name}' holds values beyond {most} steps of {grid.steps[name]:.3g}, which "
                    "would overflow"
                )
            found[start : start + values.size] = values
            start += values.size
    return found
