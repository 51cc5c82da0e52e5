"""From a file or named arrays to a client graph: what graph files and objects have in common.

Whatever a graph came in, its parts have the names of :data:`KEYS` and are checked in the same
words. A file is read without running anything in it. Shapes, ranges and values are left to
:mod:`autofgl.graphs.validation`.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import BOUNDARY, MASKS, Boundary, ClientGraph, Features, compact
from autofgl.graphs.datasets import by_fraction
from autofgl.graphs.edges import EdgeCounts, settle_edges
from autofgl.graphs.origin import ORIGIN_KEYS
from autofgl.seeding import numpy_generator

_NUMBER, _INTEGER, _BOOL, _TEXT = "fiub", "iu", "b", "U"
CSR = ("x_data", "x_indices", "x_indptr", "x_shape")
BOUNDARY_KEYS = tuple(f"boundary_{key}" for key in BOUNDARY)

#: Key -> accepted kinds of dtype, number of dimensions, what the key holds.
KEYS: dict[str, tuple[str, int, str]] = {
    "x": (_NUMBER, 2, "float32 [n, F]"),
    "x_data": (_NUMBER, 1, "float32 [nnz]"),
    "x_indices": (_INTEGER, 1, "int64 [nnz]"),
    "x_indptr": (_INTEGER, 1, "int64 [n + 1]"),
    "x_shape": (_INTEGER, 1, "int64 [2]"),
    "edge_index": (_INTEGER, 2, "int64 [2, E]"),
    "edge_weight": (_NUMBER, 1, "float32 [E]"),
    "directed": (_BOOL, 0, "one bool"),
    "y": (_INTEGER, 1, "int64 [n], -1 where unknown"),
    **dict.fromkeys(MASKS, (_BOOL, 1, "bool [n]")),
    "node_id": (_INTEGER, 1, "int64 [n]"),
    "boundary_local": (_INTEGER, 1, "int64 [b]"),
    "boundary_owner": (_TEXT, 1, "str [b], names of the owners"),
    "boundary_remote": (_INTEGER, 1, "int64 [b]"),
    "boundary_degree": (_INTEGER, 1, "int64 [b]"),
    "boundary_weight": (_NUMBER, 1, "float32 [b]"),
    "classes": (_INTEGER, 0, "one integer"),
}


class Intake(NamedTuple):
    """A graph that was taken in, and what became of its edges."""

    graph: ClientGraph
    counts: EdgeCounts


def graph_of_fields(
    where: str, name: str, fields: dict[str, Any], seed: int, directed: bool = False
) -> Intake:
    """The graph that some arrays make, with a split drawn by the seed where there are no masks.

    ``where`` begins every message: the path of a file, or the name of an object.
    """
    for key, value in fields.items():
        _check_kind(where, key, value)
    for key in ("edge_index", "y"):
        if key not in fields:
            raise GraphError(f"{where}: the key '{key}' is missing: add it as {KEYS[key][2]}")
    x, y = _features(where, fields), fields["y"].astype(np.int64)
    classes = int(fields.get("classes", y.max(initial=-1) + 1))
    directed = directed or bool(fields.get("directed", False))
    weight = _single(fields["edge_weight"]) if "edge_weight" in fields else None
    edges = fields["edge_index"].astype(np.int64)
    edges, weight, counts = settle_edges(edges, weight, x.shape[0], directed)
    graph = ClientGraph.unsplit(name, x, edges, y, classes)
    ids = fields.get("node_id", graph.node_id).astype(np.int64)
    boundary = _boundary(where, fields)
    graph = replace(graph, node_id=ids, boundary=boundary, edge_weight=weight, directed=directed)
    return Intake(_with_masks(where, graph, fields, seed), counts)


def check_keys(where: str, keys: Iterable[str], *more: str) -> None:
    """Refuse a key that nobody reads, with the nearest that somebody does."""
    for key in keys:
        if key not in KEYS and key not in more:
            near = difflib.get_close_matches(str(key), KEYS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the keys are {', '.join(KEYS)}"
            raise GraphError(f"{where}: the key {key!r} is unknown: {hint}")


def fields_of_tensors(where: str, content: dict[str, Any]) -> dict[str, Any]:
    """The arrays among the attributes of a PyG ``Data``, or in a dict of tensors."""
    given = [key for key in KEYS if content.get(key) is not None]
    arrays = {key: plain_array(where, key, content[key]) for key in given}
    if "boundary_owner" in arrays and arrays["boundary_owner"].dtype.kind != _TEXT:
        owners = content.get("boundary_owners", [])
        arrays["boundary_owner"] = _owner_names(where, arrays["boundary_owner"], owners)
    return arrays


def plain_array(where: str, key: str, value: Any) -> Any:
    """A tensor, array, number or list as an array; sparse features as CSR."""
    try:
        if sp.issparse(value):
            return sp.csr_array(value)
        array = _of_tensor(value) if hasattr(value, "detach") else np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(
            f"{where}: the key '{key}' is no plain tensor: {first_line(error)}"
        ) from error
    if key == "edge_index" and array.shape == (2, 0):
        return array.astype(np.int64)  # an empty list has no type of its own
    column = key in ("y", "edge_weight") and array.shape[1:] == (1,)
    return array.reshape(-1) if column else array


def with_owners(boundary: Boundary, names: Sequence[str]) -> Boundary:
    """The same boundary with owners numbered as in ``names``; strangers come after them."""
    owners = [*names, *(name for name in boundary.owners if name not in names)]
    number = np.array([owners.index(name) for name in boundary.owners], np.int64)
    return replace(boundary, owner=number[boundary.owner], owners=tuple(owners))


def as_federation(graphs: Sequence[ClientGraph]) -> list[ClientGraph]:
    """The graphs as clients of one federation: classes and owners of boundaries are common."""
    names = [graph.name for graph in graphs]
    classes = max((graph.classes for graph in graphs), default=0)
    return [
        replace(graph, classes=classes, boundary=with_owners(graph.boundary, names))
        for graph in graphs
    ]


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).partition("\n")[0]


def _of_tensor(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.layout is torch.strided:
        return tensor.numpy()
    tensor = tensor.to_sparse_coo().coalesce()
    parts = (tensor.values().numpy(), tensor.indices().numpy())
    return sp.csr_array(parts, shape=tuple(tensor.shape))


def _owner_names(where: str, owner: Any, owners: Any) -> Any:
    """Tensors hold no text: there owners are numbers into ``boundary_owners``."""
    plain = isinstance(owners, list) and all(isinstance(name, str) for name in owners)
    numbers = plain and owner.dtype.kind in _INTEGER
    if not numbers or not np.isin(owner, np.arange(len(owners))).all():
        raise GraphError(
            f"{where}: 'boundary_owner' must number the names in the list 'boundary_owners'"
        )
    return np.array(owners, np.str_)[owner]


def _check_kind(where: str, key: str, value: Any) -> None:
    kinds, dimensions, meaning = KEYS[key]
    plain = isinstance(value, np.ndarray) or (key == "x" and sp.issparse(value))
    if not plain or value.dtype.kind not in kinds:
        kind = getattr(value, "dtype", type(value).__name__)
        raise GraphError(f"{where}: the key '{key}' is {kind}: make it {meaning}")
    if value.ndim != dimensions:
        hint = _SHAPE_HINTS.get((key, value.ndim), "")
        raise GraphError(
            f"{where}: the key '{key}' has shape {value.shape}: make it {meaning}{hint}"
        )


#: What to do about shapes that are common elsewhere.
_SHAPE_HINTS = {
    ("y", 2): ", as y.argmax(1) makes it of one column per class",
    **{(key, 2): f", one split only, such as {key}[:, 0]" for key in MASKS},
}


def _features(where: str, fields: dict[str, Any]) -> Features:
    missing = [key for key in CSR if key not in fields]
    if ("x" in fields) == (len(missing) < len(CSR)):
        problem = "features are given twice" if "x" in fields else "the key 'x' is missing"
        raise GraphError(f"{where}: {problem}: give either 'x' or {', '.join(CSR)}")
    if "x" in fields:
        return compact(_single(fields["x"]))
    if missing:
        raise GraphError(f"{where}: the key '{missing[0]}' is missing: CSR features need it")
    data, indices, indptr, shape = (fields[key] for key in CSR)
    try:
        x = sp.csr_array((_single(data), indices, indptr), shape=tuple(shape.tolist()))
        x.check_format(full_check=True)
    except (ValueError, OverflowError, MemoryError) as error:
        raise GraphError(
            f"{where}: the keys {', '.join(CSR)} make no CSR matrix: {first_line(error)}"
        ) from error
    return x


def _single(values: Any) -> Any:
    """Values as float32; those too large for it become infinite, which validation names."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _with_masks(where: str, graph: ClientGraph, fields: dict[str, Any], seed: int) -> ClientGraph:
    """The graph with the masks given, or with a split drawn where a label can be split."""
    missing = [key for key in MASKS if key not in fields]
    if not missing:
        return graph.with_masks(*(fields[key] for key in MASKS))
    if len(missing) < len(MASKS):
        raise GraphError(
            f"{where}: the key '{missing[0]}' is missing: give all three masks, "
            "or none to have a split drawn"
        )
    if len(graph.y) == graph.num_nodes and (graph.y >= 0).any():
        return by_fraction(graph, numpy_generator(seed, "split", graph.name))
    return graph


