"""What must be remembered of every sum, for ever: a name of a sum stands for one sum.

A party notes the digest of what it contributed and of whom it confirmed as contributors, the server
whose contributions it took. A repeated name then gives the very same sum, or none: two different
sums of one name would give away their difference. A ledger holds digests and names of parties,
never keys or values.
"""

import hashlib
import json
from pathlib import Path

from autofgl.secure import SecureSumError

_CHECK = 16  # hexadecimal digits of a line's digest


class Ledger:
    """Notes by name of the sum and kind, of which the first counts; appended to a file, if given.

    A note is with the operating system before :meth:`note` returns, and so outlives a process that
    is killed. A line that a crash cut off is dropped: what it should have noted was never sent.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._notes: dict[tuple[str, str], str] = {}
        if path is not None:
            self._read(path)

    def __repr__(self) -> str:
        return f"Ledger({len(self._notes)} notes)"

    def get(self, tag: str, kind: str) -> str | None:
        """What was noted, if anything was."""
        return self._notes.get((tag, kind))

    def note(self, tag: str, kind: str, value: str) -> str:
        """Note a value unless there is one; what stands there in the end."""
        noted = self._notes.get((tag, kind))
        if noted is not None:
            return noted
        if self._path is not None:
            self._append(self._path, json.dumps([tag, kind, value]).encode())
        self._notes[tag, kind] = value
        return value

    def _append(self, path: Path, entry: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                file.write(_line(entry))
        except OSError as error:
            raise SecureSumError(
                f"the ledger {path.name} cannot be written ({error.strerror}): without it no sum "
                "is made; make room or give the folder back"
            ) from error

    def _read(self, path: Path) -> None:
        try:
            data = path.read_bytes() if path.exists() else b""
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                with path.open("r+b") as file:
                    file.truncate(whole)
        except OSError as error:
            raise SecureSumError(
                f"the ledger {path.name} cannot be read ({error.strerror}): it says which sums "
                "were made and is needed to go on; make it readable"
            ) from error
        for number, line in enumerate(data[:whole].splitlines(keepends=True), 1):
            entry = line[_CHECK + 1 : -1]
            if line != _line(entry):
                raise SecureSumError(
                    f"the ledger {path.name} is damaged in line {number}: restore it from a "
                    "backup, or start a new run in a new folder; without it nobody knows which "
                    "sums were made"
                )
            tag, kind, value = json.loads(entry)
            self._notes.setdefault((tag, kind), value)


def _line(entry: bytes) -> bytes:
    check = hashlib.sha256(entry).hexdigest()[:_CHECK]
    return check.encode() + b" " + entry + b"\n"
