"""What the sites' tables have in common: ``schema.yaml``.

It names the columns of ids, labels, edges and times, the classes in order, and for every feature
its kind and what makes its width and meaning the same everywhere: categories in order, mean and
scale of numbers, numbers of buckets. It is plain data that a person can read and edit.
"""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from autofgl.errors import UserError, one_line, unknown_name
from autofgl.runs.files import parse_yaml
from autofgl.runs.folder import read_config_file

#: Kind of a column -> what becomes of it.
KINDS = {
    "number": "scaled to mean 0 and deviation 1",
    "category": "a column for each value",
    "hash": "a value sets one of some buckets",
    "text": "words, counted in some buckets",
    "date": "a scaled time, and the season as sine and cosine",
}
_HEADER = """\
# What the tables of all sites have in common. Every site imports with the same file:
#   autofgl import NODES EDGES --schema schema.yaml
# Kinds: number, category (one column per value), hash and text (buckets), date.
"""
_DEFAULT_BUCKETS = {"hash": 32, "text": 64}


@dataclass(frozen=True)
class Column:
    """One feature column.

    Attributes:
        kind: One of :data:`KINDS`.
        values: Of a category: its values in order.
        other: Of a category: whether values beyond these share a column of their own.
        mean, scale: Of a number, and of a date in days since 1970.
        count: Values that mean and scale were computed from.
        buckets: Of a hash or text: how many.
        format: Of a date: as in ``datetime.strptime``; ISO 8601 if empty.
        missing: Whether a value may be missing, which then is a feature.
    """

    kind: str
    values: tuple[str, ...] = ()
    other: bool = False
    mean: float = 0.0
    scale: float = 1.0
    count: int = 0
    buckets: int = 0
    format: str = ""
    missing: bool = False

    @property
    def width(self) -> int:
        """Columns of ``x`` that it takes."""
        wide = {"number": 1, "date": 3, "category": len(self.values) + self.other}
        return wide.get(self.kind, self.buckets) + self.missing

    def to_plain(self) -> dict[str, Any]:
        """What differs from the defaults."""
        plain: dict[str, Any] = {"kind": self.kind}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name != "kind" and value != one.default:
                plain[one.name] = list(value) if isinstance(value, tuple) else value
        return plain


