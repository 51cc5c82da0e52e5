"""The only thing that crosses between parties, and its one binary form.

A payload is a dict of arrays, bytes, text, numbers, lists and dicts, and nothing else. On the wire
and on disk it is::

    magic "AFP1" | header length u32 | body length u64 | header | body

The header is a msgpack map in which every array and every byte string is replaced by a short
note of its type and shape; the body holds their raw bytes, in order. Header and each piece of the
body are padded to a multiple of eight. So the size of a message follows without encoding it, and
decoding copies no array. Nothing in a message is ever executed: there is no pickle, and every
type, size and shape is checked.

**Memory.** A byte of msgpack can stand for an empty dict, which takes a hundred bytes of memory. So
every value has a weight, at least the bytes that it takes in memory (``_LEAF`` and so on), and a
message weighs at most ``FREE + RATIO`` times its size: decoding counts along and stops there. The
encoder adds zeros at the end of the header of a payload of very many small values, which only large
states of searches have.
"""

import hashlib
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
#: Longest key of a dict, in bytes.
MAX_KEY = 4096
#: Bytes of memory that any message may take, and that it may take besides for each of its bytes.
FREE = 1 << 18
RATIO = 8

DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")

_MAGIC = b"AFP1"
_PREFIX = struct.Struct("<4sIQ")
_ARRAY, _BYTES = 1, 2
_KINDS = tuple(np.dtype(name) for name in DTYPES)

#: Bytes of memory of a number with its place in a list; of a text or byte string besides its own
#: bytes, of which one of a text can take four; of an array; of a list; of a dict; of an entry of a
#: dict with its key.
_LEAF, _TEXT, _NDARRAY, _LIST, _DICT, _ENTRY = 48, 96, 320, 104, 160, 208
#: Types that travel as they are, and those of which every value may travel: most of a payload's
#: parts are of these, and need no call.
_PLAIN = frozenset((str, int, float, bool))
_ANY_VALUE = frozenset((bytes, str, float, bool))
#: The most that a byte of a header can weigh: a dict in a list.
_HEAVIEST = 256


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
    header, body = _packed(freeze(payload), chunks)
    if len(header) > MAX_HEADER or len(header) + body > MAX_BYTES:
        raise PayloadError(f"payload of {len(header) + body:,} bytes is larger than is accepted")
    parts: list[bytes | memoryview] = [_PREFIX.pack(_MAGIC, len(header), body)]
    for chunk in (memoryview(header), *chunks):
        parts += [chunk, bytes(-len(chunk) % 8)]
    return b"".join(parts)


def encoded_size(payload: Payload) -> int:
    """``len(encode(payload))`` without copying an array. The payload must be frozen."""
    header, body = _packed(payload, [])
    return _PREFIX.size + len(header) + -len(header) % 8 + body


