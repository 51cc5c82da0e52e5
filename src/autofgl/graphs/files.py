"""Graph files: one ``.npz`` (or PyG ``.pt``) per client."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.atomic import replacing
from autofgl.errors import GraphError, UserError
from autofgl.graphs.client_graph import MASKS, Boundary, ClientGraph
from autofgl.graphs.edges import tell_about_edges
from autofgl.graphs.fields import BOUNDARY_KEYS, CSR, as_federation, read_file, with_owners
from autofgl.graphs.objects import ClientsLike, GraphLike, as_graph, take_clients
from autofgl.graphs.origin import Origin, common_schema
from autofgl.graphs.validation import validate_clients, validate_graph


def save_graph(path: str | Path, graph: GraphLike) -> None:
    """Write a ``.npz`` graph file; equal graphs give equal bytes.

    ``graph`` is whatever :func:`autofgl.as_graph` takes. The file appears whole or not at all. Its
    stem is what other files' boundaries call this client, so it should be the graph's name.
    """
    path = Path(path)
    _check_ending(path)
    _write(path, _arrays(as_graph(graph)))


def save_with_origin(
    path: str | Path, graph: ClientGraph, origin: Origin, *, split: bool = True
) -> None:
    """:func:`save_graph` with what is kept of tables; without ``split`` a run draws its own."""
    path = Path(path)
    _check_ending(path)
    arrays = _arrays(graph)
    if not split:
        arrays = {key: value for key, value in arrays.items() if key not in MASKS}
    _write(path, arrays | origin.arrays())


def replace_boundary(path: str | Path, boundary: Boundary) -> None:
    """Give a ``.npz`` graph file another boundary; all else in it stays as it is."""
    path = Path(path)
    _check_ending(path)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files if not key.startswith("boundary_")}
    _write(path, arrays | _boundary_arrays(boundary))


def _check_ending(path: Path) -> None:
    if path.suffix != ".npz":
        raise UserError(f"{path}: graph files are written as .npz")


def _write(path: Path, arrays: dict[str, Any]) -> None:
    with replacing(path) as stream:
        np.savez(stream, **arrays)


def _arrays(graph: ClientGraph) -> dict[str, Any]:
    """What a graph file has of a graph."""
    arrays: dict[str, Any] = {"x": graph.x}
    if sp.issparse(x := arrays["x"]):
        csr = (x.data, x.indices, x.indptr, np.array(x.shape, np.int64))
        arrays = dict(zip(CSR, csr, strict=True))
    arrays |= {
        **{key: getattr(graph, key) for key in ("edge_index", "y", *MASKS, "node_id")},
        "classes": np.int64(graph.classes),
    }
    arrays |= _boundary_arrays(graph.boundary)
    if graph.edge_weight is not None:
        arrays["edge_weight"] = graph.edge_weight
    if graph.directed:
        arrays["directed"] = np.bool_(True)
    return arrays


def _boundary_arrays(boundary: Boundary) -> dict[str, Any]:
    """What a graph file has of a boundary; nothing of an empty one."""
    if not len(boundary):
        return {}
    arrays = {key: getattr(boundary, key.partition("_")[2]) for key in BOUNDARY_KEYS}
    arrays["boundary_owner"] = np.array(boundary.owners, np.str_)[boundary.owner]
    return arrays if boundary.weight is None else arrays | {"boundary_weight": boundary.weight}


def save_graphs(folder: str | Path, clients: ClientsLike) -> list[Path]:
    """Write one ``.npz`` per client, named like the client, and return their paths.

    ``clients`` are whatever :func:`autofgl.as_clients` takes.
    """
    graphs = take_clients(clients)
    paths = [Path(folder) / f"{graph.name}.npz" for graph in graphs]
    for path, graph in zip(paths, graphs, strict=True):
        save_graph(path, graph)
    return paths


def load_graph(
    path: str | Path, *, seed: int = 0, classes: int | None = None, directed: bool = False
) -> ClientGraph:
    """Read one ``.npz`` or ``.pt`` file; it is named by its stem.

    A ``name.boundary.npz`` beside ``name.npz`` is read too. The seed is for the split (60/20/20 of
    the labeled nodes) where there are no masks; ``classes`` comes before what the file says. Edges
    that do not come in both directions are taken as undirected, with a warning, unless they are
    ``directed`` or the file says so.

    Raises:
        GraphError: The file cannot be read or holds a malformed graph.
    """
    graph, counts = read_file(path, seed, directed)
    if classes is not None:
        graph = replace(graph, classes=classes)
    validate_graph(graph)
    tell_about_edges({graph.name: counts})
    return graph


def load_graphs(
    paths: Sequence[str | Path], seed: int = 0, *, directed: bool = False
) -> list[ClientGraph]:
    """Read one graph file per client; their stems name the clients.

    All clients get the largest number of classes that any file gives or shows. Files called
    ``*.boundary.npz`` are read with their graph and count as no client. Edges are taken as in
    :func:`load_graph`.

    Raises:
        GraphError: A file cannot be read, the graphs make no federation, or they were made from
            tables with different schemas.
    """
    files = [Path(path) for path in paths if not str(path).endswith(".boundary.npz")]
    stem, count = Counter(file.stem for file in files).most_common(1)[0] if files else ("", 0)
    if count > 1:
        raise GraphError(f"{count} graph files are called '{stem}': rename them apart")
    intakes = [read_file(file, seed, directed) for file in files]
    common_schema(files)
    clients = as_federation([intake.graph for intake in intakes])
    validate_clients(clients)
    tell_about_edges({intake.graph.name: intake.counts for intake in intakes})
    return clients


def load_client(
    path: str | Path, name: str, names: Sequence[str], *, classes: int, seed: int
) -> ClientGraph:
    """One client's graph as :func:`load_graphs` would give it, without the other clients' files.

    ``names`` are those of all clients, in order, and ``classes`` are those of the federation.
    """
    graph, counts = read_file(path, seed)
    boundary = with_owners(graph.boundary, names)
    graph = replace(graph, name=name, classes=classes, boundary=boundary)
    validate_graph(graph)
    tell_about_edges({graph.name: counts})
    return graph
