"""A schema from a site's tables: what each column is, and what others need to read it alike.

A draft tells whoever gets it the names of columns, categories and classes, and mean, deviation and
count of every number: one site's for a draft, all sites' together once it is extended.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from autofgl.errors import GraphError, UserError, one_line, unknown_name
from autofgl.tables.encode import days, missing_cells, numbers
from autofgl.tables.schema import KINDS, Column, Schema
from autofgl.tables.table import DataTable, is_missing

#: Different values of a category, at most; of a label.
MOST_VALUES, MOST_CLASSES = 50, 100
#: A column with this share of numbers or dates is meant to have nothing else.
_MEANT = 0.8
_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"), ("from_id", "to_id"))
_SHARES = (0.6, 0.8)  # of the labeled nodes, in order of time: before validation, before test
DROP = "drop"


def draft_schema(
    nodes: DataTable,
    edges: DataTable,
    *,
    id: str | None = None,
    label: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    val_from: str = "",
    test_from: str = "",
    directed: bool = False,
    external: bool = False,
    kinds: Mapping[str, str] | None = None,
) -> Schema:
    """The schema that tables suggest; what is named comes before what is guessed.

    Args:
        nodes, edges: The tables of one site.
        id: Column of ids; the first one if not given.
        label: Column of labels.
        source, target: Columns of an edge's ends; by their usual names, else the first two.
        weight: Column of an edge's weight.
        time: Column of a node's time; the split is then by time.
        val_from, test_from: When validation and test begin; after 60 and 80 % of the labeled nodes.
        directed: Whether edges have a direction.
        external: Whether an edge may lead to a node of another site, which the nodes lack.
        kinds: Kind by column, or ``drop``.

    Raises:
        GraphError: A column is missing, or holds unlike things.
    """
    kinds = dict(kinds or {})
    _check_kinds(kinds, nodes)
    id = id or next(iter(nodes.columns))
    nodes.column(id, "the column of ids")
    ends = _ends(edges, source, target)
    if weight:
        edges.column(weight, "the column of weights")
    classes: tuple[str, ...] = ()
    if label:
        classes = _classes(nodes, label)
    columns = {}
    for name, cells in nodes.columns.items():
        if name in (id, label, time) and name not in kinds:
            continue
        kind = kinds.get(name) or guess_kind(nodes, name, cells)
        if kind != DROP:
            columns[name] = measure_column(name, Column(kind), cells, nodes)
    if not columns:
        raise GraphError(f"{nodes.name}: no column is left to be a feature: add one at least")
    texts = (id, *ends, label or "", classes, weight or "")
    schema = Schema(*texts, directed, external=external, columns=columns)
    return schema if not time else _with_times(schema, nodes, time, val_from, test_from)


def extend_schema(schema: Schema, nodes: DataTable) -> Schema:
    """A schema with the classes, categories, means and missing values of one more site.

    Raises:
        GraphError: A column is missing, or does not fit its kind.
    """
    classes = schema.classes
    if schema.label in nodes.columns:
        classes = _ordered({*classes, *_classes(nodes, schema.label)})
    columns = {}
    for name, column in schema.columns.items():
        cells = nodes.column(name, "the column")
        columns[name] = _joined(column, measure_column(name, column, cells, nodes))
    return replace(schema, classes=classes, columns=columns)


def guess_kind(table: DataTable, name: str, cells: Sequence[str]) -> str:
    """What a column seems to be; ``drop`` if it has nothing to learn from.

    Raises:
        GraphError: It is mostly numbers or dates, but not only.
    """
    values = [cell for cell in cells if not is_missing(cell)]
    distinct = set(values)
    if not distinct:
        return DROP
    for kind, parse in (("number", numbers), ("date", days)):
        bad = parse(name, cells)[1]
        if not bad:
            return kind
        if len(bad) <= (1 - _MEANT) * len(values):
            row = min(bad)
            mixed = f"{bad[row]}, where {len(values) - len(bad)} of {len(values)} rows have one"
            way = f"correct it, or take the column as it is: --as '{name}=category'"
            raise GraphError(f"{table.at(row, mixed).to_text(table.unit)}: {way}")
    if len(distinct) > 20 and sum(len(value.split()) for value in distinct) >= 3 * len(distinct):
        return "text"
    if len(distinct) <= MOST_VALUES and len(distinct) <= max(2, len(values) // 2):
        return "category"
    return DROP if len(distinct) == len(values) else "hash"


def measure_column(name: str, column: Column, cells: Sequence[str], table: DataTable) -> Column:
    """A column of a kind with what the cells say of it.

    Raises:
        GraphError: Cells are not of that kind.
    """
    gaps = missing_cells(cells)
    column = replace(column, missing=bool(gaps.any()))
    if column.kind == "category":
        distinct = {cell for cell, gap in zip(cells, gaps, strict=True) if not gap}
        if len(distinct) > 10 * MOST_VALUES:
            way = f"take them into buckets: --as '{name}=hash'"
            raise GraphError(f"{table.name}: '{name}' has {len(distinct)} categories: {way}")
        return replace(column, values=_ordered(distinct), other=column.other or not distinct)
    if column.kind in ("hash", "text"):
        return column if column.buckets else replace(column, buckets=_buckets(column.kind))
    date = column.kind == "date"
    values, bad = days(name, cells, column.format) if date else numbers(name, cells)
    table.refuse([table.at(row, reason) for row, reason in bad.items()])
    known = values[~gaps]
    if not len(known):
        return column
    mean, deviation = float(known.mean()), float(known.std())
    return replace(column, mean=_short(mean), scale=_short(deviation) or 1.0, count=len(known))


def _check_kinds(kinds: Mapping[str, str], nodes: DataTable) -> None:
    for name, kind in kinds.items():
        nodes.column(name, "the column")
        if kind not in (*KINDS, DROP):
            raise unknown_name("kind of column", kind, (*KINDS, DROP))


def _buckets(kind: str) -> int:
    return {"hash": 32, "text": 64}[kind]


def _ends(edges: DataTable, source: str | None, target: str | None) -> tuple[str, str]:
    """The columns of an edge's two ends."""
    names = list(edges.columns)
    if len(names) < 2:
        raise GraphError(f"{edges.name}: an edge needs two columns, one for each end")
    usual = {name.lower(): name for name in names}
    guessed = next((pair for pair in _ENDS if usual.keys() >= {*pair}), None)
    first, second = (usual[end] for end in guessed) if guessed else names[:2]
    ends = (source or first, target or second)
    for end in ends:
        edges.column(end, "the column of an edge's end")
    if ends[0] == ends[1]:
        raise GraphError(f"{edges.name}: both ends of an edge cannot be in '{ends[0]}'")
    return ends


