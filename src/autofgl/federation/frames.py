"""A message with a note: what an engine says about a payload, and the payload's own bytes.

On the wire: length of the note u32 | note | payload. The note is an encoded payload itself, so
nothing but our one codec ever reads what a network delivers.
"""

import struct

from autofgl.errors import PayloadError
from autofgl.federation.payload import Payload, decode, encode

_LENGTH = struct.Struct("<I")
_MAX_NOTE = 1 << 20


def join(note: Payload, data: bytes = b"") -> bytes:
    """One message of a note and a payload's bytes."""
    head = encode(note)
    return b"".join((_LENGTH.pack(len(head)), head, data))


def split(message: bytes) -> tuple[Payload, bytes]:
    """The note and the payload's bytes.

    Raises:
        PayloadError: The message is not one of ours.
    """
    if type(message) is not bytes or len(message) < _LENGTH.size:
        raise PayloadError("message is truncated or of another kind")
    (size,) = _LENGTH.unpack_from(message)
    end = _LENGTH.size + size
    if size > _MAX_NOTE or end > len(message):
        raise PayloadError(f"message announces a note of {size:,} bytes, has {len(message):,}")
    return decode(message[_LENGTH.size : end]), message[end:]
