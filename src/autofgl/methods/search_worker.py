"""A process that searches for clients of its parent: ``python -m autofgl.methods.search_worker``.

It makes the searches on its standard input, one after the other, gives up those that are cancelled,
and ends when the input ends, even in the midst of a search: a thread waits for the input alone. The
input ends when the parent ends, in whatever way, so that no process is left behind. Messages are
payloads; nothing is unpickled.
"""

import os
import queue
import struct
import sys
import threading
from functools import partial
from typing import IO

import torch

from autofgl.federation.payload import Payload, decode, encode

_LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], payload: Payload) -> None:
    """Write a message and flush."""
    data = encode(payload)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Payload:
    """Read a message.

    Raises:
        EOFError: The stream ended.
        PayloadError: It holds something else.
    """
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return decode(_read(stream, length))


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


class _Inbox:
    """What the parent has said."""

    def __init__(self) -> None:
        self.searches: queue.SimpleQueue[Payload] = queue.SimpleQueue()
        self.cancelled: set[int] = set()

    def gave_up(self, number: int) -> bool:
        """Whether nobody waits for a search any more."""
        return number in self.cancelled

    def watch(self, stream: IO[bytes]) -> None:
        """Take messages in until the parent is gone; then end at once."""
        try:
            while True:
                message = receive(stream)
                if "cancel" in message:
                    self.cancelled.add(message["cancel"])
                else:
                    self.searches.put(message)
        finally:
            os._exit(0)


def main() -> None:
    """Serve the parent."""
    from autofgl.methods.search_request import answer

    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not break a message
    torch.set_num_threads(1)
    inbox = _Inbox()
    threading.Thread(target=inbox.watch, args=(sys.stdin.buffer,), daemon=True).start()
    while True:
        message = inbox.searches.get()
        send(replies, answer(message, partial(inbox.gave_up, message["number"])))


if __name__ == "__main__":
    main()
