"""Graph objects of other libraries as client graphs: PyG ``Data``, NetworkX graphs, tuples, files.

An object is read into the named arrays that a graph file has, and checked in the same words. No
library is imported to find out what an object is: whoever hands in its object has imported it.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import MASKS, ClientGraph
from autofgl.graphs.edges import EdgeCounts, tell_about_edges
from autofgl.graphs.fields import (
    Intake,
    as_federation,
    fields_of_tensors,
    graph_of_fields,
    plain_array,
    read_file,
)
from autofgl.graphs.validation import validate_clients, validate_graph

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

#: What may be handed in as a graph.
GraphLike: TypeAlias = "ClientGraph | Data | networkx.Graph | tuple[Any, Any, Any] | str | Path"
#: What may be handed in as clients: graphs in a row, or by name.
ClientsLike: TypeAlias = "Sequence[GraphLike] | Mapping[str, GraphLike]"

_KINDS = (
    "a PyG Data, a NetworkX graph, a tuple (x, edge_index, y), the path of a graph file or a "
    "ClientGraph"
)
_EDGE_KEYS = ("weight", "edge_weight")


def as_graph(
    given: "GraphLike",
    name: str | None = None,
    *,
    seed: int = 0,
    classes: int | None = None,
    directed: bool = False,
) -> ClientGraph:
    """One graph object as a validated client graph; a ``ClientGraph`` stays as it is.

    Args:
        given: A PyG ``Data``, a NetworkX graph with node attributes ``x`` and ``y``, a tuple
            ``(x, edge_index, y)``, the path of a graph file, or a ``ClientGraph``.
        name: Its name; else the object's own, else ``graph``.
        seed: For the split, where there are no masks.
        classes: Least number of classes; else what the object says, else its largest label and one.
        directed: Whether to keep the direction of edges.

    Raises:
        GraphError: The object is no graph, or a malformed one.

    Example:
        >>> import numpy as np
        >>> graph = as_graph((np.eye(3), [[0, 1], [1, 0]], [0, 1, -1]))
        >>> graph.num_nodes, graph.classes
        (3, 2)
    """
    graph, counts = _take_in(given, name or own_name(given) or "graph", seed, directed)
    if classes is not None and classes > graph.classes:
        graph = replace(graph, classes=classes)
    validate_graph(graph)
    tell_about_edges({graph.name: counts})
    return graph


def as_clients(given: "ClientsLike", *, seed: int = 0, directed: bool = False) -> list[ClientGraph]:
    """Graph objects as the validated clients of one federation.

    Names are the keys of a mapping, else the objects' own, else ``client-0``, ``client-1``, …; all
    clients get the largest number of classes that any object gives or shows. If all are
    ``ClientGraph``, they stay as they are.

    Raises:
        GraphError: Something is no graph, or the graphs make no federation.
    """
    clients = take_clients(given, seed=seed, directed=directed)
    validate_clients(clients)
    return clients


def take_clients(
    given: "ClientsLike", *, seed: int = 0, directed: bool = False
) -> list[ClientGraph]:
    """As :func:`as_clients`, with validation left to the caller."""
    objects = _in_a_row(given)
    if not isinstance(given, Mapping) and all(isinstance(one, ClientGraph) for _, one in objects):
        return [one if one.name == name else replace(one, name=name) for name, one in objects]
    intakes = [_take_in(one, name, seed, directed) for name, one in objects]
    tell_about_edges({intake.graph.name: intake.counts for intake in intakes})
    return as_federation([intake.graph for intake in intakes])


def own_name(given: Any) -> str | None:
    """The name that an object has itself, if it has any."""
    if isinstance(given, str | Path):
        return Path(given).stem
    name = getattr(given, "name", None)
    return name if isinstance(name, str) and name else None


def _in_a_row(given: Any) -> list[tuple[str, Any]]:
    """Objects with their names; numbers stand for missing names, and sort like numbers."""
    if isinstance(given, Mapping):
        return [(str(name), one) for name, one in given.items()]
    single = isinstance(given, str | Path | ClientGraph) or _is_triple(given)
    if single or _is_pyg(given) or _is_networkx(given) or not isinstance(given, Iterable):
        raise GraphError(
            "clients are given in a list, one graph for each: "
            "cut one graph with autofgl.partition(graph, clients=3)"
        )
    objects = list(given)
    width = len(str(len(objects) - 1))
    names = [own_name(one) or f"client-{i:0{width}d}" for i, one in enumerate(objects)]
    # a dataset's name has a colon, which no client's may have
    return [(name.replace(":", "-"), one) for name, one in zip(names, objects, strict=True)]


def _take_in(given: Any, name: str, seed: int, directed: bool) -> Intake:
    if isinstance(given, ClientGraph):
        return Intake(given if given.name == name else replace(given, name=name), EdgeCounts())
    if isinstance(given, str | Path):
        graph, counts = read_file(given, seed, directed)
        return Intake(replace(graph, name=name), counts)
    if _is_pyg(given):
        fields = fields_of_tensors(name, given.to_dict())
    elif _is_networkx(given):
        fields = _networkx_fields(name, given)
    elif _is_triple(given):
        parts = zip(("x", "edge_index", "y"), given, strict=True)
        fields = {key: plain_array(name, key, part) for key, part in parts if part is not None}
    else:
        kind = type(given).__name__
        raise GraphError(f"{name}: an object of type {kind} is no graph: give {_KINDS}")
    if "y" not in fields and "x" in fields:
        fields["y"] = np.full(fields["x"].shape[0], -1, np.int64)
    return graph_of_fields(name, name, fields, seed, directed)


def _is_pyg(given: Any) -> bool:
    module = sys.modules.get("torch_geometric.data")
    return module is not None and isinstance(given, module.Data)


def _is_networkx(given: Any) -> bool:
    module = sys.modules.get("networkx")
    return module is not None and isinstance(given, module.Graph)


def _is_triple(given: Any) -> bool:
    """Whether these are features, edges and labels, rather than three graphs."""
    return isinstance(given, tuple) and len(given) == 3 and hasattr(given[0], "shape")


def _networkx_fields(where: str, graph: Any) -> dict[str, Any]:
    """Arrays of a NetworkX graph, its nodes in their order."""
    nodes = dict(graph.nodes(data=True))
    place = {node: index for index, node in enumerate(nodes)}
    fields = _node_fields(where, nodes)
    links = list(graph.edges(data=True))
    ends = np.array([[place[u], place[v]] for u, v, _ in links], np.int64).reshape(-1, 2).T
    weights = [_edge_weight(attributes) for _, _, attributes in links]
    weight = None
    if any(one is not None for one in weights):
        weight = plain_array(where, "edge_weight", [1.0 if one is None else one for one in weights])
    if not graph.is_directed():
        back = ends[:, ends[0] != ends[1]][::-1]
        weight = None if weight is None else np.append(weight, weight[ends[0] != ends[1]])
        ends = np.concatenate([ends, back], axis=1)
    fields["edge_index"] = ends
    if weight is not None:
        fields["edge_weight"] = weight
    if graph.graph.get("classes") is not None:
        fields["classes"] = np.asarray(graph.graph["classes"])
    return fields


def _node_fields(where: str, nodes: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    """Features, labels, masks and ids; a missing label is unknown, a missing mask false."""
    for node, attributes in nodes.items():
        if attributes.get("x") is None:
            way = "give every node its features, as in graph.nodes[node]['x'] = [0.5, 1.0]"
            raise GraphError(f"{where}: node {node!r} has no attribute 'x': {way}")
    rows = [np.asarray(attributes["x"]).reshape(-1) for attributes in nodes.values()]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise GraphError(
            f"{where}: nodes have from {min(widths)} to {max(widths)} features in 'x': "
            "give all of them the same number"
        )
    fields: dict[str, Any] = {"x": np.stack(rows) if rows else np.zeros((0, 0), np.float32)}
    given = [attributes.get("y") for attributes in nodes.values()]
    labels = [-1 if label is None else label for label in given]
    fields["y"] = plain_array(where, "y", labels) if labels else np.zeros(0, np.int64)
    for key in MASKS:
        if any(key in attributes for attributes in nodes.values()):
            mask = [attributes.get(key, False) for attributes in nodes.values()]
            fields[key] = plain_array(where, key, mask)
    if nodes and all(isinstance(node, int | np.integer) for node in nodes):
        fields["node_id"] = plain_array(where, "node_id", list(nodes))
    return fields


def _edge_weight(attributes: Mapping[str, Any]) -> Any:
    return next((attributes[key] for key in _EDGE_KEYS if key in attributes), None)