def _boundary(where: str, fields: dict[str, Any]) -> Boundary:
    missing = [key for key in BOUNDARY_KEYS if key not in fields]
    if len(missing) == len(BOUNDARY_KEYS):
        return Boundary.empty()
    if missing:
        raise GraphError(
            f"{where}: the key '{missing[0]}' is missing: "
            f"a boundary needs {', '.join(BOUNDARY_KEYS)}"
        )
    owners, owner = np.unique(fields["boundary_owner"], return_inverse=True)
    given = {**fields, "boundary_owner": owner}
    arrays = {key: given[f"boundary_{key}"].astype(np.int64) for key in BOUNDARY}
    weight = _single(fields["boundary_weight"]) if "boundary_weight" in fields else None
    return Boundary(**arrays, owners=tuple(owners.tolist()), weight=weight)


def read_file(path: str | Path, seed: int, directed: bool = False) -> Intake:
    """The graph as a file has it; shapes, ranges and values are left to validation."""
    path = Path(path)
    if not path.is_file():
        raise GraphError(f"{path}: there is no such file")
    if path.suffix not in (".npz", ".pt"):
        raise GraphError(f"{path}: graph files end in .npz or .pt")
    fields = _read_npz(path) if path.suffix == ".npz" else _read_pt(path)
    beside = path.with_name(f"{path.stem}.boundary.npz")
    if beside.is_file():
        fields |= _read_beside(beside, fields)
    return graph_of_fields(str(path), path.stem, fields, seed, directed)


