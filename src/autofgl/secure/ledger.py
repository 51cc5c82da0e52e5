"""What must be remembered of every sum, for ever: a name of a sum stands for one sum.

A party notes the digest of what it contributed and of whom it confirmed as contributors, the server
whose contributions it took. A repeated name then gives the very same sum, or none: two different
sums of one name would give away their difference. A ledger holds digests and names of parties,
never keys or values.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from autofgl.secure import SecureSumError

#: Opened for each line, so that no file stays open for every party of a large federation.
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_CHECK = 16  # hexadecimal digits of a line's digest
_PAGES = 64  # of 4 KiB, that a table keeps in memory


class TextTable:
    """Texts by name, in a temporary file of its own: it grows with every sum, memory does not."""

    def __init__(self) -> None:
        # One thread at a time uses it, but not always the one that made it.
        self._base = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in ("journal_mode=OFF", "synchronous=OFF", f"cache_size={_PAGES}"):
            self._base.execute(f"PRAGMA {line}")
        self._base.execute("CREATE TABLE texts (name TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")

    def __len__(self) -> int:
        return int(self._base.execute("SELECT COUNT(*) FROM texts").fetchone()[0])

    def get(self, name: str) -> str | None:
        """The text of a name, if there is one."""
        row = self._base.execute("SELECT text FROM texts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def add(self, texts: Iterable[tuple[str, str]]) -> None:
        """Add texts by name; the first of a name counts."""
        try:
            self._base.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)
        except sqlite3.Error as error:
            raise SecureSumError(
                f"what sums were made cannot be kept ({error}): make room in the folder for "
                "temporary files"
            ) from error

    def clear(self) -> None:
        """Forget all."""
        self._base.execute("DELETE FROM texts")


class Ledger:
    """Notes by name of the sum and kind, of which the first counts; appended to a file, if given.

    A note is with the operating system before :meth:`note` returns, and so outlives a process that
    is killed. A line that a crash cut off is dropped: what it should have noted was never sent.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._notes = TextTable()
        if path is not None:
            self._notes.add(self._read(path))

    def __repr__(self) -> str:
        return f"Ledger({len(self._notes)} notes)"

    def get(self, tag: str, kind: str) -> str | None:
        """What was noted, if anything was."""
        return self._notes.get(_key(tag, kind))

    def note(self, tag: str, kind: str, value: str) -> str:
        """Note a value unless there is one; what stands there in the end."""
        noted = self.get(tag, kind)
        if noted is not None:
            return noted
        if self._path is not None:
            self._append(self._path, json.dumps([tag, kind, value]).encode())
        self._notes.add([(_key(tag, kind), value)])
        return value

    def _append(self, path: Path, entry: bytes) -> None:
        try:
            try:
                file = os.open(path, _APPENDING, 0o644)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = os.open(path, _APPENDING, 0o644)
            try:
                _write_all(file, _line(entry))
            finally:
                os.close(file)
        except OSError as error:
            raise SecureSumError(
                f"the ledger {path.name} cannot be written ({error.strerror}): without it no sum "
                "is made; make room or give the folder back"
            ) from error

    def _read(self, path: Path) -> Iterator[tuple[str, str]]:
        try:
            if not path.exists():
                return
            with path.open("r+b") as file:
                for number, line in enumerate(file, 1):
                    if not line.endswith(b"\n"):
                        file.truncate(file.tell() - len(line))
                        return
                    yield _entry(path, number, line)
        except OSError as error:
            raise SecureSumError(
                f"the ledger {path.name} cannot be read ({error.strerror}): it says which sums "
                "were made and is needed to go on; make it readable"
            ) from error


def _entry(path: Path, number: int, line: bytes) -> tuple[str, str]:
    entry = line[_CHECK + 1 : -1]
    if line != _line(entry):
        raise SecureSumError(
            f"the ledger {path.name} is damaged in line {number}: restore it from a "
            "backup, or start a new run in a new folder; without it nobody knows which "
            "sums were made"
        )
    tag, kind, value = json.loads(entry)
    return _key(tag, kind), value


def _write_all(file: int, line: bytes) -> None:
    """Write a line, at once if the system takes it whole."""
    while line:
        line = line[os.write(file, line) :]


def _key(tag: str, kind: str) -> str:
    """Name and kind of a note as one text; kinds have no line break."""
    return f"{kind}\n{tag}"


def _line(entry: bytes) -> bytes:
    check = hashlib.sha256(entry).hexdigest()[:_CHECK]
    return check.encode() + b" " + entry + b"\n"
