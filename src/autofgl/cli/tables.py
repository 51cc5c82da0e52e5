"""``autofgl import``: tables of nodes and edges become a graph file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autofgl.cli.show import console, show_line, show_notices, show_table
from autofgl.errors import UserError, one_line

if TYPE_CHECKING:
    from autofgl.tables.intake import Imported
    from autofgl.tables.schema import Schema

IMPORT_EXAMPLE = (
    "Example: autofgl import north_nodes.csv north_edges.csv --schema schema.yaml --out north.npz"
)
MATCH_EXAMPLE = "Example: autofgl match north.npz south.npz west.npz"
#: Rows that were left out, as the terminal lists them; a file beside the graph has all.
_LISTED = 20


def import_command(
    nodes: Annotated[Path, typer.Argument(help="Table with a row for each node, CSV or Parquet.")],
    edges: Annotated[Path, typer.Argument(help="Table with a row for each edge.")],
    out: Annotated[
        Path | None, typer.Option(help="Graph file to write. [default: NODES with .npz]")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema that all sites share; tables are checked by it.")
    ] = None,
    write_schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the schema that these tables suggest, or extend the one that is there by "
            "what they have besides; no graph file is written.",
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Ids of nodes. [default: the first column]"),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Labels; empty where unknown.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Where an edge begins.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Where an edge ends.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Weights of edges. [default: all one]")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Time of a node: the split is then by time, training first."
        ),
    ] = None,
    val_from: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="With --time: validation begins. [default: after 60 %]"),
    ] = None,
    test_from: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="With --time: the test begins. [default: after 80 %]"),
    ] = None,
    as_: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            metavar="COLUMN=KIND",
            help="Kinds of columns: number, category, hash, text, date or drop. "
            "[default: what they look like]",
        ),
    ] = None,
    directed: Annotated[bool, typer.Option(help="Keep the direction of edges.")] = False,
    external: Annotated[
        bool,
        typer.Option(help="Edges may lead to ids of other sites; autofgl match finds them."),
    ] = False,
    unlabeled: Annotated[bool, typer.Option(help="This site has no labels.")] = False,
    skip_bad_rows: Annotated[
        bool, typer.Option(help="Leave rows out that are refused, and list them.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what is understood; write nothing.")] = False,
) -> None:
    """Make a graph file from tables of nodes and edges."""
    said = {"id": id_, "label": label, "source": source, "target": target, "weight": weight}
    said |= {"time": time, "val_from": val_from, "test_from": test_from}
    columns: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
    columns |= {"directed": True} if directed else {}
    columns |= {"external": True} if external else {}
    columns |= {"kinds": _kinds(as_)} if as_ else {}
    if schema is not None and write_schema is not None:
        raise UserError("give --schema to import by it, or --write-schema to make or extend it")
    if write_schema is not None:
        _write_schema(nodes, edges, write_schema, columns, dry_run)
        return
    if out is not None and out.suffix != ".npz":
        raise UserError(f"{out}: graph files are written as .npz")

    from autofgl.tables.intake import graph_name, import_tables

    target_file = out or nodes.with_name(f"{graph_name(nodes)}.npz")
    choices = {"labeled": not unlabeled, "skip_bad_rows": skip_bad_rows}
    name = target_file.stem
    imported = import_tables(nodes, edges, schema=schema, name=name, **choices, **columns)
    _preview(imported)
    if schema is None:
        show_notices(["no --schema was given: other sites need the same columns, in the same "
                      "order; make one with --write-schema schema.yaml"])  # fmt: skip
    if dry_run:
        show_line("nothing was written (--dry-run)")
        return
    show_line(f"written: {', '.join(map(str, imported.save(target_file)))}")


def match_files_command(
    graphs: Annotated[list[Path], typer.Argument(help="Graph files made by autofgl import.")],
) -> None:
    """Find the edges between graph files of this machine, and write them as boundaries.

    Each file takes part as a site of its own would with autofgl site match.
    """
    from autofgl.matching.server import match_files

    lines: dict[str, list[str]] = {path.stem: [] for path in graphs}
    edges = match_files(graphs, lambda name, line: lines[name].append(line))
    for path, count in zip(graphs, edges.values(), strict=True):
        for line in lines[path.stem]:
            show_line(f"{path.stem}: {line}")
        show_line(f"written: {path}, {count:,} edges to other sites")


def _kinds(pairs: list[str]) -> dict[str, str]:
    kinds = {}
    for pair in pairs:
        name, equals, kind = pair.rpartition("=")
        if not equals or not name:
            raise UserError(f"--as takes COLUMN=KIND, not '{pair}'")
        kinds[name] = kind
    return kinds


def _write_schema(
    nodes: Path, edges: Path, file: Path, columns: dict[str, Any], dry_run: bool
) -> None:
    from autofgl.atomic import write_text
    from autofgl.tables.draft import draft_schema, extend_schema
    from autofgl.tables.schema import Schema
    from autofgl.tables.table import read_table

    tables = read_table(nodes), read_table(edges)
    for table in tables:
        table.refuse(table.bad)
    if file.exists():
        if columns:
            given = f"--{next(iter(columns)).replace('_', '-')}"
            raise UserError(f"{file} is there and gets extended: it says {given} already, leave it "
                            "out, or delete the file")  # fmt: skip
        before = Schema.read(file)
        after = extend_schema(before, tables[0])
        change = _change(before, after)
    else:
        after = draft_schema(*tables, **columns)
        change = "written"
    _show_schema(after)
    if dry_run:
        show_line("nothing was written (--dry-run)")
        return
    write_text(file, after.to_text())
    show_line(f"{file}: {change}")
    show_line("it shows the names of columns, categories and classes, and mean, deviation and "
              "count of numbers: read it before you pass it on")  # fmt: skip


def _change(before: "Schema", after: "Schema") -> str:
    new = [f"class {name}" for name in after.classes if name not in before.classes]
    for name, column in after.columns.items():
        known = before.columns[name]
        new += [f"{name} {value}" for value in column.values if value not in known.values]
        new += [f"{name} may be missing"] if column.missing and not known.missing else []
    listed = ", ".join(new[:_LISTED]) + (", …" if len(new) > _LISTED else "")
    return one_line(f"extended by {listed}" if new else "extended: means and deviations", 500)


def _show_schema(schema: "Schema") -> None:
    from autofgl.tables.schema import KINDS

    rows = [(schema.id, "id", "-", "")]
    if schema.label:
        rows.append((schema.label, "label", "-", f"classes {', '.join(schema.classes)}"))
    if schema.time:
        split = f"validation from {schema.val_from}, test from {schema.test_from}"
        rows.append((schema.time, "time", "-", split))
    for name, column in schema.columns.items():
        about = ", ".join(column.values[:6]) + (", …" if len(column.values) > 6 else "")
        about = about or KINDS[column.kind]
        gaps = ", may be missing" if column.missing else ""
        rows.append((name, column.kind, str(column.width), one_line(about + gaps)))
    show_table(console(), ("column", "taken as", "width", "what it becomes"), rows)


def _preview(imported: "Imported") -> None:
    import numpy as np

    graph, schema = imported.graph, imported.schema
    _show_schema(schema)
    labeled = graph.y[graph.y >= 0]
    counts = np.bincount(labeled, minlength=graph.classes)
    shares = ", ".join(
        f"{name} {count:,} ({count / max(len(labeled), 1):.1%})"
        for name, count in zip(schema.classes, counts, strict=False)
    )
    show_line(f"{graph.num_nodes:,} nodes with {graph.num_features} features, "
              f"{graph.num_links:,} edges{', directed' if graph.directed else ''}")  # fmt: skip
    show_line(f"labels: {shares or 'none'}; {graph.num_nodes - len(labeled):,} unknown")
    if imported.by_time:
        sizes = [int(getattr(graph, f"{part}_mask").sum()) for part in ("train", "val", "test")]
        show_line(f"split by time: {sizes[0]:,} train, {sizes[1]:,} validation, {sizes[2]:,} test")
    show_notices(imported.notes)
    show_notices(row.to_text() for row in imported.refused[:_LISTED])
    if imported.refused:
        show_notices([f"{len(imported.refused)} rows are left out"])