def fingerprint(payload: Payload) -> bytes:
    """Names a payload by what it is on the wire, without copying an array; it must be frozen."""
    chunks: list[memoryview] = []
    header, _ = _packed(payload, chunks)
    digest = hashlib.sha256(header)  # which says how long each chunk is
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


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
    body_at = _PREFIX.size + header_size + -header_size % 8
    if header_size > MAX_HEADER or len(data) != body_at + body_size:
        raise PayloadError(f"message announces {body_at + body_size:,} bytes, has {len(data):,}")
    reader = _Reader(bytes(data), _PREFIX.size + header_size, body_at)
    try:
        payload = reader.value(0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise PayloadError(f"malformed message header: {error}") from error
    reader.check_end()
    if type(payload) is not dict:
        raise PayloadError(f"a payload is a dict, not {type(payload).__name__}")
    return payload


class _Reader:
    """Reads the header's values one after another, and the chunks of the body that they name."""

    def __init__(self, data: bytes, header_end: int, body_at: int) -> None:
        self._data = data
        self._at = _PREFIX.size
        self._end = header_end
        self._body_at = body_at
        self._left = FREE + RATIO * len(data)

    def value(self, depth: int) -> Any:
        """The next value. Containers are charged before they are built."""
        if depth > MAX_DEPTH:
            raise PayloadError(f"a message is nested deeper than {MAX_DEPTH}")
        code = self._byte()
        if code < 0x80:
            self._charge(_LEAF)
            return code
        if code < 0x90:
            return self._dict(code & 0x0F, depth)
        if code < 0xA0:
            return self._list(code & 0x0F, depth)
        if code < 0xC0:
            return self._text(code & 0x1F)
        if code >= 0xE0:
            self._charge(_LEAF)
            return code - 0x100
        if code in _NUMBERS:
            self._charge(_LEAF)
            form = _NUMBERS[code]
            return self._integer(form) if code != 0xCB else self._unpacked(form)
        if code in _BOOLEANS:
            self._charge(_LEAF)
            return code == 0xC3
        if code in _SIZES:
            return self._sized(code, self._unpacked(_SIZES[code]), depth)
        if 0xD4 <= code <= 0xD8:
            return self._note(1 << (code - 0xD4))
        raise PayloadError(f"a message has no values of type 0x{code:02x}")

    def check_end(self) -> None:
        """Refuse what nothing refers to: all that may be left of the header are zeros."""
        filler = self._data[self._at : self._end]
        if filler.count(0) != len(filler):
            raise PayloadError(f"message has {len(filler)} bytes of header after its values")
        if self._body_at != len(self._data):
            left = len(self._data) - self._body_at
            raise PayloadError(f"message has {left} bytes that nothing refers to")

    def _sized(self, code: int, size: int, depth: int) -> Any:
        """A value whose size stands after its code."""
        if code <= 0xC9:
            return self._note(size)
        if code <= 0xDB:
            return self._text(size)
        return self._list(size, depth) if code <= 0xDD else self._dict(size, depth)

    def _dict(self, size: int, depth: int) -> Payload:
        self._open(size, _DICT + size * _ENTRY)
        entries: Payload = {}
        for _ in range(size):
            key = self._key()
            entries[key] = self.value(depth + 1)
        if len(entries) != size:
            raise PayloadError("a dict in a message has a key twice")
        return entries

    def _list(self, size: int, depth: int) -> list[Any]:
        self._open(size, _LIST)
        return [self.value(depth + 1) for _ in range(size)]

    def _open(self, size: int, weight: int) -> None:
        if size > self._end - self._at:
            raise PayloadError(f"message names {size:,} values where fewer bytes are left")
        self._charge(weight)

    def _key(self) -> str:
        code = self._byte()
        if 0xA0 <= code < 0xC0:
            size = code & 0x1F
        elif 0xD9 <= code <= 0xDB:
            size = self._unpacked(_SIZES[code])
        else:
            raise PayloadError(f"payload keys are text, not values of type 0x{code:02x}")
        if size > MAX_KEY:
            raise PayloadError(f"a key of {size:,} bytes is longer than {MAX_KEY:,}")
        self._charge(4 * size)
        return self._taken(size).decode()

    def _text(self, size: int) -> str:
        self._charge(_TEXT + 4 * size)
        return self._taken(size).decode()

    def _integer(self, form: struct.Struct) -> int:
        value: int = self._unpacked(form)
        if value >= 1 << 63:
            raise PayloadError("a message has an integer beyond 64 bits")
        return value

    def _note(self, size: int) -> Any:
        """An array or byte string: its note stands here, its bytes in the body."""
        code, note = self._byte(), self._taken(size)
        if code == _BYTES and size == 8:
            length = int.from_bytes(note, "little")
            self._charge(_TEXT + length)
            at = self._chunk(length)
            return self._data[at : at + length]
        if code != _ARRAY:
            raise PayloadError(f"unknown extension type {code} in a message")
        if not note or note[0] >= len(DTYPES) or (size - 1) % 8 or size > 1 + 8 * MAX_DIMENSIONS:
            raise PayloadError("malformed array in a message")
        return self._array(_KINDS[note[0]], struct.unpack(f"<{size // 8}Q", note[1:]))

    def _array(self, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> Any:
        self._charge(_NDARRAY)
        count = math.prod(shape)
        at = self._chunk(count * dtype.itemsize)
        try:
            array = np.ndarray(shape, dtype, self._data, at)
        except (ValueError, OverflowError) as error:
            raise PayloadError(f"impossible array shape {shape} in a message") from error
        if dtype == np.bool_ and np.any(array.view(np.uint8) > 1):
            raise PayloadError("a boolean array holds bytes other than 0 and 1")
        return array

    def _chunk(self, size: int) -> int:
        """Where the next chunk of the body begins."""
        at, left = self._body_at, len(self._data) - self._body_at
        if size + -size % 8 > left:
            raise PayloadError(f"message names {size:,} bytes where {left:,} are left")
        self._body_at += size + -size % 8
        return at

    def _charge(self, weight: int) -> None:
        self._left -= weight
        if self._left < 0:
            raise PayloadError(f"message takes more than {RATIO} times its size in memory")

    def _byte(self) -> int:
        if self._at >= self._end:
            raise PayloadError("message header is truncated")
        self._at += 1
        return self._data[self._at - 1]

    def _unpacked(self, form: struct.Struct) -> Any:
        return form.unpack(self._taken(form.size))[0]

    def _taken(self, size: int) -> bytes:
        if size > self._end - self._at:
            raise PayloadError("message header is truncated")
        self._at += size
        return self._data[self._at - size : self._at]


#: Codes of msgpack that a header has besides those with their value in them.
_NUMBERS = {
    0xCB: struct.Struct(">d"), 0xCC: struct.Struct(">B"), 0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"), 0xCF: struct.Struct(">Q"), 0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"), 0xD2: struct.Struct(">i"), 0xD3: struct.Struct(">q"),
}  # fmt: skip
_SIZES = {
    0xC7: struct.Struct(">B"), 0xC8: struct.Struct(">H"), 0xC9: struct.Struct(">I"),
    0xD9: struct.Struct(">B"), 0xDA: struct.Struct(">H"), 0xDB: struct.Struct(">I"),
    0xDC: struct.Struct(">H"), 0xDD: struct.Struct(">I"), 0xDE: struct.Struct(">H"),
    0xDF: struct.Struct(">I"),
}  # fmt: skip
_BOOLEANS = (0xC2, 0xC3)


def _packed(payload: Payload, chunks: list[memoryview]) -> tuple[bytes, int]:
    """The header, and the size of the body, whose pieces go to ``chunks``."""
    try:
        header: bytes = msgpack.packb(_strip(payload, chunks))
    except UnicodeEncodeError as error:
        raise PayloadError(f"a text that is no Unicode may not travel: {error}") from error
    body = sum(len(chunk) + -len(chunk) % 8 for chunk in chunks)
    allowed = FREE + RATIO * (_PREFIX.size + len(header) + body)
    if _HEAVIEST * len(header) > allowed and (over := _weight(payload) - allowed) > 0:
        header += bytes(-(-over // RATIO))
    return header, body


def _weight(value: Any) -> int:
    """What a reader charges for a value."""
    kind = type(value)
    if kind is dict:
        own = sum(_ENTRY + 4 * len(key.encode()) + _weight(one) for key, one in value.items())
        return _DICT + own
    if kind is list:
        return _LIST + sum(map(_weight, value))
    if kind is np.ndarray:
        return _NDARRAY
    if kind is str:
        return _TEXT + 4 * len(value.encode())
    return _TEXT + len(value) if kind is bytes else _LEAF


def _strip(value: Any, chunks: list[memoryview]) -> Any:
    """Replace arrays and bytes by notes, moving their contents to ``chunks``."""
    kind = type(value)
    if kind is dict:
        return {
            key: item if type(item) in _PLAIN else _strip(item, chunks)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _PLAIN else _strip(item, chunks) for item in value]
    if kind is np.ndarray:
        chunks.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        note = struct.pack(f"<B{value.ndim}Q", DTYPES.index(value.dtype.str), *value.shape)
        return msgpack.ExtType(_ARRAY, note)
    if kind is bytes:
        chunks.append(memoryview(value))
        return msgpack.ExtType(_BYTES, len(value).to_bytes(8, "little"))
    return value


def _freeze(value: Any, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise PayloadError(f"'{where}' is nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if kind is dict:
        if odd := [key for key in value if type(key) is not str]:
            raise PayloadError(f"payload keys are text, not {type(odd[0]).__name__}")
        if long := [key for key in value if len(key) > MAX_KEY // 4]:
            raise PayloadError(f"a key of {len(long[0]):,} characters is too long")
        path = f"{where}." if where else ""
        return {
            key: item if type(item) in _ANY_VALUE else _freeze(item, path + key, depth + 1)
            for key, item in value.items()
        }
    if kind is list:
        return [
            item if type(item) in _ANY_VALUE else _freeze(item, where, depth + 1) for item in value
        ]
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
    elif kind is not int and kind not in _ANY_VALUE:
        raise PayloadError(f"'{where}' is a {kind.__name__}, which may not travel")
    return value
