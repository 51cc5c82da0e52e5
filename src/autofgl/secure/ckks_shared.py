"""CKKS on all cores: work is cut between ciphertexts, and workers do the pieces.

What is too little to share, and everything on a single core, is done right here. The results are
the same. Adding always goes to a worker where there are several cores: the ciphertexts come from
other parties, and one that is crafted to make SEAL end its process then ends a worker only.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import ckks_workers
from autofgl.secure.ckks import Adder, Cipher, ciphertexts_for, counted
from autofgl.secure.ckks_frames import Frame
from autofgl.secure.ckks_parameters import DEGREE
from autofgl.secure.interface import SecureSumError

_FEWEST = 3  # ciphertexts: less is not worth a way through a pipe
_MOST = 16  # ciphertexts: a worker on a busy core must not hold up the others


class SharedCipher:
    """Encrypts and decrypts as :class:`autofgl.secure.ckks.Cipher` does, on all cores.

    Args:
        seed: Secret bytes, the same at all parties.
        parties: Most ciphertexts in a sum.
    """

    def __init__(self, seed: bytes, parties: int) -> None:
        self._cipher = Cipher(seed, parties)
        self._seed = seed
        self._parties = parties

    def __repr__(self) -> str:
        return "SharedCipher(key hidden)"

    def encrypt(self, integers: NDArray[np.int64]) -> list[bytes]:
        """Ciphertexts of integers, two in each slot."""
        pool = ckks_workers.workers()
        if pool is None or ciphertexts_for(integers.size) <= _FEWEST:
            return self._cipher.encrypt(integers)
        requests = [
            Frame("encrypt", self._parties, _size(piece), (self._seed, integers[piece].tobytes()))
            for piece in _pieces(integers.size, pool.size)
        ]
        return _joined(requests, pool.run(requests))

    def decrypt(self, ciphertexts: Sequence[bytes], size: int) -> NDArray[np.int64]:
        """The integers in a sum of ciphertexts.

        Raises:
            SecureSumError: They are damaged, or not of this key.
        """
        pool = ckks_workers.workers()
        if pool is None or ciphertexts_for(size) <= _FEWEST:
            return self._cipher.decrypt(ciphertexts, size)
        counted(ciphertexts, size)
        requests = [
            Frame("decrypt", self._parties, _size(piece), (self._seed, *_part(ciphertexts, piece)))
            for piece in _pieces(size, pool.size)
        ]
        integers = bytearray().join(part for parts in pool.run(requests) for part in parts)
        if len(integers) != 8 * size:
            raise SecureSumError("a CKKS worker gave a wrong answer")
        return np.frombuffer(integers, np.int64)


def add_shared(
    adder: Adder, parties: int, contributions: Sequence[Sequence[bytes]], size: int
) -> list[bytes]:
    """Adds ciphertexts as an :class:`autofgl.secure.ckks.Adder` does, on all cores.

    Args:
        adder: Does it where there is only one core.
        parties: Most ciphertexts in a sum, as the adder was told.
        contributions: All parties' ciphertexts, in order.
        size: Values that a contribution holds.

    Raises:
        SecureSumError: A ciphertext is damaged, or made with other parameters.
    """
    pool = ckks_workers.workers()
    if pool is None:
        return adder.add(contributions, size)
    for one in contributions:
        counted(one, size)
    requests = [
        Frame(
            "add",
            parties,
            _size(piece),
            [data for one in contributions for data in _part(one, piece)],
        )
        for piece in _pieces(size, pool.size)
    ]
    return _joined(requests, pool.run(requests))


def _pieces(size: int, workers: int) -> Iterator[slice]:
    """Cuts a vector between ciphertexts, into two pieces or more for each worker."""
    each = -(-ciphertexts_for(size) // (2 * workers))
    step = DEGREE * min(max(each, _FEWEST), _MOST)
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _size(piece: slice) -> int:
    return int(piece.stop - piece.start)


def _part(ciphertexts: Sequence[bytes], piece: slice) -> Sequence[bytes]:
    """The ciphertexts of a piece."""
    return ciphertexts[piece.start // DEGREE : ciphertexts_for(piece.stop)]


def _joined(requests: Sequence[Frame], replies: Sequence[Sequence[bytes]]) -> list[bytes]:
    """All ciphertexts of the replies, as many as each request has values for."""
    return [
        data
        for request, parts in zip(requests, replies, strict=True)
        for data in counted(parts, request.size)
    ]
