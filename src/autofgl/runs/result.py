"""``result.json``, and a finished run in Python."""

import importlib.metadata
import json
import platform
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from autofgl.atomic import write_text
from autofgl.runs.export import load_model
from autofgl.runs.folder import RunFolder
from autofgl.runs.history import read_history

_PACKAGES = ("autofgl", "torch", "torch-geometric", "numpy", "scipy")


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        folder: Where everything lies.
        figures: What ``result.json`` holds.
    """

    folder: Path
    figures: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "Result":
        """Read a finished run.

        Raises:
            UserError: There is none.
        """
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
    def model(self) -> nn.Module:
        """The trained network: a plain module on ``(x, edge_index)``."""
        return load_model(self.folder)


def write_result(folder: RunFolder, figures: dict[str, Any]) -> None:
    """Write the final figures. This is the last file of a run, so that it marks it as finished."""
    write_text(folder.result, json.dumps(figures, indent=2, allow_nan=False) + "\n")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide on the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        found[package] = importlib.metadata.version(package)
    return found
