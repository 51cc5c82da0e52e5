"""From tables of nodes and edges to a client graph, row by row checked against a schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from autofgl.atomic import write_text
from autofgl.errors import GraphError, UserError
from autofgl.graphs.client_graph import Bools, ClientGraph, Floats, Ints
from autofgl.graphs.edges import undirected
from autofgl.graphs.external import ExternalEdges
from autofgl.graphs.fields import graph_of_fields
from autofgl.graphs.files import save_with_origin
from autofgl.graphs.origin import Origin
from autofgl.graphs.validation import validate_graph
from autofgl.tables.draft import draft_schema
from autofgl.tables.encode import days, encode_column, missing_cells, numbers
from autofgl.tables.schema import Schema
from autofgl.tables.table import BadRow, DataTable, TableLike, is_missing, read_table

#: Characters of an id, at most.
_LONGEST_ID = 256


@dataclass(frozen=True)
class Imported:
    """Tables that became a graph.

    Attributes:
        graph: The client graph.
        names: The ids of its nodes in the tables.
        schema: What the tables were read by.
        refused: Rows that were left out, in order.
        notes: What a user should know besides, a line each.
        by_time: Whether the split is by time; a run draws it by its seed otherwise.
        external: Edges to nodes of other sites, which wait for ``autofgl match``.
    """

    graph: ClientGraph
    names: tuple[str, ...]
    schema: Schema
    refused: tuple[BadRow, ...]
    notes: tuple[str, ...]
    by_time: bool
    external: ExternalEdges = field(default_factory=ExternalEdges.none)

    def save(self, path: str | Path) -> list[Path]:
        """Write the graph file, and ``NAME.refused.csv`` if rows were left out; their paths."""
        path = Path(path)
        origin = Origin(self.names, self.schema.to_text(), self.external)
        save_with_origin(path, self.graph, origin, split=self.by_time)
        if not self.refused:
            return [path]
        beside = path.with_name(f"{path.stem}.refused.csv")
        rows = (f'"{row.table}",{row.line},"{_quoted(row.reason)}"' for row in self.refused)
        write_text(beside, "\n".join(["table,line,reason", *rows]) + "\n")
        return [path, beside]


def import_tables(
    nodes: TableLike,
    edges: TableLike,
    *,
    schema: Schema | str | Path | None = None,
    name: str | None = None,
    labeled: bool = True,
    skip_bad_rows: bool = False,
    **columns: Any,
) -> Imported:
    """One site's tables of nodes and edges as a client graph.

    Args:
        nodes, edges: Paths of CSV or Parquet files, frames of pandas or polars, or columns by name.
        schema: What all sites agreed on, or its file. Without it one is drafted from these tables:
            see :func:`autofgl.tables.draft.draft_schema` for what may be said of them.
        name: Name of the graph; else that of the file of nodes.
        labeled: Whether the column of labels has to be there.
        skip_bad_rows: Whether rows that are refused are left out; otherwise they are an error.
        **columns: Without a schema: ``id``, ``label``, ``weight``, ``time``, ….

    Raises:
        GraphError: The tables do not fit the schema; one line names the first row that is refused.

    Example:
        >>> nodes = {"account": ["a", "b", "c"], "age": [31, 45, 60], "fraud": ["no", "no", "yes"]}
        >>> edges = {"from": ["a", "b"], "to": ["b", "c"]}
        >>> imported = import_tables(nodes, edges, id="account", label="fraud")
        >>> imported.graph.num_nodes, imported.schema.classes
        (3, ('no', 'yes'))
    """
    node_table, edge_table = read_table(nodes, "nodes"), read_table(edges, "edges")
    if not len(node_table) and not node_table.bad:
        raise GraphError(f"{node_table.name} has a header and no rows")
    if schema is None:
        _no_bad_rows(node_table, edge_table, skip_bad_rows)
        schema = draft_schema(node_table, edge_table, **columns)
    elif columns:
        raise UserError(f"the schema says '{next(iter(columns))}' already: give one of the two")
    if not isinstance(schema, Schema):
        schema = Schema.read(Path(schema))
    part = _nodes(node_table, schema, labeled)
    _no_bad_rows(replace(node_table, bad=part.bad), edge_table, skip_bad_rows)
    links = _edges(edge_table, schema, part.names)
    _no_bad_rows(replace(edge_table, bad=links.bad), edge_table, skip_bad_rows)
    title = name or graph_name(nodes)
    graph = _graph(title, schema, part, links)
    notes = [*_notes(node_table, edge_table, schema, part), *links.notes]
    refused = (*part.bad, *links.bad)
    by_time = part.masks is not None
    return Imported(graph, part.names, schema, refused, tuple(notes), by_time, links.external)


def graph_name(nodes: TableLike) -> str:
    """The name of a graph by its file of nodes: ``north`` for ``north_nodes.csv``."""
    stem = Path(nodes).stem if isinstance(nodes, str | Path) else "graph"
    for ending in ("_nodes", "-nodes", ".nodes"):
        stem = stem.removesuffix(ending)
    return stem or "graph"


class _Nodes(NamedTuple):
    names: tuple[str, ...]
    x: Floats
    y: Ints
    masks: Mapping[str, Bools] | None
    bad: tuple[BadRow, ...]


class _Edges(NamedTuple):
    ends: Ints
    weight: Floats | None
    external: ExternalEdges
    bad: tuple[BadRow, ...]
    notes: tuple[str, ...]


def _no_bad_rows(first: DataTable, second: DataTable, skip: bool) -> None:
    if not skip:
        first.refuse(first.bad)
        second.refuse(second.bad)


def _nodes(table: DataTable, schema: Schema, labeled: bool) -> _Nodes:
    """What a table says of nodes, without the rows that are refused."""
    ids = table.column(schema.id, "the column of ids")
    wrong = _bad_ids(table, ids)
    y, bad = _labels(table, schema, labeled)
    for row, reason in bad.items():
        wrong.setdefault(row, reason)
    blocks = []
    for key, column in schema.columns.items():
        block = encode_column(key, column, table.column(key, "the column"))
        blocks.append(block.x)
        for row, reason in block.bad.items():
            wrong.setdefault(row, reason)
    moments = None
    if schema.time and (labeled or schema.time in table.columns):
        cells = table.column(schema.time, "the column of times")
        moments, late = days(schema.time, cells)
        for row, reason in late.items():
            wrong.setdefault(row, reason)
    keep = np.ones(len(table), np.bool_)
    keep[list(wrong)] = False
    rows = np.flatnonzero(keep)
    refused = (*table.bad, *(table.at(row, reason) for row, reason in wrong.items()))
    if not len(rows):
        table.refuse(refused)
    x = np.concatenate(blocks, axis=1)[rows]
    names = tuple(ids[row] for row in rows)
    masks = None
    if moments is not None and (y[rows] >= 0).any():
        masks = _split(table, schema, moments[rows], y[rows])
    return _Nodes(names, x, y[rows], masks, tuple(sorted(refused, key=lambda row: row.line)))


def _bad_ids(table: DataTable, ids: Sequence[str]) -> dict[int, str]:
    first: dict[str, int] = {}
    bad = {}
    for row, name in enumerate(ids):
        if is_missing(name):
            bad[row] = "the id is missing"
        elif not _is_id(name):
            bad[row] = f"the id is no printable text of at most {_LONGEST_ID} characters"
        elif first.setdefault(name, row) != row:
            where = f"{table.unit} {table.lines[first[name]]}"
            bad[row] = f"the id '{name}' is there before, in {where}"
    return bad


def _labels(table: DataTable, schema: Schema, labeled: bool) -> tuple[Ints, dict[int, str]]:
    """Class numbers, -1 where unknown."""
    unknown = np.full(len(table), -1, np.int64)
    if not schema.label or (not labeled and schema.label not in table.columns):
        return unknown, {}
    if schema.label not in table.columns:
        way = "add it, or say that this site has no labels: --unlabeled"
        raise GraphError(f"{table.name}: the column of labels '{schema.label}' is missing: {way}")
    cells = table.columns[schema.label]
    place = {value: index for index, value in enumerate(schema.classes)}
    y = np.fromiter((place.get(cell, -1) for cell in cells), np.int64, len(cells))
    strange = np.flatnonzero((y < 0) & ~missing_cells(cells)).tolist()
    listed = ", ".join(schema.classes)
    return y, {
        row: f"'{schema.label}' is '{cells[row]}', which is no class of the schema ({listed})"
        for row in strange
    }


def _split(table: DataTable, schema: Schema, moments: np.ndarray, y: Ints) -> dict[str, Bools]:
    """Train before, then validation, then test; what has no time or no label is in none."""
    bounds, bad = days("split", [schema.val_from, schema.test_from])
    if bad or np.isnan(bounds).any() or bounds[0] > bounds[1]:
        raise UserError("the schema's 'val_from' and 'test_from' must be dates in this order")
    known = (y >= 0) & ~np.isnan(moments)
    train = known & (moments < bounds[0])
    val = known & (moments >= bounds[0]) & (moments < bounds[1])
    if not train.any() and known.any():
        way = "choose later dates in the schema"
        reason = f"no labeled row has a '{schema.time}' before {schema.val_from}"
        raise GraphError(f"{table.name}: {reason}, so there is nothing to train on: {way}")
    return {"train_mask": train, "val_mask": val, "test_mask": known & (moments >= bounds[1])}


def _edges(table: DataTable, schema: Schema, names: Sequence[str]) -> _Edges:
    """Ends as places among the nodes, and weights, without the rows that are refused."""
    place = {name: index for index, name in enumerate(names)}
    keys = (schema.source, schema.target)
    cells = [table.column(key, "the column of an edge's end") for key in keys]
    ends = np.array([[place.get(cell, -1) for cell in column] for column in cells], np.int64)
    elsewhere = _leads_elsewhere(ends, cells) if schema.external else np.zeros(len(table), bool)
    wrong: dict[int, str] = {}
    for key, column, end in zip(keys, cells, ends, strict=True):
        for row in np.flatnonzero((end < 0) & ~elsewhere).tolist():
            reason = f"'{key}' is '{column[row]}', which is no id among the nodes"
            wrong.setdefault(row, f"'{key}' is empty" if is_missing(column[row]) else reason)
    weight = None
    if schema.weight:
        weight, bad = _weights(table, schema.weight)
        for row, reason in bad.items():
            wrong.setdefault(row, reason)
    keep = np.ones(len(table), np.bool_)
    keep[list(wrong)] = False
    external = _external(cells, ends, weight, np.flatnonzero(keep & elsewhere))
    keep &= ~elsewhere
    index = ends[:, keep]
    if weight is not None:
        weight = weight[keep].astype(np.float32)
    refused = (*table.bad, *(table.at(row, reason) for row, reason in wrong.items()))
    proper = index[0] != index[1]
    notes = []
    if not proper.all():
        notes.append(f"{table.name}: {np.count_nonzero(~proper)} edges lead from a node to itself "
                     "and are left out")  # fmt: skip
        index, weight = index[:, proper], None if weight is None else weight[proper]
    if not index.size:
        notes.append(f"{table.name}: there are no edges")
    ordered = tuple(sorted(refused, key=lambda row: row.line))
    if len(external):
        notes.append(f"{table.name}: {len(external):,} edges lead to {len(set(external.name)):,} "
                     "ids of other sites: autofgl match finds out whose")  # fmt: skip
    return _Edges(index, weight, external, ordered, tuple(notes))


def _leads_elsewhere(ends: Ints, cells: Sequence[Sequence[str]]) -> Bools:
    """Rows with one end among the nodes and an id as the other one."""
    strange = ends < 0
    named = np.stack([~missing_cells(column) for column in cells])
    usual = [[_is_id(cell) for cell in column] for column in cells]
    return np.asarray(strange.any(axis=0) & ~strange.all(axis=0) & (named & usual).all(axis=0))


def _is_id(cell: str) -> bool:
    return len(cell) <= _LONGEST_ID and cell.isprintable()


def _external(
    cells: Sequence[Sequence[str]], ends: Ints, weight: np.ndarray | None, rows: Ints
) -> ExternalEdges:
    """The rows that lead elsewhere; weights of those that are listed repeatedly add up."""
    edges: dict[tuple[int, str, bool], float] = {}
    for row in rows.tolist():
        out = bool(ends[1, row] < 0)
        own, name = int(ends[1 - out, row]), cells[out][row]
        edges[own, name, out] = edges.get((own, name, out), 0.0) + (
            1.0 if weight is None else float(weight[row])
        )
    if not edges:
        return ExternalEdges.none()
    local, names, outward = zip(*edges, strict=True)
    return ExternalEdges(
        np.array(local, np.int64),
        names,
        np.array(outward, np.bool_),
        None if weight is None else np.array(list(edges.values()), np.float32),
    )


def _weights(table: DataTable, key: str) -> tuple[np.ndarray, dict[int, str]]:
    cells = table.column(key, "the column of weights")
    values, bad = numbers(key, cells)
    for row in np.flatnonzero(~np.isfinite(values) | (values < 0)).tolist():
        reason = f"'{key}' is '{cells[row]}': weights are 0 or more"
        bad.setdefault(row, reason if cells[row] else f"'{key}' is empty")
    return values, bad


def _graph(title: str, schema: Schema, part: _Nodes, links: _Edges) -> ClientGraph:
    edges, weight = links.ends, links.weight
    if not schema.directed and edges.size:
        edges, weight = undirected(edges, weight, len(part.names))
    fields: dict[str, Any] = {"x": part.x, "edge_index": edges, "y": part.y, **(part.masks or {})}
    fields["classes"] = np.int64(max(len(schema.classes), 1))
    if weight is not None:
        fields["edge_weight"] = weight
    fields = {key: np.asarray(value) for key, value in fields.items()}
    graph = graph_of_fields(title, title, fields, 0, schema.directed).graph
    validate_graph(graph)
    return graph


def _notes(nodes: DataTable, edges: DataTable, schema: Schema, part: _Nodes) -> list[str]:
    notes = []
    read = {schema.id, schema.label, schema.time, *schema.columns}
    for table, known in ((nodes, read), (edges, {schema.source, schema.target, schema.weight})):
        unread = [key for key in table.columns if key not in known]
        if unread:
            notes.append(f"{table.name}: not read: {', '.join(unread)}")
    if part.masks is not None:
        timeless = int((part.y >= 0).sum() - sum(mask.sum() for mask in part.masks.values()))
        if timeless:
            notes.append(f"{nodes.name}: {timeless} labeled rows have no '{schema.time}', "
                         "and are in no split")  # fmt: skip
    return notes


def _quoted(text: str) -> str:
    return text.replace('"', '""')
