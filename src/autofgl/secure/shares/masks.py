"""What masked sums are made of: words modulo 2**64, masks, and shares of their secrets."""

import hashlib
import secrets
from collections.abc import Collection, Mapping

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from autofgl.secure import (
    Reveal,
    SecureSumError,
    StepGrid,
    SumSettings,
    SumVectors,
)
from autofgl.secure.contributions import FixedPoint, Header
from autofgl.secure.keys import bind_parts

#: Steps of 2**-40 are finer than a float32 of magnitude 2**-16 can tell apart.
FRACTION_BITS = 40
KEY_BYTES = 32
PRIME = 2**255 - 19

#: What keys and boxes are for.
PAIR, SELF, GROUP, SHARE = "pair mask", "self mask", "group mask", "additive share"
COVER = "cover"

SHARE_BYTES = 32
_WORDS = 1 << 15  # words made at once: 256 KiB stay in the cache
_ZEROS = bytes(8 * _WORDS)


def add_stream(words: NDArray[np.uint64], key: bytes) -> None:
    """Add a key's AES-256-CTR stream in place. A key serves for one sum only: it starts at 0."""
    _apply(np.add, words, key)


def subtract_stream(words: NDArray[np.uint64], key: bytes, times: int = 1) -> None:
    """Undo :func:`add_stream`, of so many parties that added the same."""
    _apply(np.subtract, words, key, times)


def _apply(operation: np.ufunc, words: NDArray[np.uint64], key: bytes, times: int = 1) -> None:
    encryptor = Cipher(AES(key), CTR(bytes(16))).encryptor()
    buffer = np.empty(min(_WORDS, words.size), "<u8")
    for start in range(0, words.size, _WORDS):
        part = words[start : start + _WORDS]
        stream = buffer[: part.size]
        encryptor.update_into(memoryview(_ZEROS)[: 8 * part.size], stream.view(np.uint8).data)
        if times != 1:
            stream *= np.uint64(times)
        operation(part, stream, out=part)


class Words:
    """Turns values into words and sums of words into values.

    In a sum that only the parties may read, all k contributors of a group add the same mask g,
    which the server does not know; so k * g is removed at the price of one stream. With
    k = 2**j * odd, the lowest j bits of k * g are zeros and its other bits are uniform. The values
    are therefore shifted up by :attr:`guard` bits, so that those j bits say nothing.
    """

    def __init__(self, settings: SumSettings) -> None:
        count = len(settings.parties)
        self.fraction_bits = settings.precision(FRACTION_BITS)
        self.guard = count.bit_length() - 1
        self.fixed_point: dict[Reveal, FixedPoint] = {
            "server": FixedPoint(self.fraction_bits, 2**63 - 1, count),
            "parties": FixedPoint(self.fraction_bits, (2**63 - 1) >> self.guard, count),
        }

    def size(self, header: Header) -> int:
        """Words that a sum takes."""
        return self._coding(header).size(header)

    def mask(
        self, integers: NDArray[np.int64], group_key: bytes | None = None
    ) -> NDArray[np.uint64]:
        """Words of encoded vectors, in place, whose sum the server can read, or only the holders of
        a key.
        """
        words = integers.view(np.uint64)
        if group_key is not None:
            words <<= np.uint64(self.guard)
            add_stream(words, group_key)
        return words

    def decode(self, header: Header, words: NDArray[np.uint64]) -> SumVectors:
        """The vectors of a sum that the server can read."""
        return self._coding(header).decode_vectors(header, words.view(np.int64))

    def decode_for_parties(
        self,
        header: Header,
        words: NDArray[np.uint64],
        contributors: Mapping[bytes, int],
        grid: StepGrid | None = None,
    ) -> SumVectors:
        """The vectors of a sum that only holders of keys can read; how many used each key."""
        words = words.copy()
        for key, count in contributors.items():
            subtract_stream(words, key, count)
        integers = words.view(np.int64)
        integers >>= self.guard
        return self.fixed_point["parties"].decode_vectors(header, integers, grid)

    def _coding(self, header: Header) -> FixedPoint:
        return self.fixed_point["server" if header.reveal == "server" else "parties"]


def self_mask_key(secret: bytes) -> bytes:
    """The stream key of a self mask."""
    return hashlib.sha256(bind_parts("autofgl", SELF, secret)).digest()


def random_secret() -> bytes:
    """A secret that can be shared: a random element of the field of 2**255 - 19."""
    return _pack(secrets.randbelow(PRIME))


def split_secret(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares of a secret for the points 1 .. count: any ``threshold`` of them give it back.

    The secret is the value at 0 of a random polynomial of degree ``threshold - 1``, the shares are
    its values at the points; fewer say nothing. Shamir, "How to share a secret", CACM 1979.
    """
    polynomial = [_unpack(secret), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * point + coefficient) % PRIME
        shares.append(_pack(value))
    return shares


def lagrange_weights(points: Collection[int]) -> dict[int, int]:
    """Lagrange's coefficients: what each point's share counts in the secret."""
    result = {}
    for point in points:
        over = under = 1
        for other in points:
            if other != point:
                over = over * other % PRIME
                under = under * (other - point) % PRIME
        result[point] = over * pow(under, -1, PRIME) % PRIME
    return result


def combine_shares(shares: Mapping[int, bytes], weights: Mapping[int, int]) -> bytes:
    """The secret of shares by point, weighted by :func:`lagrange_weights` of the same points."""
    total = sum(_unpack(share) * weights[point] for point, share in shares.items())
    return _pack(total % PRIME)


def _pack(value: int) -> bytes:
    return value.to_bytes(SHARE_BYTES, "little")


def _unpack(data: bytes) -> int:
    value = int.from_bytes(data, "little")
    if len(data) != SHARE_BYTES or value >= PRIME:
        raise SecureSumError("malformed share of a secret")
    return value
