"""States on disk that are whole, unchanged, and those of the right run, round and party.

A checkpoint file is::

    magic "AFCP" | format u32 | SHA-256 of format and content | content

and its content a payload with the file's label (run, tag, party) and the state. So a file that was
cut short, altered, or put in the place of another one is told from a good one, always.
"""

import hashlib
import shutil
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from autofgl.atomic import replacing
from autofgl.errors import DiskError, PayloadError, UserError
from autofgl.federation.party import Party
from autofgl.federation.payload import Payload, decode, encode

#: Number of the present format; files of another one are not read.
FORMAT = 2

_MAGIC = b"AFCP"
_PREFIX = struct.Struct("<4sI32s")
_VERSION = struct.Struct("<I")


class CheckpointError(UserError):
    """A checkpoint cannot be written or read; ``reason`` says why without naming the file."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


@dataclass(frozen=True)
class Label:
    """Whose state a file has: of which run, under which tag, of which party; none: the server."""

    run: str
    tag: str
    party: str = ""


def write_state(path: Path, label: Label, state: Payload) -> str:
    """Write a state so that a crash leaves either the old file or the new one.

    Returns:
        The digest to know the file by.

    Raises:
        CheckpointError: It cannot be written.
    """
    content = encode({**asdict(label), "state": state})
    digest = _digest(content)
    try:
        with replacing(path) as stream:
            stream.write(_PREFIX.pack(_MAGIC, FORMAT, digest))
            stream.write(content)
    except DiskError as error:
        raise CheckpointError(
            f"cannot write checkpoint {path}: {error.reason}: make sure that its folder can be "
            "written and has room, then resume the run",
            f"its checkpoint cannot be written: {error.reason}",
        ) from error
    return digest.hex()


def read_state(path: Path, label: Label, digest: str | None = None) -> Payload:
    """Read what :func:`write_state` wrote under this label, and with this digest if one is given.

    Raises:
        CheckpointError: The file is missing, damaged, or another one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise CheckpointError(f"checkpoint {path} {reason}", reason) from error
    try:
        return _checked_state(data, label, digest)
    except PayloadError as error:
        reason = f"is damaged: {error}"
        raise CheckpointError(f"checkpoint {path} {reason}", reason) from error


class PartyStates:
    """States of parties on disk: ``FOLDER/TAG/parties/PARTY.afp``.

    The folder is made here, once. When it is missing later, somebody has deleted it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"cannot make folder {folder} for checkpoints: {error.strerror}"
            ) from error

    def save(self, label: Label, party: Party) -> str:
        """Keep a party's state under a label; returns the file's digest."""
        if not self._folder.is_dir():
            raise CheckpointError(
                f"folder {self._folder} was deleted while the run was using it: start the run again"
            )
        return write_state(self._file(label), label, party.state())

    def verify(self, label: Label, digest: str) -> None:
        """Raise ``CheckpointError`` unless the very state is there that was kept under a label."""
        read_state(self._file(label), label, digest)

    def restore(self, label: Label, digest: str, party: Party) -> None:
        """Bring a party back to the state that it kept under a label."""
        party.load_state(read_state(self._file(label), label, digest))

    def remove(self, label: Label) -> None:
        """Delete what a party kept under a label."""
        file = self._file(label)
        try:
            file.unlink(missing_ok=True)
        except OSError:  # somebody has put a folder in its place
            shutil.rmtree(file, ignore_errors=True)
        for folder in (file.parent, file.parent.parent):
            with suppress(OSError):  # it is not empty, or gone: parties may share the place
                folder.rmdir()

    def _file(self, label: Label) -> Path:
        return self._folder / label.tag / "parties" / f"{quote(label.party, safe=' ')}.afp"


def _checked_state(data: bytes, label: Label, digest: str | None) -> Payload:
    """The state of a file's bytes; ``PayloadError`` if anything about them is not as it was."""
    if len(data) < _PREFIX.size:
        raise PayloadError(f"it has only {len(data)} bytes")
    magic, version, kept = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise PayloadError("it is not a checkpoint of this version of AutoFGL")
    if version != FORMAT:
        raise PayloadError(f"it has format {version}, this version of AutoFGL reads {FORMAT}")
    content = data[_PREFIX.size :]
    if kept != _digest(content):
        raise PayloadError("its contents do not have the digest that was kept with them")
    if digest is not None and digest != kept.hex():
        raise PayloadError("it is not the file that belongs to the server's checkpoint")
    payload = decode(content)
    for key, value in asdict(label).items():
        if payload.get(key) != value:
            raise PayloadError(f"it belongs to {key} {payload.get(key)!r}, not {value!r}")
    state: Payload = payload["state"]
    return state


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(_VERSION.pack(FORMAT) + hashlib.sha256(content).digest()).digest()
