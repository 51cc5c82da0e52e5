"""Cells of one column as columns of ``x``, by what the schema says of it."""

import datetime
import hashlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from autofgl.graphs.client_graph import Bools, Floats
from autofgl.tables.schema import Column
from autofgl.tables.table import is_missing

_DAY = 86400.0
_YEAR = 365.25
_WORD = re.compile(r"\w+")


class FeatureBlock(NamedTuple):
    """Columns of ``x`` ``[n, w]``, and what is wrong with which row."""

    x: Floats
    bad: dict[int, str]


def encode_column(name: str, column: Column, cells: Sequence[str]) -> FeatureBlock:
    """The features of a column's cells."""
    gaps = missing_cells(cells)
    bad: dict[int, str] = {}
    if not column.missing:
        reason = f"'{name}' is empty, and the schema has no missing values of it (missing: true)"
        bad = dict.fromkeys(np.flatnonzero(gaps).tolist(), reason)
    x, wrong = _ENCODERS[column.kind](name, column, cells, gaps)
    if column.missing:
        x = np.concatenate([x, gaps[:, None].astype(np.float32)], axis=1)
    return FeatureBlock(x, {**wrong, **bad})


def missing_cells(cells: Sequence[str]) -> Bools:
    """Where nothing is, ``[n]``."""
    return np.fromiter(map(is_missing, cells), np.bool_, len(cells))


def numbers(name: str, cells: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
    """Cells as numbers ``[n]``, NaN where they are missing or none."""
    gaps = missing_cells(cells)
    filled = ["nan" if gap else cell for gap, cell in zip(gaps, cells, strict=True)]
    try:
        values = np.array(filled, np.float64)
    except ValueError:
        values = np.array([_float(cell) for cell in filled])
    wrong = np.flatnonzero(~np.isfinite(values) & ~gaps).tolist()
    return values, {row: f"'{name}' is '{cells[row]}', which is no number" for row in wrong}


def days(name: str, cells: Sequence[str], form: str = "") -> tuple[np.ndarray, dict[int, str]]:
    """Cells as days since 1970 ``[n]``, NaN where they are missing or no dates."""
    gaps = missing_cells(cells)
    pairs = zip(gaps, cells, strict=True)
    values = np.array([math.nan if gap else day_of(cell, form) for gap, cell in pairs])
    wrong = np.flatnonzero(np.isnan(values) & ~gaps).tolist()
    way = f"of the format {form}" if form else "as 2024-03-31 or 2024-03-31T12:00:00"
    return values, {row: f"'{name}' is '{cells[row]}', which is no date {way}" for row in wrong}


@lru_cache(1 << 16)
def day_of(cell: str, form: str = "") -> float:
    """One date in days since 1970, in UTC unless it says otherwise; NaN if it is none."""
    try:
        if not form and cell.isdigit() and 9 <= len(cell) <= 11:
            return int(cell) / _DAY  # seconds since 1970
        parse = datetime.datetime.strptime
        moment = parse(cell, form) if form else datetime.datetime.fromisoformat(cell)
    except (ValueError, OverflowError):
        return math.nan
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / _DAY


def _float(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.inf


def _encode_number(
    name: str, column: Column, cells: Sequence[str], gaps: Bools
) -> tuple[Floats, dict[int, str]]:
    values, bad = numbers(name, cells)
    return _scaled(column, values, gaps)[:, None], bad


def _encode_date(
    name: str, column: Column, cells: Sequence[str], gaps: Bools
) -> tuple[Floats, dict[int, str]]:
    values, bad = days(name, cells, column.format)
    phase = np.nan_to_num(values) * (2 * math.pi / _YEAR)
    season = np.stack([np.sin(phase), np.cos(phase)], axis=1) * ~gaps[:, None]
    return np.column_stack([_scaled(column, values, gaps), season.astype(np.float32)]), bad


def _encode_category(
    name: str, column: Column, cells: Sequence[str], gaps: Bools
) -> tuple[Floats, dict[int, str]]:
    place = {value: index for index, value in enumerate(column.values)}
    rest = len(column.values) if column.other else -1
    index = np.fromiter((place.get(cell, rest) for cell in cells), np.int64, len(cells))
    index[gaps] = -1
    x = np.zeros((len(cells), len(column.values) + column.other), np.float32)
    rows = np.flatnonzero(index >= 0)
    x[rows, index[rows]] = 1.0
    way = "extend the schema with --write-schema at all sites, or set other: true"
    unseen = np.flatnonzero((index < 0) & ~gaps).tolist()
    return x, {
        row: f"'{name}' is '{cells[row]}', a category that the schema lacks: {way}"
        for row in unseen
    }


def _encode_hash(
    name: str,  # noqa: ARG001
    column: Column,
    cells: Sequence[str],
    gaps: Bools,
) -> tuple[Floats, dict[int, str]]:
    x = np.zeros((len(cells), column.buckets), np.float32)
    for row, (gap, cell) in enumerate(zip(gaps, cells, strict=True)):
        if not gap:
            x[row, bucket(cell, column.buckets)] = 1.0
    return x, {}


def _encode_text(
    name: str,  # noqa: ARG001
    column: Column,
    cells: Sequence[str],
    gaps: Bools,
) -> tuple[Floats, dict[int, str]]:
    x = np.zeros((len(cells), column.buckets), np.float32)
    for row, (gap, cell) in enumerate(zip(gaps, cells, strict=True)):
        for word in () if gap else _WORD.findall(cell.lower()):
            x[row, bucket(word, column.buckets)] += 1.0
    return np.log1p(x), {}


@lru_cache(1 << 16)
def bucket(word: str, buckets: int) -> int:
    """The bucket of a word: the same on every machine."""
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % buckets


def _scaled(column: Column, values: np.ndarray, gaps: Bools) -> Floats:
    """Scaled values, 0 where there is none, which is the mean."""
    scaled = (np.where(np.isfinite(values), values, column.mean) - column.mean) / column.scale
    return np.asarray(np.where(gaps, 0.0, scaled), np.float32)


_ENCODERS = {
    "number": _encode_number,
    "date": _encode_date,
    "category": _encode_category,
    "hash": _encode_hash,
    "text": _encode_text,
}
