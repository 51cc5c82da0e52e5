"""CKKS through TenSEAL's bindings of Microsoft SEAL. Nothing else imports TenSEAL.

Integers go in and sums of integers come out; :mod:`autofgl.secure.ckks` says why they are exact.
The parties share one secret key, so they encrypt symmetrically, which is less noisy, and half of a
fresh ciphertext is the seed of its random part.

On the wire a digest stands before SEAL's bytes: SEAL checks what it loads, but some damaged inputs
make it end the process instead of raising.
"""

import hashlib
import importlib
import os
import struct
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autofgl.errors import UserError
from autofgl.secure import SecureSumError
from autofgl.secure.ckks import DEGREE, MODULUS_BITS, grid_step, noise_bound

SEED_BYTES = 64

_Ciphertexts = TypeVar("_Ciphertexts", bound=Sequence[bytes])
_SLOTS = DEGREE // 2
_DIGEST_BYTES = 16
_MOST_BYTES = 2 * 8 * DEGREE + 4096
_SEAL_ERRORS = (RuntimeError, ValueError, IndexError, OverflowError, MemoryError)


def ciphertexts_for(values: int) -> int:
    """Ciphertexts that so many values fill."""
    return -(-values // DEGREE)


class Cipher:
    """Encrypts and decrypts with the key that a secret seed, the same at all parties, stands for.

    At most as many ciphertexts as parties are in a sum.
    """

    def __init__(self, seed: bytes, parties: int) -> None:
        seal = _seal()
        self._context = _context()
        key = _secret_key(seed)
        self._encryptor = seal.Encryptor(self._context, key)
        self._decryptor = seal.Decryptor(self._context, key)
        self._encoder = seal.CKKSEncoder(self._context)
        self._grid = float(grid_step(parties))
        self._most_noise = noise_bound(parties) / self._grid

    def __repr__(self) -> str:
        return "Cipher(key hidden)"

    def encrypt(self, integers: NDArray[np.int64]) -> list[bytes]:
        """Ciphertexts of integers, two in each slot."""
        padded = np.zeros((ciphertexts_for(integers.size), 2, _SLOTS))
        padded.reshape(-1)[: integers.size] = integers
        slots = padded[:, 0] + 1j * padded[:, 1]
        plain = _seal().Plaintext()
        ciphertexts = []
        with _Scratch() as scratch:
            for row in slots:
                self._encoder.encode(row.tolist(), self._grid, plain)
                self._encryptor.encrypt_symmetric(plain).save(scratch.path)
                ciphertexts.append(_with_digest(scratch.read()))
        return ciphertexts

    def decrypt(self, ciphertexts: Sequence[bytes], size: int) -> NDArray[np.int64]:
        """The integers in a sum of ciphertexts; damaged ones and those of other keys raise."""
        padded = np.empty((ciphertexts_for(size), 2, _SLOTS))
        with _Scratch() as scratch:
            for row, data in zip(padded, check_count(ciphertexts, size), strict=True):
                slots = self._decrypt(_load(data, self._grid, scratch))
                row[0], row[1] = slots.real, slots.imag
        integers = np.rint(padded)
        np.subtract(padded, integers, out=padded)
        if padded.size and not max(padded.max(), -padded.min()) <= self._most_noise:
            raise SecureSumError("a ciphertext does not decrypt: it is damaged or of another key")
        return integers.reshape(-1)[:size].astype(np.int64)

    def _decrypt(self, ciphertext: Any) -> NDArray[np.complex128]:
        plain = _seal().Plaintext()
        try:
            self._decryptor.decrypt(ciphertext, plain)
            return np.fromiter(self._encoder.decode_complex(plain), np.complex128, _SLOTS)
        except _SEAL_ERRORS as error:
            raise SecureSumError(f"a ciphertext does not decrypt: {error}") from error


class Adder:
    """Adds ciphertexts, one of each party at most; it knows the parameters and no key."""

    def __init__(self, parties: int) -> None:
        self._evaluator = _seal().Evaluator(_context())
        self._grid = float(grid_step(parties))

    def add(self, contributions: Sequence[Sequence[bytes]], size: int) -> list[bytes]:
        """The sums of all parties' ciphertexts, in order; damaged or foreign ones raise."""
        columns = zip(*(check_count(one, size) for one in contributions), strict=True)
        sums = []
        with _Scratch() as scratch:
            for first, *others in columns:
                total = _load(first, self._grid, scratch)
                for data in others:
                    self._evaluator.add_inplace(total, _load(data, self._grid, scratch))
                total.save(scratch.path)
                sums.append(_with_digest(scratch.read()))
        return sums


class _Scratch:
    """A file without a place on disk where the system has such: SEAL reads and writes files only.

    It holds ciphertexts, never keys.
    """

    def __enter__(self) -> "_Scratch":
        if hasattr(os, "memfd_create"):
            self._file: IO[bytes] = os.fdopen(os.memfd_create("autofgl-ciphertext"), "r+b")
            self.path = f"/proc/self/fd/{self._file.fileno()}"
        else:
            self._file = tempfile.NamedTemporaryFile()
            self.path = self._file.name
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self) -> bytes:
        return os.pread(self._file.fileno(), os.fstat(self._file.fileno()).st_size, 0)

    def write(self, data: bytes) -> None:
        os.pwrite(self._file.fileno(), data, 0)
        os.ftruncate(self._file.fileno(), len(data))


