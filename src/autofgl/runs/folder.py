"""The run folder: where everything of a run lies, and a finished run in Python."""

import errno
import importlib.metadata
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from autofgl.atomic import write_text
from autofgl.errors import RunFolderError, UserError
from autofgl.runs.config_file import read_config_file

if TYPE_CHECKING:
    from torch import nn

_PACKAGES = ("autofgl", "torch", "torch-geometric", "numpy", "scipy")
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


class RunFolder:
    """Paths of one run. ``config.yaml`` marks a run; ``result.json`` marks a finished one.

    ``data.json`` has sizes, cut and digests of the graphs that the run was started on,
    ``history.jsonl`` a line for each round.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.data = path / "data.json"
        self.history = path / "history.jsonl"
        self.result = path / "result.json"
        self.checkpoints = path / "checkpoint"

    @property
    def finished(self) -> bool:
        """Whether the run has its result."""
        return self.result.exists()

    @staticmethod
    def check_new(path: Path) -> None:
        """Refuse a folder that no run can be started in."""
        if (path / "config.yaml").exists():
            ways = f"resume it (--resume {path}) or choose another --out"
            raise UserError(f"{path} holds another run: {ways}")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UserError(f"{path} is not an empty folder: choose another --out")

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """Start a run in a new or empty folder."""
        cls.check_new(path)
        folder = cls(path)
        try:
            write_text(folder.config, yaml.safe_dump(config, sort_keys=False))
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}") from error
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The folder of a run that was started before."""
        folder = cls(path)
        if not folder.config.is_file():
            raise UserError(f"{path} holds no run (no config.yaml in it)")
        return folder

    def require(self) -> None:
        """Make sure that the folder of a run that is going on is still there."""
        if not self.config.is_file():
            gone = f"{self.path} was deleted or moved during its run"
            raise RunFolderError(f"{gone}: the run has ended, start it again")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn whatever the loss of the folder makes a run raise into a :class:`RunFolderError`."""
        try:
            yield
        except RunFolderError:
            raise
        except Exception as error:
            self.require()
            if isinstance(error, OSError) and error.errno in _UNWRITABLE:
                raise RunFolderError(f"cannot write to {self.path}: {error.strerror}") from error
            raise

    def read_config(self) -> dict[str, Any]:
        """The configuration that the run was started with."""
        return read_config_file(self.config)

    def read_result(self) -> dict[str, Any]:
        """The final figures."""
        if not self.finished:
            way = f"resume it with autofgl run --resume {self.path}"
            raise UserError(f"{self.path} is not finished: {way}")
        return dict(json.loads(self.result.read_text()))

    def write_result(self, figures: dict[str, Any]) -> None:
        """Write the final figures: the last file of a run, so that it marks it as finished."""
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


def read_history(path: Path) -> list[dict[str, Any]]:
    """All whole rows of a history; a last line that was cut short by a crash is passed over."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide on the numbers."""
    packages = {package: importlib.metadata.version(package) for package in _PACKAGES}
    return {"python": platform.python_version(), **packages}
