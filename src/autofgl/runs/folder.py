"""The run folder: where everything of a run lies, its lock, and a finished run in Python."""

import fcntl
import importlib.metadata
import json
import os
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from autofgl.atomic import write_text
from autofgl.errors import DiskError, RunFolderError, UserError
from autofgl.runs.files import MAX_CHARACTERS, Manifest, parse_json, parse_yaml

if TYPE_CHECKING:
    from torch import nn

#: The file that is locked; it exists while somebody works in the folder, or after a crash.
LOCK_FILE = ".lock"
_PACKAGES = ("autofgl", "torch", "torch-geometric", "numpy", "scipy")


class RunFolder:
    """Paths of one run. ``config.yaml`` marks a run; ``result.json`` marks a finished one.

    ``run.json`` has the run's id and digests of its files, ``data.json`` sizes, cut and digests of
    the graphs that the run was started on, ``history.jsonl`` a line for each round, and
    ``schema.yaml`` how tables became the graphs, if they did.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.data = path / "data.json"
        self.history = path / "history.jsonl"
        self.result = path / "result.json"
        self.checkpoints = path / "checkpoint"
        self.schema = path / "schema.yaml"

    @property
    def finished(self) -> bool:
        """Whether the run has its result."""
        return self.result.exists()

    @property
    def manifest(self) -> Manifest:
        """The run's id, and the digests of its files."""
        return Manifest.read(self.path)

    @staticmethod
    def check_new(path: Path) -> None:
        """Refuse a folder that no run can be started in."""
        if (path / "config.yaml").exists():
            ways = f"resume it (--resume {path}) or choose another --out"
            raise UserError(f"{path} holds another run: {ways}")
        if path.exists() and (not path.is_dir() or _names(path) - {LOCK_FILE}):
            raise UserError(f"{path} is not an empty folder: choose another --out")

    @classmethod
    def create(cls, path: Path, config: dict[str, Any], data: str | None = None) -> "RunFolder":
        """Start a run in a new or empty folder, with the text of ``data.json`` if there is one."""
        cls.check_new(path)
        folder = cls(path)
        with locked(path):
            cls.check_new(path)
            write_text(folder.config, yaml.safe_dump(config, sort_keys=False))
            if data is not None:
                write_text(folder.data, data)
            folder.seal()
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The folder of a run that was started before."""
        folder = cls(path)
        if not folder.config.is_file():
            raise UserError(f"{path} holds no run (no config.yaml in it)")
        return folder

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep other processes from working in the folder, while a run goes on in it."""
        with locked(self.path):
            yield

    def seal(self, *names: str) -> None:
        """Note the digests of the files that a run begins with, and of these, and of no others."""
        first = [file.name for file in (self.config, self.data) if file.exists()]
        before = self.manifest
        after = (before if before.run else Manifest.new(self.path)).sealed(first, names)
        if after != before:
            after.write()

    def require(self) -> None:
        """Make sure that the folder of a run that is going on is still there."""
        if not self.config.is_file():
            gone = f"{self.path} was deleted or moved during its run"
            raise RunFolderError(f"{gone}: the run has ended, start it again")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn whatever the loss of the folder makes a run raise into a :class:`RunFolderError`,
        and so a disk that is full, or cannot be written any more.
        """
        try:
            yield
        except RunFolderError:
            raise
        except Exception as error:
            self.require()
            if isinstance(error, DiskError | OSError) and not isinstance(
                error, ConnectionError | TimeoutError
            ):
                reason = error.reason if isinstance(error, DiskError) else error.strerror or error
                way = f"then resume it with autofgl run --resume {self.path}"
                message = (
                    f"cannot write to {self.path}: {reason}: make sure that it has room, {way}"
                )
                raise RunFolderError(message) from error
            raise

    def read_config(self) -> dict[str, Any]:
        """The configuration that the run was started with."""
        return _mapping(self.config, self.manifest.content(self.config.name))

    def read_data(self) -> dict[str, Any]:
        """What is recorded of the graphs that the run was started on; nothing if it is not."""
        if not self.data.exists() and self.data.name not in self.manifest.digests:
            return {}
        return parse_json(self.data, self.manifest.content(self.data.name))

    def read_result(self) -> dict[str, Any]:
        """The final figures."""
        if not self.finished:
            way = f"resume it with autofgl run --resume {self.path}"
            raise UserError(f"{self.path} is not finished: {way}")
        return parse_json(self.result, self.manifest.content(self.result.name))

    def check_pages(self) -> None:
        """Refuse a finished run whose history or figures are missing, or not what was written.

        Raises:
            UserError: Says which file.
        """
        manifest = self.manifest
        for name in {self.history.name, self.result.name, "model.json"} & set(manifest.digests):
            manifest.content(name)

    def write_result(self, figures: dict[str, Any]) -> None:
        """Write the final figures: they mark a run as finished."""
        write_text(self.result, json.dumps(figures, indent=2, allow_nan=False) + "\n")


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, and the figures that ``result.json`` holds."""

    folder: Path
    figures: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "Result":
        """Read a finished run."""
        return cls(folder, RunFolder.open(folder).read_result())

    @property
    def test_accuracy(self) -> float:
        """Federated test accuracy in [0, 1]."""
        return float(self.figures["test_accuracy"])

    @property
    def val_accuracy(self) -> float:
        """Federated validation accuracy in [0, 1]."""
        return float(self.figures["val_accuracy"])

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One row for each round."""
        return read_history(RunFolder(self.folder).history)

    @cached_property
    def model(self) -> "nn.Module":
        """The trained network: a plain module on ``(x, edge_index)``."""
        from autofgl.runs.export import load_model

        return load_model(self.folder)

    @cached_property
    def models(self) -> "dict[str, nn.Module]":
        """The networks of the clients by name, where they have their own and handed them over."""
        from autofgl.runs.export import load_model, model_names, read_description

        names = [name for name in model_names(read_description(self.folder)) if name != "model"]
        return {name: load_model(self.folder, name) for name in names}


def read_config_file(path: Path, may_be_empty: bool = False) -> dict[str, Any]:
    """The keys of a YAML configuration file; it may have none only where that means something."""
    try:
        with path.open("rb") as stream:
            data = stream.read(4 * MAX_CHARACTERS + 1)  # no more than could be of any use
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return _mapping(path, data, may_be_empty)


def read_history(path: Path) -> list[dict[str, Any]]:
    """All rows of a history; a last line that was cut short by a crash is passed over.

    Raises:
        UserError: Another line is no JSON.
    """
    return [row for _, row in history_lines(path)]


def history_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines of a history and what they say; see :func:`read_history`."""
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise UserError(f"{path} is damaged in line {number}: {error}") from error
        yield line, row


def _mapping(path: Path, data: bytes, may_be_empty: bool = False) -> dict[str, Any]:
    try:
        values = parse_yaml(data.decode(), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if values is None and may_be_empty:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a configuration: it must be a mapping of keys to values")
    return values


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide on the numbers."""
    packages = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {"python": platform.python_version(), **packages}


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
