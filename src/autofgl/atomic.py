"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """:func:`write_bytes` for text."""
    write_bytes(path, text.encode())
