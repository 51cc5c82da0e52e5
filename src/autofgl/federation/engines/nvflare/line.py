"""Messages between the coordinator and a running job: their form, the socket, calls at once.

A message is a note (what the engine says about a payload) and the payload's own bytes: length of
the note u32 | note | payload. The note is an encoded payload itself, so nothing but our one codec
ever reads what a network delivers. On the socket, a Unix socket between two processes of one user,
each is a frame of :mod:`autofgl.workers`.
"""

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from autofgl.errors import PayloadError
from autofgl.federation.payload import Payload, decode, encode
from autofgl.workers import FrameError, read_frame, write_frame

_NOTE_LENGTH = struct.Struct("<I")
_MAX_NOTE = 1 << 20
_KINDS = ("ok", "timeout", "lost", "exception", "refused")


def pack_message(note: Payload, data: bytes = b"") -> bytes:
    """One message of a note and a payload's bytes."""
    head = encode(note)
    return b"".join((_NOTE_LENGTH.pack(len(head)), head, data))


def unpack_message(message: bytes) -> tuple[Payload, bytes]:
    """The note and the payload's bytes; ``PayloadError`` if the message is not one of ours."""
    if type(message) is not bytes or len(message) < _NOTE_LENGTH.size:
        raise PayloadError("message is truncated or of another kind")
    (size,) = _NOTE_LENGTH.unpack_from(message)
    end = _NOTE_LENGTH.size + size
    if size > _MAX_NOTE or end > len(message):
        raise PayloadError(f"message announces a note of {size:,} bytes, has {len(message):,}")
    return decode(message[_NOTE_LENGTH.size : end]), message[end:]


def unpack_answer(message: bytes) -> tuple[Payload, bytes]:
    """The note and the payload's bytes of an answer, from a party that may send anything.

    The note has ``kind`` (``ok`` or that of a failure), ``message``, and ``peer``: sizes of the
    messages to and from peers since the last answer, by operation.
    """
    note, body = unpack_message(message)
    peer = note.get("peer", {})
    rows: list[Any] = list(peer.values()) if type(peer) is dict else [None]
    if note.get("kind") not in _KINDS or type(note.get("message")) is not str:
        raise PayloadError("the note of an answer is malformed")
    if any(type(row) is not list for row in rows) or any(
        type(size) is not int or size < 0 for row in rows for size in row
    ):
        raise PayloadError("the sizes in the note of an answer are malformed")
    return {"kind": note["kind"], "message": note["message"], "peer": peer}, body


class Pipe:
    """Whole messages in both directions. Several threads may send, one receives."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._reader = connected.makefile("rb")
        self._writer = connected.makefile("wb")
        self._lock = threading.Lock()

    @classmethod
    def connect(cls, address: str) -> "Pipe":
        """The connecting end."""
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(address)
        return cls(connected)

    def send(self, message: bytes) -> None:
        """Send one message; raises ``OSError`` if the other end is gone."""
        try:
            with self._lock:
                write_frame(self._writer, message)
        except ValueError as error:  # it was closed at this end
            raise OSError(str(error)) from error

    def receive(self) -> bytes:
        """The next message; raises ``EOFError`` or ``OSError`` if the other end is gone."""
        try:
            return read_frame(self._reader)
        except (FrameError, ValueError) as error:
            raise EOFError(str(error)) from error

    def close(self) -> None:
        """Hang up; wakes a thread that receives."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for end in (self._writer, self._reader, self._socket):
            with contextlib.suppress(OSError):
                end.close()


class Answer(NamedTuple):
    """What a site answered: ``ok`` and the payload's bytes, or the kind of a failure and why."""

    kind: str
    message: str = ""
    data: bytes = b""


class JobLine:
    """Calls to sites, many at once, over one connection to the job."""

    def __init__(self, pipe: Pipe, at_end: Callable[[], None] = lambda: None) -> None:
        self.on_peer_traffic: Callable[[str, int], None] = lambda op, size: None  # noqa: ARG005
        self._pipe = pipe
        self._at_end = at_end
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._ended = ""
        self._thread = threading.Thread(target=self._receive, name="line", daemon=True)
        self._thread.start()

    def call(self, party: str, op: str, data: bytes, timeout: float | None) -> "Future[Answer]":
        """Send a call; its answer comes later, and comes in any case."""
        future: Future[Answer] = Future()
        with self._lock:
            number = next(self._ids)
            if self._ended:
                future.set_result(Answer("lost", self._ended))
                return future
            self._waiting[number] = future
        note = {"id": number, "party": party, "op": op, "timeout": float(timeout or 0)}
        try:
            self._pipe.send(pack_message(note, data))
        except OSError as error:
            self._end(f"the server's job is gone: {error}")
        return future

    def close(self) -> None:
        """Hang up, and wait for the end of the job."""
        self.hang_up()
        self._at_end()

    def hang_up(self) -> None:
        """Let the job end by itself."""
        self._end("the federation is closed")
        self._pipe.close()
        self._thread.join(5)

    def _receive(self) -> None:
        with contextlib.suppress(EOFError, OSError, PayloadError):
            while True:
                note, data = unpack_message(self._pipe.receive())
                answer = Answer(note["kind"], note["message"])
                if answer.kind == "ok":
                    answer = self._site_answer(data)
                with self._lock:
                    future = self._waiting.pop(note["id"], None)
                if future is not None:
                    future.set_result(answer)
        self._end("the server's job has ended")

    def _site_answer(self, message: bytes) -> Answer:
        """A site's own message; a site that sends something else has failed."""
        try:
            note, data = unpack_answer(message)
        except PayloadError as error:
            return Answer("exception", f"sent a malformed answer: {error}")
        for op, sizes in note["peer"].items():
            for size in sizes:
                self.on_peer_traffic(op, size)
        return Answer(note["kind"], note["message"], data)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = self._ended or reason
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_result(Answer("lost", reason))
