"""Masks: the ChaCha20 key stream as 64-bit words, added modulo 2**64."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

KEY_BYTES = 32

_WORDS = 1 << 15  # words made at once: 256 KiB stay in the cache
_ZEROS = bytes(8 * _WORDS)


def add_stream(words: NDArray[np.uint64], key: bytes) -> None:
    """Add a key's stream in place. A key must serve for one sum only: the nonce is fixed."""
    _apply(np.add, words, key)


def subtract_stream(words: NDArray[np.uint64], key: bytes) -> None:
    """Undo :func:`add_stream`."""
    _apply(np.subtract, words, key)


def _apply(operation: np.ufunc, words: NDArray[np.uint64], key: bytes) -> None:
    encryptor = Cipher(ChaCha20(key, bytes(16)), None).encryptor()
    buffer = np.empty(min(_WORDS, words.size), "<u8")
    for start in range(0, words.size, _WORDS):
        part = words[start : start + _WORDS]
        stream = buffer[: part.size]
        encryptor.update_into(memoryview(_ZEROS)[: 8 * part.size], stream.view(np.uint8).data)
        operation(part, stream, out=part)
