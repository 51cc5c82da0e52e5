"""``autofgl predict``: what a finished run says of a graph file, or of tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autofgl.cli.show import show_line, show_notices
from autofgl.errors import UserError

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.runs.export import Naming, Predictions

PREDICT_EXAMPLE = (
    "Example: autofgl predict runs/demo --graph mine.npz --out mine.csv, or: "
    "autofgl predict runs/demo --nodes new_nodes.csv --edges new_edges.csv --out new.csv"
)


def predict_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    graph: Annotated[
        list[Path] | None,
        typer.Option(
            help="Graph file to classify; several, if the network was trained across clients, to "
            "take in neighbors at each other."
        ),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Or a table of nodes, as autofgl import takes it.")
    ] = None,
    edges: Annotated[Path | None, typer.Option(help="With --nodes: the table of edges.")] = None,
    schema: Annotated[
        Path | None,
        typer.Option(help="With --nodes: how to read the tables. [default: FOLDER/schema.yaml]"),
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option(help="With --nodes: leave rows out that are refused, and list them.")
    ] = False,
    client: Annotated[
        str | None, typer.Option(help="Client whose model to use, if each client has its own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output, .csv or .npz. [default: GRAPH.predictions.csv]")
    ] = None,
) -> None:
    """Predict the class of every node in a graph file or in tables."""
    from autofgl.runs.export import predict, predict_together, read_description

    if (not graph) == (nodes is None) or (nodes is None) != (edges is None):
        raise UserError("give either --graph FILE, or --nodes TABLE and --edges TABLE")
    if out is not None and graph and len(graph) > 1:
        raise UserError("--out is for a single graph: several go to GRAPH.predictions.csv each")
    read_description(folder)
    if nodes is not None and edges is not None:
        where = schema or _kept_schema(folder)
        read, naming = _from_tables(nodes, edges, where, skip_bad_rows)
        _write(out or _target(nodes), predict(folder, read, client), naming)
        return
    files = graph or []
    together = predict_together(folder, files, client)
    for path, predictions in zip(files, together.values(), strict=True):
        _write(out or _target(path), predictions, _naming_of(path))


def _target(path: Path) -> Path:
    return Path(f"{path.stem}.predictions.csv")


def _write(target: Path, predictions: "Predictions", naming: "Naming | None") -> None:
    from autofgl.runs.export import write_predictions

    write_predictions(target, predictions, naming)
    show_line(f"{len(predictions.label)} predictions written to {target}")
    if predictions.accuracy is not None:
        show_line(f"accuracy {predictions.accuracy:.4f} over {predictions.labeled} labeled nodes")


def _kept_schema(folder: Path) -> Path:
    from autofgl.runs.folder import RunFolder

    path = RunFolder(folder).schema
    if not path.is_file():
        way = "give the one that the sites' tables were imported with: --schema schema.yaml"
        raise UserError(f"{folder} has no schema of tables: {way}")
    return path


def _from_tables(
    nodes: Path, edges: Path, schema: Path, skip: bool
) -> "tuple[ClientGraph, Naming]":
    from autofgl.runs.export import Naming
    from autofgl.tables.intake import import_tables

    imported = import_tables(nodes, edges, schema=schema, labeled=False, skip_bad_rows=skip)
    show_notices([*imported.notes, *(row.to_text() for row in imported.refused)])
    plan = imported.schema
    return imported.graph, Naming(plan.id, imported.names, plan.classes)


def _naming_of(graph: Path) -> "Naming | None":
    """The names that a graph file has kept of the tables that it was made from."""
    from autofgl.graphs.origin import read_origin
    from autofgl.runs.export import Naming

    origin = read_origin(graph)
    if not origin.names:
        return None
    if not origin.schema:
        return Naming("node_id", origin.names)

    from autofgl.tables.schema import Schema

    plan = Schema.of_text(origin.schema, f"{graph}: table_schema")
    return Naming(plan.id, origin.names, plan.classes)
