"""The run folder: where everything of a run lies, and how files get there whole."""

import json
from pathlib import Path
from typing import Any

import yaml

from autofgl.atomic import write_text
from autofgl.errors import UserError


class RunFolder:
    """Paths of one run. ``config.yaml`` marks a run; ``result.json`` marks a finished one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def config(self) -> Path:
        """The run's configuration."""
        return self.path / "config.yaml"

    @property
    def data(self) -> Path:
        """Sizes, cut and digest of the graphs that the run was started on."""
        return self.path / "data.json"

    @property
    def history(self) -> Path:
        """A JSON line for each round."""
        return self.path / "history.jsonl"

    @property
    def result(self) -> Path:
        """Final figures; written last."""
        return self.path / "result.json"

    @property
    def checkpoints(self) -> Path:
        """States to resume from."""
        return self.path / "checkpoint"

    @property
    def finished(self) -> bool:
        """Whether the run has its result."""
        return self.result.exists()

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """Start a run in a new or empty folder.

        Raises:
            UserError: The folder holds another run or other files, or cannot be written.
        """
        folder = cls(path)
        if folder.config.exists():
            raise UserError(
                f"{path} holds another run: go on with it (--resume {path}) or choose another --out"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UserError(f"{path} is not an empty folder: choose another --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_text(folder.config, yaml.safe_dump(config, sort_keys=False))
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}") from error
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Find a run that was started before.

        Raises:
            UserError: There is none.
        """
        folder = cls(path)
        if not folder.config.is_file():
            raise UserError(f"{path} holds no run (no config.yaml in it)")
        return folder

    def read_config(self) -> dict[str, Any]:
        """The configuration that the run was started with."""
        try:
            config = yaml.safe_load(self.config.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise UserError(f"cannot read {self.config}: {error}") from error
        if not isinstance(config, dict):
            raise UserError(f"{self.config} is not a configuration")
        return config

    def read_result(self) -> dict[str, Any]:
        """The final figures.

        Raises:
            UserError: The run is not finished.
        """
        if not self.finished:
            raise UserError(
                f"{self.path} is not finished: continue it with autofgl run --resume {self.path}"
            )
        result: dict[str, Any] = json.loads(self.result.read_text())
        return result