@dataclass(frozen=True)
class Schema:
    """What every site's tables are checked against.

    Attributes:
        id: Column of the nodes' ids.
        label: Column of their labels; empty if there is none.
        classes: Labels in the order of the class numbers.
        source, target: Columns of an edge's ends.
        weight: Column of an edge's weight; empty if there is none.
        directed: Whether edges have a direction.
        external: Whether an edge may lead to a node of another site, which the nodes lack.
        time: Column of a node's time, for a split by time; empty if there is none.
        val_from, test_from: When validation and test begin, in ISO 8601.
        columns: The features by column.
    """

    id: str
    source: str
    target: str
    label: str = ""
    classes: tuple[str, ...] = ()
    weight: str = ""
    directed: bool = False
    time: str = ""
    val_from: str = ""
    test_from: str = ""
    external: bool = False
    columns: Mapping[str, Column] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Columns of ``x``."""
        return sum(column.width for column in self.columns.values())

    def to_text(self) -> str:
        """The content of ``schema.yaml``."""
        own: dict[str, Any] = {key: getattr(self, key) for key in _TEXTS if getattr(self, key)}
        if self.classes:
            own["classes"] = list(self.classes)
        own |= {key: True for key in _FLAGS if getattr(self, key)}
        own["columns"] = {name: column.to_plain() for name, column in self.columns.items()}
        dumped = yaml.safe_dump(own, sort_keys=False, allow_unicode=True, width=100)
        return _HEADER + dumped

    @classmethod
    def read(cls, path: Path) -> "Schema":
        """The schema in a file; a mistake is a ``UserError``."""
        return cls.of(read_config_file(path), str(path))

    @classmethod
    def of_text(cls, text: str, where: str = "schema") -> "Schema":
        """:meth:`to_text` again; a mistake is a ``UserError``."""
        values = parse_yaml(text, where)
        if not isinstance(values, dict):
            raise UserError(f"{where} is no schema: it must be a mapping of keys to values")
        return cls.of(values, where)

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> "Schema":
        """The schema of plain values; a mistake is a ``UserError``."""
        known = {*_TEXTS, *_FLAGS, "classes", "columns"}
        for key in values:
            if key not in known:
                raise UserError(f"{where}: {unknown_name('key', str(key), known)}")
        for key in ("id", "source", "target"):
            if not values.get(key):
                raise UserError(f"{where}: '{key}' is missing: name the column")
        columns = values.get("columns")
        if not isinstance(columns, Mapping) or not columns:
            raise UserError(f"{where}: 'columns' must map the names of columns to their kinds")
        own: dict[str, Any] = {
            key: _text(values[key], key, where) for key in _TEXTS if values.get(key) is not None
        }
        own["classes"] = _list(values.get("classes") or [], "classes", where)
        own |= {key: _flag(values.get(key, False), key, where) for key in _FLAGS}
        own["columns"] = {
            str(name): _column(given, f"{where}: column '{name}'")
            for name, given in columns.items()
        }
        return cls(**own)


_TEXTS = ("id", "label", "source", "target", "weight", "time", "val_from", "test_from")
_FLAGS = ("directed", "external")


def _column(given: Any, where: str) -> Column:
    if isinstance(given, str):
        given = {"kind": given}
    if not isinstance(given, Mapping):
        raise UserError(f"{where} must say its kind: one of {', '.join(KINDS)}")
    known = {one.name for one in fields(Column)}
    for key in given:
        if key not in known:
            raise UserError(f"{where}: {unknown_name('key', str(key), known)}")
    kind = given.get("kind")
    if kind not in KINDS:
        raise UserError(f"{where}: {unknown_name('kind', str(kind), KINDS)}")
    own = {"kind": kind, "format": _text(given.get("format", ""), "format", where)}
    own["values"] = _list(given.get("values") or [], "values", where)
    for key in ("other", "missing"):
        own[key] = _flag(given.get(key, False), key, where)
    for key in ("mean", "scale"):
        own[key] = _number(given.get(key, 1.0 if key == "scale" else 0.0), key, where)
    for key in ("count", "buckets"):
        value = given.get(key, _DEFAULT_BUCKETS.get(kind, 0) if key == "buckets" else 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            raise UserError(one_line(f"{where}: '{key}' must be a whole number, not {value!r}"))
        own[key] = value
    if own["scale"] <= 0:
        raise UserError(f"{where}: 'scale' must be above 0")
    if kind == "category" and not own["values"] and not own["other"]:
        raise UserError(f"{where}: a category lists its 'values'")
    if kind in _DEFAULT_BUCKETS and not 1 <= own["buckets"] <= 1 << 16:
        raise UserError(f"{where}: 'buckets' must lie between 1 and {1 << 16}")
    return Column(**own)


def _text(value: Any, key: str, where: str) -> str:
    if isinstance(value, bool):
        raise UserError(f"{where}: {key}: YAML reads yes, no, true and false as logical values: "
                        "put it in quotes")  # fmt: skip
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, str | int | float):
        raise UserError(one_line(f"{where}: '{key}' must be one text, not {value!r}"))
    return str(value)


def _list(value: Any, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise UserError(one_line(f"{where}: '{key}' must be a list, not {value!r}"))
    texts = tuple(_text(one, key, where) for one in value)
    if len(set(texts)) < len(texts):
        twice = next(one for one in texts if texts.count(one) > 1)
        raise UserError(one_line(f"{where}: '{key}' lists '{twice}' twice"))
    return texts


def _flag(value: Any, key: str, where: str) -> bool:
    if not isinstance(value, bool):
        raise UserError(one_line(f"{where}: '{key}' must be true or false, not {value!r}"))
    return value


def _number(value: Any, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(one_line(f"{where}: '{key}' must be a number, not {value!r}"))
    return float(value)
