"""A run folder as its report reads it: whatever is there, finished or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from autofgl.errors import AutoFGLError
from autofgl.nn.models.spec import NetworkSpec, spec_from_json
from autofgl.report.charts import Mark, Series
from autofgl.report.numbers import is_number
from autofgl.runs.export import read_description
from autofgl.runs.folder import RunFolder, read_history

#: Where one of these changes from a row to the next, something new is measured.
_PARTS = ("phase", "finalist", "candidate", "episode", "trial")
#: More phases than these are not marked on an axis.
_MOST_MARKS = 6

Row = dict[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder: before the run is finished, without result and network.

    The history has the rows with a round; ``networks`` are those of clients that have their own;
    ``audit`` is what attacks on it got, if there were any.
    """

    config: dict[str, Any]
    history: list[Row]
    result: dict[str, Any]
    data: dict[str, Any]
    network: NetworkSpec | None
    networks: dict[str, NetworkSpec] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read a run folder.

        Raises:
            UserError: There is no run, or a file of it is damaged.
        """
        folder = RunFolder.open(path)
        folder.check_pages()
        rows = [row for row in read_history(folder.history) if isinstance(row, dict)]
        history = [row for row in rows if is_number(row.get("round"))]
        result = folder.read_result() if folder.finished else {}
        networks, audit = _networks(path), _json(path / "audit.json")
        return cls(folder.read_config(), history, result, folder.read_data(), *networks, audit)

    @property
    def finished(self) -> bool:
        """Whether the run has its result."""
        return bool(self.result)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.config.get("method", "a run"))

    @cached_property
    def clients(self) -> dict[str, Row]:
        """What data and result have of each client, by its name."""
        rows: dict[str, Row] = {}
        for row in [*only_dicts(self.data.get("clients")), *self.dicts("per_client")]:
            if "name" in row:
                name = str(row["name"])
                rows[name] = {**rows.get(name, {}), **row}
        return rows

    @cached_property
    def numeric_keys(self) -> list[str]:
        """Names of everything in the history that is a number somewhere, in their order."""
        entries = (entry for row in self.history for entry in row.items())
        return list(dict.fromkeys(key for key, value in entries if is_number(value)))

    @cached_property
    def marks(self) -> list[Mark]:
        """Where the phases of the run begin."""
        phases = groupby(self.history, key=lambda row: row.get("phase"))
        named = ((str(phase), next(rows)) for phase, rows in phases if phase is not None)
        marks = [Mark(row["round"], phase) for phase, row in named]
        return marks if 1 < len(marks) <= _MOST_MARKS else []

    @cached_property
    def parts(self) -> list[tuple[str, ...]]:
        """The part that each row belongs to: phase, candidate, episode and so on."""
        return [tuple(str(row.get(part)) for part in _PARTS) for row in self.history]

    def series(self, key: str, name: str, x: str = "round", gaps: bool = True) -> Series:
        """A figure of the history; with gaps where something new begins to be measured."""
        points = [(row.get(x), row.get(key)) for row in self.history]
        return Series.of(name, points, self.parts if gaps else None)

    @cached_property
    def last_phase(self) -> RunRecord:
        """The same run with the rows of its last phase only; itself if it has a single one."""
        phase = self.history[-1].get("phase") if self.history else None
        rows = [row for row in self.history if row.get("phase") == phase]
        return self if len(rows) == len(self.history) else replace(self, history=rows)

    def dicts(self, key: str) -> list[Row]:
        """A list of the result whose entries are all mappings; empty if it is not one."""
        return only_dicts(self.result.get(key))


def only_dicts(value: Any) -> list[Row]:
    """A list whose entries are all mappings; empty if it is not one."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        return []
    return value


def _json(path: Path) -> dict[str, Any]:
    """What a file holds, if it is there and sound."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _networks(path: Path) -> tuple[NetworkSpec | None, dict[str, NetworkSpec]]:
    """The network of a run, and those of its clients if they differ."""
    try:
        description = read_description(path)
        by_client = description.get("networks") or {}
        own = {str(name): spec_from_json(spec) for name, spec in by_client.items()}
        return spec_from_json(description["network"]), own
    except (AutoFGLError, KeyError, TypeError, AttributeError):
        return None, {}


def pairs(row: Row, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys and values of a nested mapping, inner keys after their outer ones."""
    for key, value in row.items():
        if isinstance(value, dict) and value:
            yield from pairs(value, f"{prefix}{key} ")
        else:
            yield f"{prefix}{key}", value
