"""Real numbers as integers, so that masks cancel exactly."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.interface import SecureSumError


@dataclass(frozen=True)
class FixedPoint:
    """Values as multiples of ``2**-fraction_bits``.

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

    @property
    def error_bound(self) -> float:
        """Largest error of a sum: every party rounds by at most half a step."""
        return self.parties * 2.0 ** -(self.fraction_bits + 1)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest multiples.

        Raises:
            SecureSumError: A value is larger than :attr:`limit`.
        """
        largest = float(max(values.max(), -values.min())) if values.size else 0.0
        # the first comparison keeps the second, which is exact, from overflowing
        if largest > self.limit or self._steps(largest) > self.capacity // self.parties:
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

    def _steps(self, magnitude: float) -> int:
        return math.ceil(math.ldexp(magnitude, self.fraction_bits))