def _classes(nodes: DataTable, label: str) -> tuple[str, ...]:
    cells = nodes.column(label, "the column of labels")
    counts = Counter(cell for cell in cells if not is_missing(cell))
    if not counts:
        raise GraphError(f"{nodes.name}: no row has a label in '{label}'")
    if len(counts) > MOST_CLASSES:
        reason = f"'{label}' has {len(counts)} different values, which are too many for classes"
        raise GraphError(f"{nodes.name}: {reason}: name the column of labels with --label")
    return _ordered(counts)


def _ordered(values: "set[str] | Counter[str]") -> tuple[str, ...]:
    """Values in the order of numbers where all are numbers, else of text."""
    try:
        return tuple(sorted(values, key=lambda value: (float(value), value)))
    except ValueError:
        return tuple(sorted(values))


def _with_times(
    schema: Schema, nodes: DataTable, time: str, val_from: str, test_from: str
) -> Schema:
    cells = nodes.column(time, "the column of times")
    moments, bad = days(time, cells)
    nodes.refuse([nodes.at(row, reason) for row, reason in bad.items()])
    for name, text in (("--val-from", val_from), ("--test-from", test_from)):
        if text and math.isnan(days(name, [text])[0][0]):
            raise UserError(one_line(f"{name} {text}: give a date such as 2024-03-31"))
    labels = nodes.columns.get(schema.label, [""] * len(nodes))
    known = ~missing_cells(labels) & ~np.isnan(moments)
    if not known.any():
        raise GraphError(f"{nodes.name}: no row has both a label and a time in '{time}'")
    ordered = np.sort(moments[known])
    places = [min(int(share * len(ordered)), len(ordered) - 1) for share in _SHARES]
    drawn = [_iso(ordered[place]) for place in places]
    return replace(
        schema, time=time, val_from=val_from or drawn[0], test_from=test_from or drawn[1]
    )


def _iso(day: float) -> str:
    """Days since 1970 as a date, with its time of day if it has any."""
    moment = np.datetime64(round(day * 86400), "s")
    text = str(moment)
    return text.removesuffix("T00:00:00")


def _joined(old: Column, new: Column) -> Column:
    """What two sites' columns of one kind are together."""
    old = replace(old, missing=old.missing or new.missing)
    if old.kind == "category":
        values = old.values if old.other and old.values else _ordered({*old.values, *new.values})
        return replace(old, values=values)
    count = old.count + new.count
    if old.kind not in ("number", "date") or not new.count:
        return old
    if not old.count:
        return replace(old, mean=new.mean, scale=new.scale, count=new.count)
    share = new.count / count
    mean = old.mean + share * (new.mean - old.mean)
    spread = (1 - share) * (old.scale**2 + (old.mean - mean) ** 2)
    spread += share * (new.scale**2 + (new.mean - mean) ** 2)
    return replace(old, mean=_short(mean), scale=_short(math.sqrt(spread)) or 1.0, count=count)


def _short(value: float) -> float:
    """Six digits, which are enough to scale with, and say less."""
    return float(f"{value:.6g}")