def _load(data: bytes, scale: float, scratch: _Scratch) -> Any:
    ciphertext = _seal().Ciphertext()
    body = data[_DIGEST_BYTES:]
    if data != _with_digest(body):
        raise SecureSumError("a ciphertext is damaged: its digest is wrong")
    scratch.write(body)
    try:
        ciphertext.load(_context(), scratch.path)
    except _SEAL_ERRORS as error:
        raise SecureSumError(
            f"a ciphertext is damaged or made with other parameters: {error}"
        ) from error
    if ciphertext.size() != 2 or ciphertext.scale != scale or not ciphertext.is_ntt_form():
        raise SecureSumError("a ciphertext was made with other parameters")
    return ciphertext


def _with_digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:_DIGEST_BYTES] + body


def check_count(ciphertexts: _Ciphertexts, size: int) -> _Ciphertexts:
    """The ciphertexts, which must be as many as the values need, and none of them too long."""
    if len(ciphertexts) != ciphertexts_for(size):
        raise SecureSumError(
            f"{size} values need {ciphertexts_for(size)} ciphertexts, {len(ciphertexts)} came"
        )
    if any(type(data) is not bytes or len(data) > _MOST_BYTES for data in ciphertexts):
        raise SecureSumError("malformed ciphertext")
    return ciphertexts


def _secret_key(seed: bytes) -> Any:
    """The key that SEAL's generator makes when it draws from this seed."""
    seal = _seal()
    parameters = _parameters()
    words = struct.unpack("<8Q", seed)
    parameters.set_random_generator(seal.Blake2xbPRNGFactory(list(words)))
    context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128)
    return seal.KeyGenerator(context).secret_key()


def _parameters() -> Any:
    seal = _seal()
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, [MODULUS_BITS]))
    return parameters


@cache
def _context() -> Any:
    seal = _seal()
    context = seal.SEALContext(_parameters(), True, seal.SEC_LEVEL_TYPE.TC128)
    if not context.parameters_set():
        raise SecureSumError(f"SEAL refuses the parameters: {context.parameters_error_message()}")
    return context


@cache
def _seal() -> Any:
    try:
        return importlib.import_module("tenseal.sealapi")
    except ImportError as error:
        raise UserError(
            "secure mode 'ckks' needs TenSEAL: pip install 'tenseal>=0.3.18'"
        ) from error
