"""CKKS on all cores: work is cut between ciphertexts, and worker processes do the pieces.

Processes, since SEAL's bindings hold the interpreter's lock. All parties in a process share them.
What is too little to share, and everything on a single core, is done right here. The results are
the same. Adding always goes to a worker where there are several cores: the ciphertexts come from
other parties, and one that is crafted to make SEAL end its process then ends a worker only.

A task is a head and parts, an answer is parts:

========  ============================================================  ======================
kind      parts of the task                                             parts of the answer
========  ============================================================  ======================
encrypt   seed, int64 values                                            ciphertexts
decrypt   seed, ciphertexts                                             int64 values
add       the first party's ciphertexts, then the second party's, ...   ciphertexts
========  ============================================================  ======================
"""

import itertools
import os
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import SecureSumError
from autofgl.secure.ckks import DEGREE
from autofgl.secure.ckks.cipher import Adder, Cipher, check_count, ciphertexts_for
from autofgl.workers import TaskError, WorkerLost, WorkerPool, shared_pool

_HEAD = struct.Struct("<7sIQ")  # kind, most ciphertexts in a sum, values of a party
_FEWEST = 3  # ciphertexts: less is not worth a way through a pipe
_MOST = 16  # ciphertexts: a worker on a busy core must not hold up the others

_cipher = lru_cache(maxsize=16)(Cipher)
_adder = lru_cache(maxsize=16)(Adder)


class ParallelCipher:
    """Encrypts and decrypts as :class:`autofgl.secure.ckks.cipher.Cipher` does, on all cores."""

    def __init__(self, seed: bytes, parties: int) -> None:
        self._cipher = Cipher(seed, parties)
        self._seed = seed
        self._parties = parties

    def __repr__(self) -> str:
        return "ParallelCipher(key hidden)"

    def encrypt(self, integers: NDArray[np.int64]) -> list[bytes]:
        """Ciphertexts of integers, two in each slot."""
        pool = ckks_pool()
        if pool is None or ciphertexts_for(integers.size) <= _FEWEST:
            return self._cipher.encrypt(integers)

        def parts(piece: slice) -> list[bytes]:
            return [self._seed, integers[piece].tobytes()]

        answers = _run(pool, "encrypt", self._parties, integers.size, parts)
        return check_count(answers, integers.size)

    def decrypt(self, ciphertexts: Sequence[bytes], size: int) -> NDArray[np.int64]:
        """The integers in a sum of ciphertexts; damaged ones and those of other keys raise."""
        pool = ckks_pool()
        if pool is None or ciphertexts_for(size) <= _FEWEST:
            return self._cipher.decrypt(ciphertexts, size)
        check_count(ciphertexts, size)

        def parts(piece: slice) -> list[bytes]:
            return [self._seed, *_part(ciphertexts, piece)]

        integers = bytearray().join(_run(pool, "decrypt", self._parties, size, parts))
        if len(integers) != 8 * size:
            raise SecureSumError("a CKKS worker gave a wrong answer")
        return np.frombuffer(integers, np.int64)


class ParallelAdder:
    """Adds ciphertexts as :class:`autofgl.secure.ckks.cipher.Adder` does, on all cores."""

    def __init__(self, parties: int) -> None:
        self._adder = Adder(parties)
        self._parties = parties

    def add(self, contributions: Sequence[Sequence[bytes]], size: int) -> list[bytes]:
        """The sums of all parties' ciphertexts, in order; damaged or foreign ones raise."""
        pool = ckks_pool()
        if pool is None:
            return self._adder.add(contributions, size)
        rows = [check_count(one, size) for one in contributions]

        def parts(piece: slice) -> list[bytes]:
            return [data for row in rows for data in _part(row, piece)]

        return check_count(_run(pool, "add", self._parties, size, parts), size)


def ckks_pool() -> WorkerPool | None:
    """This process's workers, one for a core; none on a single core."""
    allowed = available_cores()
    if len(allowed) < 2:
        return None
    return shared_pool(f"{__name__}:answer_ckks", len(allowed), cores=allowed)


def available_cores() -> list[int]:
    """Cores that this process may use. Processes differ in which they take first."""
    allowed = sorted(os.sched_getaffinity(0))
    first = os.getpid() % len(allowed)
    return allowed[first:] + allowed[:first]


def answer_ckks(task: bytes, canceled: Callable[[], bool]) -> bytes:  # noqa: ARG001
    """Do what a task asks for: what a worker does."""
    head, *parts = _unpack(task)
    kind, parties, size = _HEAD.unpack(head)
    if kind.rstrip(b"\0") == b"add":
        each = ciphertexts_for(size)
        rows = [parts[start : start + each] for start in range(0, len(parts), each)]
        answer = _adder(parties).add(rows, size)
    elif kind == b"encrypt":
        answer = _cipher(parts[0], parties).encrypt(np.frombuffer(parts[1], np.int64))
    else:
        answer = [_cipher(parts[0], parties).decrypt(parts[1:], size).tobytes()]
    return b"".join(_packed(answer))


def _pieces(size: int, workers: int) -> list[slice]:
    """Cuts a vector between ciphertexts, into two pieces or more for each worker."""
    each = -(-ciphertexts_for(size) // (2 * workers))
    step = DEGREE * min(max(each, _FEWEST), _MOST)
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _part(ciphertexts: Sequence[bytes], piece: slice) -> Sequence[bytes]:
    """The ciphertexts of a piece."""
    return ciphertexts[piece.start // DEGREE : ciphertexts_for(piece.stop)]


def _task(kind: str, parties: int, piece: slice, parts: Sequence[bytes]) -> list[bytes]:
    return _packed([_HEAD.pack(kind.encode(), parties, piece.stop - piece.start), *parts])


def _run(
    pool: WorkerPool, kind: str, parties: int, size: int, parts: Callable[[slice], list[bytes]]
) -> list[bytes]:
    """The parts of the answers to a task for each piece, in order."""
    tasks = [_task(kind, parties, piece, parts(piece)) for piece in _pieces(size, pool.size)]
    try:
        return [part for answer in pool.run(tasks) for part in _unpack(answer)]
    except TaskError as error:
        raise SecureSumError(str(error)) from error
    except WorkerLost as error:
        raise SecureSumError(
            f"a CKKS worker ended ({error.how}) and could not {kind}: "
            "a ciphertext was crafted to do that, or memory is short"
        ) from error


def _packed(parts: Sequence[bytes]) -> list[bytes]:
    """Number and lengths before the parts."""
    return [struct.pack(f"<{1 + len(parts)}I", len(parts), *map(len, parts)), *parts]


def _unpack(data: bytes) -> list[bytes]:
    """Undo :func:`_packed`. A worker that met a crafted ciphertext may say anything."""
    try:
        (count,) = struct.unpack_from("<I", data)
        lengths = struct.unpack_from(f"<{count}I", data, 4)
    except struct.error as error:
        raise SecureSumError("a CKKS worker gave a wrong answer") from error
    stops = np.cumsum((4 + 4 * count, *lengths)).tolist()
    if stops[-1] != len(data):
        raise SecureSumError("a CKKS worker gave a wrong answer")
    return [data[start:stop] for start, stop in itertools.pairwise(stops)]
