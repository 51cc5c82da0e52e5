"""A message with a note: what an engine says about a payload, and the payload's own bytes.

On the wire: length of the note u32 | note | payload. The note is an encoded payload itself, so
nothing but our one codec ever reads what a network delivers.
"""

import struct

from autofgl.errors import PayloadError
from autofgl.federation.payload import Payload, decode, encode

_LENGTH = struct.Struct("<I")
_MAX_NOTE = 1 << 20
_KINDS = ("ok", "timeout", "lost", "exception", "refused")


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


def split_answer(message: bytes) -> tuple[Payload, bytes]:
    """The note and the payload's bytes of an answer, from a party that may send anything.

    The note has ``kind`` (``ok`` or that of a failure), ``message``, and ``peer``: sizes of the
    messages to and from peers since the last answer, by operation.

    Raises:
        PayloadError: The message is not an answer.
    """
    note, body = split(message)
    peer = note.get("peer", {})
    sizes = list(peer.values()) if type(peer) is dict else [None]
    if note.get("kind") not in _KINDS or type(note.get("message")) is not str:
        raise PayloadError("the note of an answer is malformed")
    if not all(type(row) is list and all(_is_size(size) for size in row) for row in sizes):
        raise PayloadError("the sizes in the note of an answer are malformed")
    return {"kind": note["kind"], "message": note["message"], "peer": peer}, body


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0