def _read_npz(path: Path) -> dict[str, Any]:
    key = ""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            check_keys(str(path), archive.files, *ORIGIN_KEYS)
            arrays = {}
            for key in (key for key in archive.files if key not in ORIGIN_KEYS):
                arrays[key] = archive[key]
            return arrays
    except GraphError:
        raise
    except Exception as error:  # a hostile file may make NumPy raise anything
        where = f"the key '{key}' cannot be read" if key else "this is no whole .npz file"
        raise GraphError(
            f"{path}: {where} ({first_line(error)}): write it again with np.savez, "
            "from arrays of numbers, not of objects"
        ) from error


def _read_beside(path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """The boundary that is kept in a file of its own."""
    arrays = _read_npz(path)
    for key in arrays:
        if key not in (*BOUNDARY_KEYS, "boundary_weight"):
            raise GraphError(f"{path}: a boundary file holds boundary_* keys only, not {key!r}")
        if key in fields:
            raise GraphError(f"{path}: the key '{key}' is in the graph file too: keep one of them")
    return arrays


def _read_pt(path: Path) -> dict[str, Any]:
    """A PyG ``Data``, of which unknown attributes are ignored, or a dict of tensors."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    allowed = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    try:
        with torch.serialization.safe_globals(allowed):
            content = torch.load(path, map_location="cpu", weights_only=True)
        fields = content.to_dict() if type(content) is Data else content
    except Exception as error:  # a hostile file may make torch raise anything
        asked = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"asks for '{asked[1]}'" if asked else "cannot be read"
        raise GraphError(
            f"{path}: the file {reason}; only a PyG Data or a dict of tensors is read and nothing "
            "else in it is run: save it again with torch.save(data.to_dict(), path)"
        ) from error
    if not isinstance(fields, dict):
        raise GraphError(f"{path}: the file holds a {type(fields).__name__}, not a PyG Data")
    if fields is content:
        check_keys(str(path), fields, "name", "boundary_owners")
    return fields_of_tensors(str(path), fields)
