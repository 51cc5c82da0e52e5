"""Messages between two processes of one user on one machine, over a Unix socket."""

import contextlib
import shutil
import socket
import struct
import tempfile
import threading
from pathlib import Path

from autofgl.errors import FederationError
from autofgl.federation.payload import MAX_BYTES

_LENGTH = struct.Struct("<Q")


class Pipe:
    """Whole messages in both directions. Several threads may send, one receives."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lock = threading.Lock()

    @classmethod
    def connect(cls, address: str) -> "Pipe":
        """The connecting end."""
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(address)
        return cls(connected)

    def send(self, message: bytes) -> None:
        """Send one message; raises ``OSError`` if the other end is gone."""
        with self._lock:
            self._socket.sendall(_LENGTH.pack(len(message)))
            self._socket.sendall(message)

    def receive(self) -> bytes:
        """The next message; raises ``EOFError`` or ``OSError`` if the other end is gone."""
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if size > 2 * MAX_BYTES:
            raise EOFError(f"a message of {size:,} bytes is larger than is accepted")
        return self._read(size)

    def close(self) -> None:
        """Hang up; wakes a thread that receives."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise EOFError("the other end has gone")
            view = view[count:]
        return bytes(buffer)


class PipeListener:
    """The accepting end, in a folder that only this user can enter."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="autofgl-"))
        self.address = str(self._folder / "line")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen(1)

    def accept(self, seconds: float) -> Pipe | None:
        """The other end, or nothing if it does not come in time."""
        self._socket.settimeout(seconds)
        try:
            connected, _ = self._socket.accept()
        except TimeoutError:
            return None
        except OSError as error:
            raise FederationError(f"the line to the job is closed: {error}") from error
        connected.settimeout(None)
        return Pipe(connected)

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)
