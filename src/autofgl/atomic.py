"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autofgl.errors import DiskError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content takes the place of a file once it is complete and on the disk.

    Raises:
        DiskError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DiskError(path, error.strerror or str(error)) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new one; see above."""
    with replacing(path) as stream:
        stream.write(data)


def write_text(path: Path, text: str) -> None:
    """:func:`write_bytes` for text."""
    write_bytes(path, text.encode())
