"""The only thing that crosses between parties, and its one binary form.

A payload is a dict of arrays, bytes, text, numbers, lists and dicts, and nothing else. On the wire
and on disk it is::

    magic "AFP1" | header length u32 | body length u64 | header | body

The header is a msgpack map in which every array and every byte string is replaced by a short
note of its type and shape; the body holds their raw bytes, in order. Header and each piece of the
body are padded to a multiple of eight. So the size of a message follows without encoding it, and
decoding copies no array. Nothing in a message is ever executed: there is no pickle, and every
type, size and shape is checked.
"""

import math
import struct
from typing import Any, TypeAlias

import msgpack
import numpy as np

from autofgl.errors import PayloadError

#: ``dict[str, ndarray | bytes | str | int | float | bool | list | dict]``, checked at run time.
Payload: TypeAlias = dict[str, Any]

#: Largest message that is accepted, and largest header within it.
MAX_BYTES = 1 << 33
MAX_HEADER = 1 << 26
MAX_DEPTH = 32
MAX_DIMENSIONS = 8

DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")

_MAGIC = b"AFP1"
_PREFIX = struct.Struct("<4sIQ")
_ARRAY, _BYTES = 1, 2


def freeze(payload: Payload) -> Payload:
    """A checked copy of the containers, with read-only views of the arrays.

    This is how the in-process engine hands a payload over: the receiver cannot write into the
    sender's memory, and a value that could not be encoded is a ``PayloadError`` here already.
    """
    if type(payload) is not dict:
        raise PayloadError(f"a payload is a dict, not {type(payload).__name__}")
    frozen: Payload = _freeze(payload, "", 0)
    return frozen


def encode(payload: Payload) -> bytes:
    """The payload's bytes; ``PayloadError`` if a value may not travel or all is too large."""
    chunks: list[memoryview] = []
    header = msgpack.packb(_strip(freeze(payload), chunks))
    body = sum(len(chunk) + -len(chunk) % 8 for chunk in chunks)
    if len(header) > MAX_HEADER or len(header) + body > MAX_BYTES:
        raise PayloadError(f"payload of {len(header) + body:,} bytes is larger than is accepted")
    parts: list[bytes | memoryview] = [_PREFIX.pack(_MAGIC, len(header), body)]
    for chunk in (memoryview(header), *chunks):
        parts += [chunk, bytes(-len(chunk) % 8)]
    return b"".join(parts)


def encoded_size(payload: Payload) -> int:
    """``len(encode(payload))`` without copying an array. The payload must be frozen."""
    chunks: list[memoryview] = []
    header = memoryview(msgpack.packb(_strip(payload, chunks)))
    return _PREFIX.size + sum(len(chunk) + -len(chunk) % 8 for chunk in (header, *chunks))


def decode(data: bytes, limit: int = MAX_BYTES) -> Payload:
    """The payload of a message; arrays are read-only views into ``data``.

    Bytes that are truncated, oversized, or no payload raise ``PayloadError`` and nothing else.
    """
    if len(data) > limit:
        raise PayloadError(f"message of {len(data):,} bytes exceeds the limit of {limit:,}")
    if len(data) < _PREFIX.size:
        raise PayloadError(f"message of {len(data)} bytes is truncated")
    magic, header_size, body_size = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise PayloadError("not an AutoFGL message")
    header_end = _PREFIX.size + header_size
    body_at = header_end + -header_size % 8
    if header_size > MAX_HEADER or len(data) != body_at + body_size:
        raise PayloadError(f"message announces {body_at + body_size:,} bytes, has {len(data):,}")
    body = _Body(memoryview(data)[body_at:])
    header = data[_PREFIX.size : header_end]
    try:
        payload = msgpack.unpackb(header, ext_hook=body.take, strict_map_key=True)
    except PayloadError:
        raise
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        raise PayloadError(f"malformed message header: {error}") from error
    if body.left:
        raise PayloadError(f"message has {len(body.left)} bytes that nothing refers to")
    return freeze(payload)


class _Body:
    """Hands out the body's chunks in the order in which the header names them."""

    def __init__(self, view: memoryview) -> None:
        self.left = view

    def take(self, code: int, note: bytes) -> Any:
        if code == _BYTES and len(note) == 8:
            return bytes(self._chunk(int.from_bytes(note, "little")))
        if code != _ARRAY:
            raise PayloadError(f"unknown extension type {code} in a message")
        if not note or note[0] >= len(DTYPES) or (len(note) - 1) % 8 or len(note) > 65:
            raise PayloadError("malformed array in a message")
        dtype = np.dtype(DTYPES[note[0]])
        shape = struct.unpack(f"<{(len(note) - 1) // 8}Q", note[1:])
        chunk = self._chunk(math.prod(shape) * dtype.itemsize)
        try:
            array = np.frombuffer(chunk, dtype).reshape(shape)
        except (ValueError, OverflowError) as error:
            raise PayloadError(f"impossible array shape {shape} in a message") from error
        if dtype == np.bool_ and np.any(array.view(np.uint8) > 1):
            raise PayloadError("a boolean array holds bytes other than 0 and 1")
        return array

    def _chunk(self, size: int) -> memoryview:
        padded = size + -size % 8
        if padded > len(self.left):
            raise PayloadError(f"message names {size:,} bytes where {len(self.left):,} are left")
        chunk, self.left = self.left[:size], self.left[padded:]
        return chunk


def _strip(value: Any, chunks: list[memoryview]) -> Any:
    """Replace arrays and bytes by notes, moving their contents to ``chunks``."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        chunks.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        note = struct.pack(f"<B{value.ndim}Q", DTYPES.index(value.dtype.str), *value.shape)
        return msgpack.ExtType(_ARRAY, note)
    if isinstance(value, bytes):
        chunks.append(memoryview(value))
        return msgpack.ExtType(_BYTES, len(value).to_bytes(8, "little"))
    if isinstance(value, dict):
        return {key: _strip(item, chunks) for key, item in value.items()}
    if isinstance(value, list):
        return [_strip(item, chunks) for item in value]
    return value


def _freeze(value: Any, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise PayloadError(f"'{where}' is nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if kind is dict:
        if odd := [key for key in value if type(key) is not str]:
            raise PayloadError(f"payload keys are text, not {type(odd[0]).__name__}")
        path = f"{where}." if where else ""
        return {key: _freeze(item, path + key, depth + 1) for key, item in value.items()}
    if kind is list:
        return [_freeze(item, where, depth + 1) for item in value]
    if kind is np.ndarray:
        if value.dtype.str not in DTYPES:
            raise PayloadError(f"'{where}' has dtype {value.dtype}, which may not travel")
        if value.ndim > MAX_DIMENSIONS:
            raise PayloadError(
                f"'{where}' has {value.ndim} dimensions, at most {MAX_DIMENSIONS} travel"
            )
        value = value.view()
        value.flags.writeable = False
    elif kind is int and not -(1 << 63) <= value < 1 << 63:
        raise PayloadError(f"'{where}' is an integer beyond 64 bits")
    elif kind not in (bytes, str, int, float, bool):
        raise PayloadError(f"'{where}' is a {kind.__name__}, which may not travel")
    return value
