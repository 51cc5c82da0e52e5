"""Binds ciphertexts to one sum: its header and its contributors; the package says why."""

import hmac
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import SecureSumError
from autofgl.secure.shares.masks import add_stream, subtract_stream


@dataclass(frozen=True)
class SumMasks:
    """The masks of one sum, modulo ``2**bits``.

    Everybody in the roster of n parties can make the streams P_0 … P_n, each from a key of its own
    name and of this sum alone. The party at position u adds m_u = P_{u+1} - P_u. These n masks are
    as good as independent ones; those of neighbors telescope, so that to remove them costs two
    streams for each gap among the contributors, and not one for each contributor.
    """

    key: Callable[[str], bytes]
    bits: int

    def mask(self, integers: NDArray[np.int64], position: int) -> NDArray[np.int64]:
        """What a party encrypts: its integers and one more to check them by, all masked."""
        words = np.append(integers.view(np.uint64), self._checksum(integers))
        add_stream(words, self._key(position + 1))
        subtract_stream(words, self._key(position))
        return self._centered(words)

    def unmask(self, sums: NDArray[np.int64], contributors: Collection[int]) -> NDArray[np.int64]:
        """The integers in a sum of what contributors at these positions encrypted.

        Raises:
            SecureSumError: It is a sum of something else.
        """
        words = sums.view(np.uint64).copy()
        starts, stops = set(contributors), {position + 1 for position in contributors}
        for position in stops - starts:
            subtract_stream(words, self._key(position))
        for position in starts - stops:
            add_stream(words, self._key(position))
        integers = self._centered(words[:-1])
        if self._centered(words[-1:] - self._checksum(integers)).any():
            raise SecureSumError(
                "what was sent is not the sum of these contributors under this name and for this "
                "reader"
            )
        return integers

    def code(self, text: bytes) -> int:
        """A number modulo ``2**bits`` that names a text and means nothing to the server."""
        digest = hmac.digest(self.key("code"), text, "sha256")
        return int(self._centered(np.frombuffer(digest[:8], np.uint64))[0])

    def equal(self, first: int, second: int) -> bool:
        """Whether two numbers are the same, modulo ``2**bits``."""
        return (first - second) % (1 << self.bits) == 0

    def _checksum(self, integers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The integers' product with a vector that the server does not know."""
        weights = np.zeros(integers.size, np.uint64)
        add_stream(weights, self.key("check"))
        return np.array([np.dot(weights, integers.view(np.uint64))], np.uint64)

    def _centered(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The numbers from ``-2**(bits - 1)`` that words are congruent to."""
        spare = 64 - self.bits
        return (words << np.uint64(spare)).view(np.int64) >> spare

    def _key(self, position: int) -> bytes:
        return self.key(f"mask {position}")
