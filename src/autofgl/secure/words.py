"""Values as 64-bit words, modulo 2**64, for sums that the server or only the parties may read."""

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.fixed_point import FixedPoint
from autofgl.secure.interface import SumSettings
from autofgl.secure.stream import add_stream

#: Steps of 2**-40 are finer than a float32 of magnitude 2**-16 can tell apart.
FRACTION_BITS = 40


class Words:
    """Turns values into words and sums of words into values.

    In a sum that only the parties may read, all k contributors add the same group mask g, which
    the server does not know; so k * g is removed at the price of one stream. With k = 2**j * odd,
    the lowest j bits of k * g are zeros and its other bits are uniform. The values are therefore
    shifted up by :attr:`guard` bits, so that those j bits say nothing.

    Args:
        settings: The run's parties and precision.
    """

    def __init__(self, settings: SumSettings) -> None:
        count = len(settings.parties)
        self.fraction_bits = settings.precision(FRACTION_BITS)
        self.guard = count.bit_length() - 1
        self._for_server = FixedPoint(self.fraction_bits, 2**63 - 1, count)
        self._for_parties = FixedPoint(self.fraction_bits, (2**63 - 1) >> self.guard, count)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Words for the server to read in their sum.

        Raises:
            SecureSumError: A value is too large.
        """
        return self._for_server.encode(values).view(np.uint64)

    def decode(self, words: NDArray[np.uint64]) -> NDArray[np.float64]:
        """The values of a sum of what :meth:`encode` made."""
        return self._for_server.decode(words.view(np.int64))

    def encode_for_parties(
        self, values: NDArray[np.float64], group_key: bytes
    ) -> NDArray[np.uint64]:
        """Words whose sum only the holders of the key can read.

        Raises:
            SecureSumError: A value is too large.
        """
        words = self._for_parties.encode(values).view(np.uint64)
        words <<= np.uint64(self.guard)
        add_stream(words, group_key)
        return words

    def decode_for_parties(
        self, words: NDArray[np.uint64], group_key: bytes, contributors: int
    ) -> NDArray[np.float64]:
        """The values of a sum of what :meth:`encode_for_parties` made."""
        mask = np.zeros_like(words)
        add_stream(mask, group_key)
        values = (words - mask * np.uint64(contributors)).view(np.int64)
        return self._for_parties.decode(values >> self.guard)
