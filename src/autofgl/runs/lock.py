"""One process at a time works in a folder."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autofgl.errors import UserError

#: The file that is locked; it exists while somebody works in the folder, or after a crash.
LOCK_FILE = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; a ``UserError`` that names the process if another one has it.

    It is the operating system's lock on an open file (``flock``), so it ends with its process,
    however that ends. A disk that knows no such locks, as some network disks, is used without one.
    """
    path = folder / LOCK_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _acquired(path)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):  # the folder may be gone
                path.unlink()  # before the lock ends: the next one makes its own
            os.close(file)


def _acquired(path: Path) -> int | None:
    """A descriptor that holds the lock; none where there are no locks."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(file, 1000, 0).decode(errors="replace").strip() or "unknown"
            os.close(file)
            way = "wait until it ends, or stop it"
            message = f"{path.parent} is in use by another run ({owner}): {way}"
            raise UserError(message) from error
        except OSError:
            os.close(file)
            return None
        if _is_at(file, path):
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)
            return file
        os.close(file)  # its former holder deleted it between the two calls above


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
