"""What a process and its CKKS workers say to each other: one frame there, one frame back.

A frame is a head, the lengths of its parts, and the parts. Both ends are ours, but a worker that
met a crafted ciphertext may say anything, so sizes are checked before memory is taken.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["encrypt", "decrypt", "add", "done", "failed"]

_KINDS: tuple[Kind, ...] = get_args(Kind)
_HEAD = struct.Struct("<BIQI")
_LENGTH = struct.Struct("<I")
_MOST_PARTS = 1 << 16
_MOST_BYTES = 1 << 24


class FrameError(Exception):
    """A stream holds something else than a frame."""


@dataclass(frozen=True)
class Frame:
    """A request or a reply.

    ========  ============================================================  ======================
    kind      parts                                                         parts of the reply
    ========  ============================================================  ======================
    encrypt   seed, int64 values                                            ciphertexts
    decrypt   seed, ciphertexts                                             int64 values
    add       the first party's ciphertexts, then the second party's, ...   ciphertexts
    ========  ============================================================  ======================

    The reply's kind is ``done``, or it is ``failed`` and the one part says why.

    Attributes:
        kind: What to do, or how it went.
        parties: Most ciphertexts in a sum.
        size: Values that the ciphertexts of one party hold.
        parts: Bytes, hidden when shown since a seed is among them.
    """

    kind: Kind
    parties: int = 0
    size: int = 0
    parts: Sequence[bytes] = field(default=(), repr=False)


def send(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame and flush."""
    code = _KINDS.index(frame.kind)
    stream.write(_HEAD.pack(code, frame.parties, frame.size, len(frame.parts)))
    stream.write(b"".join(_LENGTH.pack(len(part)) for part in frame.parts))
    for part in frame.parts:
        stream.write(part)
    stream.flush()


def receive(stream: IO[bytes]) -> Frame:
    """Read a frame.

    Raises:
        EOFError: The stream ended.
        FrameError: Something else came.
    """
    code, parties, size, count = _HEAD.unpack(_read(stream, _HEAD.size))
    if code >= len(_KINDS) or count > _MOST_PARTS:
        raise FrameError(f"not a frame: kind {code}, {count} parts")
    lengths = [length for (length,) in _LENGTH.iter_unpack(_read(stream, count * _LENGTH.size))]
    if any(length > _MOST_BYTES for length in lengths):
        raise FrameError(f"a part of {max(lengths)} bytes")
    return Frame(_KINDS[code], parties, size, [_read(stream, length) for length in lengths])


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
