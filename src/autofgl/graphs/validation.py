"""Checks of client graphs, each with an error that names the client, the problem and the place.

Everything is vectorized; the dearest check, that edges come in both directions, sorts them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.errors import GraphError, UserError
from autofgl.graphs.client_graph import BOUNDARY, MASKS, ClientGraph, Floats
from autofgl.graphs.edges import without_reverse
from autofgl.identity import check_names


def validate_graph(graph: ClientGraph) -> None:
    """Check one client graph for itself. A graph without nodes is valid."""
    _check_arrays(graph)
    _check_features(graph)
    _check_nodes(graph)
    _check_weights(graph, "edge_weight", graph.edge_weight, "edge")
    _check_edges(graph)
    _check_weights(graph, "boundary_weight", graph.boundary.weight, "row")
    _check_boundary(graph)


def validate_clients(clients: Sequence[ClientGraph]) -> None:
    """Check each client graph, and whether they make one federation.

    A single client without training nodes is fine; all of them without is not.
    """
    if not clients:
        raise GraphError("there are no clients: give at least one graph")
    try:
        check_names(client.name for client in clients)
    except UserError as error:
        raise GraphError(str(error)) from error
    for client in clients:
        validate_graph(client)
    _check_common(clients)
    sizes = {client.name: client.num_nodes for client in clients}
    for client in clients:
        _check_owners(client, sizes)
    if not any(client.train_mask.any() for client in clients):
        raise GraphError(
            "no client has a training node: set 'train_mask' somewhere, or leave all masks out "
            "to have a split drawn"
        )


def _fail(graph: ClientGraph, problem: str, bad: Any, unit: str, advice: str) -> None:
    """Raise if anything is bad, with the first place and the count."""
    if bad.any():
        raise GraphError(
            f"{graph.name}: {problem} (first at {unit} {int(np.argmax(bad))}, "
            f"{int(np.count_nonzero(bad))} in all): {advice}"
        )


def _check_arrays(graph: ClientGraph) -> None:
    """Shapes and types, so that every later check may rely on them."""
    x: Any = graph.x
    if x.ndim != 2:
        raise GraphError(f"{graph.name}: 'x' has shape {x.shape}, it must be nodes × features")
    if sp.issparse(x) and x.format != "csr":
        raise GraphError(f"{graph.name}: sparse 'x' is {x.format}, it must be CSR")
    n, edges, boundary = (graph.num_nodes,), graph.edge_index, graph.boundary
    wanted: dict[str, tuple[Any, str, tuple[int, ...]]] = {
        "x": (x, "float32", x.shape),
        "edge_index": (edges, "int64", (2, edges.size // 2)),
        **{key: (getattr(graph, key), "int64", n) for key in ("y", "node_id")},
        **{key: (getattr(graph, key), "bool", n) for key in MASKS},
    }
    if graph.edge_weight is not None:
        wanted["edge_weight"] = (graph.edge_weight, "float32", edges.shape[1:])
    if boundary.weight is not None:
        wanted["boundary_weight"] = (boundary.weight, "float32", boundary.local.shape[:1])
    for key in BOUNDARY:
        wanted[f"boundary_{key}"] = (getattr(boundary, key), "int64", boundary.local.shape[:1])
    for key, (value, dtype, shape) in wanted.items():
        where = f"{graph.name}: '{key}'"
        if value.shape != shape:
            fits = f"it must be {shape} for {graph.num_nodes} nodes"
            raise GraphError(f"{where} has shape {value.shape}, {fits}")
        if value.dtype != np.dtype(dtype):
            advice = f"it must be {dtype}: convert it with .astype('{dtype}')"
            raise GraphError(f"{where} is {value.dtype}, {advice}")


def _check_features(graph: ClientGraph) -> None:
    if graph.num_features == 0:
        raise GraphError(
            f"{graph.name}: the nodes have no features: give 'x' at least one column, "
            "for example the degree or ones"
        )
    x: Any = graph.x
    if sp.issparse(x):
        try:
            x.check_format(full_check=True)
        except ValueError as error:
            raise GraphError(f"{graph.name}: the CSR parts of 'x' do not fit: {error}") from error
        places: Any = np.flatnonzero(~np.isfinite(x.data))
        rows = np.searchsorted(x.indptr, places, side="right") - 1
        bad: Any = np.bincount(rows, minlength=graph.num_nodes) > 0
    else:
        bad = ~np.isfinite(x).all(axis=1)
    _fail(graph, "features are not finite", bad, "node", "replace NaN and infinity in 'x'")


def _check_nodes(graph: ClientGraph) -> None:
    """Labels, masks and ids."""
    if graph.classes < 1:
        raise GraphError(
            f"{graph.name}: the number of classes is {graph.classes}: "
            "give at least one label in 'y', or 'classes'"
        )
    bad = (graph.y < -1) | (graph.y >= graph.classes)
    advice = f"use 0..{graph.classes - 1}, or -1 where unknown"
    _fail(graph, "labels are out of range", bad, "node", advice)
    masks = np.stack([getattr(graph, key) for key in MASKS])
    advice = "put each node into one of train_mask, val_mask and test_mask at most"
    _fail(graph, "masks overlap", masks.sum(axis=0) > 1, "node", advice)
    for key, mask in zip(MASKS, masks, strict=True):
        bad = mask & (graph.y < 0)
        _fail(graph, f"nodes in {key} have no label", bad, "node", "unset the mask where y is -1")
    order = np.argsort(graph.node_id, kind="stable")
    ids = graph.node_id[order]
    repeated = np.zeros(graph.num_nodes, np.bool_)
    repeated[order[1:]] = ids[1:] == ids[:-1]
    _fail(graph, "node ids repeat", repeated, "node", "make 'node_id' unique within the client")


def _check_edges(graph: ClientGraph) -> None:
    edges, n = graph.edge_index, graph.num_nodes
    if edges.size == 0:
        return
    if edges.min() < 0 or edges.max() >= n:
        bad = ((edges < 0) | (edges >= n)).any(axis=0)
        _fail(graph, "edges are out of range", bad, "edge", f"use node indices 0..{n - 1}")
    if not graph.directed:
        bad = without_reverse(edges, graph.edge_weight, n)
        advice = (
            "list each edge once in both directions, as in "
            "np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)"
        )
        if graph.edge_weight is not None:
            advice = "list each edge in both directions with the same weight"
        _fail(graph, "edges lack their reverse", bad, "edge", f"{advice}, or set 'directed'")


def _check_weights(graph: ClientGraph, key: str, weight: Floats | None, unit: str) -> None:
    if weight is not None:
        advice = f"make '{key}' finite and not negative"
        bad = ~np.isfinite(weight) | (weight < 0)
        _fail(graph, f"'{key}' has values that are no weights", bad, unit, advice)


def _check_boundary(graph: ClientGraph) -> None:
    boundary = graph.boundary
    bad = (boundary.local < 0) | (boundary.local >= graph.num_nodes)
    advice = f"use own node indices 0..{graph.num_nodes - 1}"
    _fail(graph, "boundary_local is out of range", bad, "row", advice)
    bad = (boundary.owner < 0) | (boundary.owner >= len(boundary.owners))
    advice = f"use 0..{len(boundary.owners) - 1}, or names in a file"
    _fail(graph, "boundary_owner is out of range", bad, "row", advice)
    advice = "use the node's index at its owner"
    _fail(graph, "boundary_remote is negative", boundary.remote < 0, "row", advice)
    least = 0 if graph.directed else 1  # of a directed edge, the remote end need not count it
    advice = "count all neighbors of the remote node, this edge among them"
    bad = boundary.degree < least
    _fail(graph, f"boundary_degree is below {least}", bad, "row", advice)
    own = np.array([name == graph.name for name in boundary.owners], np.bool_)[boundary.owner]
    advice = "put edges between own nodes into 'edge_index'"
    _fail(graph, "the boundary names the client itself as owner", own, "row", advice)


def _check_common(clients: Sequence[ClientGraph]) -> None:
    """Same features and same classes everywhere."""
    first = clients[0]
    for client in clients[1:]:
        if client.num_features != first.num_features:
            raise GraphError(
                f"{client.name}: nodes have {client.num_features} features, those of {first.name} "
                f"have {first.num_features}: all clients need the same columns in 'x'"
            )
        if client.classes != first.classes:
            raise GraphError(
                f"{client.name}: there are {client.classes} classes, at {first.name} "
                f"{first.classes}: give all clients the same 'classes'"
            )


def _check_owners(client: ClientGraph, sizes: dict[str, int]) -> None:
    """Boundary owners exist, and hold the nodes that the boundary points to."""
    boundary = client.boundary
    limits = np.array([sizes.get(name, -1) for name in boundary.owners], np.int64)[boundary.owner]
    unknown = limits < 0
    if unknown.any():
        name = boundary.owners[boundary.owner[np.argmax(unknown)]]
        advice = f"the clients are {', '.join(sizes)}"
        _fail(client, f"the boundary's owner '{name}' is no client", unknown, "row", advice)
    beyond = boundary.remote >= limits
    if beyond.any():
        name = boundary.owners[boundary.owner[np.argmax(beyond)]]
        advice = f"'{name}' has {sizes[name]} nodes; use the node's index there"
        _fail(client, "boundary_remote is out of range", beyond, "row", advice)
