"""States of parties on disk: one file for each party and tag, written whole or not at all."""

import shutil
from pathlib import Path

from autofgl.atomic import write_bytes
from autofgl.errors import AutoFGLError, PayloadError
from autofgl.federation.payload import Payload, decode, encode


def write_payload(path: Path, payload: Payload) -> None:
    """Write a payload so that a crash leaves either the old file or the new one."""
    write_bytes(path, encode(payload))


def read_payload(path: Path) -> Payload:
    """Read what :func:`write_payload` wrote.

    Raises:
        AutoFGLError: The file is missing or damaged.
    """
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise AutoFGLError(f"cannot read checkpoint {path}: {error.strerror}") from error
    except PayloadError as error:
        raise AutoFGLError(f"checkpoint {path} is damaged: {error}") from error


def remove_tag(folder: Path, tag: str) -> None:
    """Delete all that was kept under a tag."""
    shutil.rmtree(folder / tag, ignore_errors=True)
