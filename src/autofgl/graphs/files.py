"""Graph files: one ``.npz`` (or PyG ``.pt``) per client, read without running anything in them."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.atomic import replacing
from autofgl.errors import GraphError, UserError
from autofgl.graphs.client_graph import BOUNDARY, MASKS, Boundary, ClientGraph, Features, compact
from autofgl.graphs.datasets import by_fraction
from autofgl.graphs.validation import validate_clients, validate_graph
from autofgl.seeding import numpy_generator

_NUMBER, _INTEGER, _BOOL, _TEXT = "fiub", "iu", "b", "U"
_CSR = ("x_data", "x_indices", "x_indptr", "x_shape")
_BOUNDARY = tuple(f"boundary_{key}" for key in BOUNDARY)

#: Key of the file -> accepted kinds of dtype, number of dimensions, what the key holds.
_KEYS: dict[str, tuple[str, int, str]] = {
    "x": (_NUMBER, 2, "float32 [n, F]"),
    "x_data": (_NUMBER, 1, "float32 [nnz]"),
    "x_indices": (_INTEGER, 1, "int64 [nnz]"),
    "x_indptr": (_INTEGER, 1, "int64 [n + 1]"),
    "x_shape": (_INTEGER, 1, "int64 [2]"),
    "edge_index": (_INTEGER, 2, "int64 [2, E]"),
    "y": (_INTEGER, 1, "int64 [n], -1 where unknown"),
    **dict.fromkeys(MASKS, (_BOOL, 1, "bool [n]")),
    "node_id": (_INTEGER, 1, "int64 [n]"),
    "boundary_local": (_INTEGER, 1, "int64 [b]"),
    "boundary_owner": (_TEXT, 1, "str [b], stems of the owners' files"),
    "boundary_remote": (_INTEGER, 1, "int64 [b]"),
    "boundary_degree": (_INTEGER, 1, "int64 [b]"),
    "classes": (_INTEGER, 0, "one integer"),
}


def save_graph(path: str | Path, graph: ClientGraph) -> None:
    """Write a ``.npz`` graph file; equal graphs give equal bytes.

    The file appears whole or not at all. Its stem is what other files' boundaries call this
    client, so it should be the graph's name.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise UserError(f"{path}: graph files are written as .npz")
    validate_graph(graph)
    arrays: dict[str, Any] = {"x": graph.x}
    if sp.issparse(x := arrays["x"]):
        csr = (x.data, x.indices, x.indptr, np.array(x.shape, np.int64))
        arrays = dict(zip(_CSR, csr, strict=True))
    arrays |= {
        **{key: getattr(graph, key) for key in ("edge_index", "y", *MASKS, "node_id")},
        "classes": np.int64(graph.classes),
    }
    if len(graph.boundary):
        arrays |= {key: getattr(graph.boundary, key.partition("_")[2]) for key in _BOUNDARY}
        arrays["boundary_owner"] = np.array(graph.boundary.owners, np.str_)[graph.boundary.owner]
    with replacing(path) as stream:
        np.savez(stream, **arrays)


def save_graphs(folder: str | Path, clients: Sequence[ClientGraph]) -> list[Path]:
    """Write one ``.npz`` per client, named like the client, and return their paths."""
    paths = [Path(folder) / f"{client.name}.npz" for client in clients]
    for path, client in zip(paths, clients, strict=True):
        save_graph(path, client)
    return paths


def load_graph(path: str | Path, *, seed: int = 0, classes: int | None = None) -> ClientGraph:
    """Read one ``.npz`` or ``.pt`` file; it is named by its stem.

    A ``name.boundary.npz`` beside ``name.npz`` is read too. The seed is for the split (60/20/20 of
    the labeled nodes) where there are no masks; ``classes`` comes before what the file says.

    Raises:
        GraphError: The file cannot be read or holds a malformed graph.
    """
    graph = _read(Path(path), seed)
    if classes is not None:
        graph = replace(graph, classes=classes)
    validate_graph(graph)
    return graph


def load_graphs(paths: Sequence[str | Path], seed: int = 0) -> list[ClientGraph]:
    """Read one graph file per client; their stems name the clients.

    All clients get the largest number of classes that any file gives or shows. Files called
    ``*.boundary.npz`` are read with their graph and count as no client.

    Raises:
        GraphError: A file cannot be read, or the graphs make no federation.
    """
    files = [Path(path) for path in paths if not str(path).endswith(".boundary.npz")]
    stem, count = Counter(file.stem for file in files).most_common(1)[0] if files else ("", 0)
    if count > 1:
        raise GraphError(f"{count} graph files are called '{stem}': rename them apart")
    graphs = [_read(file, seed) for file in files]
    names = [graph.name for graph in graphs]
    classes = max((graph.classes for graph in graphs), default=0)
    clients = [
        replace(graph, classes=classes, boundary=_with_owners(graph.boundary, names))
        for graph in graphs
    ]
    validate_clients(clients)
    return clients


def load_client(
    path: str | Path, name: str, names: Sequence[str], *, classes: int, seed: int
) -> ClientGraph:
    """One client's graph as :func:`load_graphs` would give it, without the other clients' files.

    ``names`` are those of all clients, in order, and ``classes`` are those of the federation.
    """
    graph = _read(Path(path), seed)
    boundary = _with_owners(graph.boundary, names)
    graph = replace(graph, name=name, classes=classes, boundary=boundary)
    validate_graph(graph)
    return graph


def _read(path: Path, seed: int) -> ClientGraph:
    """The graph as the file has it; shapes, ranges and values are left to validation."""
    if not path.is_file():
        raise GraphError(f"{path}: there is no such file")
    if path.suffix not in (".npz", ".pt"):
        raise GraphError(f"{path}: graph files end in .npz or .pt")
    fields = _read_npz(path) if path.suffix == ".npz" else _read_pt(path)
    beside = path.with_name(f"{path.stem}.boundary.npz")
    if beside.is_file():
        fields |= _read_beside(beside, fields)
    for key, value in fields.items():
        _check_kind(path, key, value)
    for key in ("edge_index", "y"):
        if key not in fields:
            raise GraphError(f"{path}: the key '{key}' is missing: add it as {_KEYS[key][2]}")
    x, y = _features(path, fields), fields["y"].astype(np.int64)
    classes = int(fields.get("classes", y.max(initial=-1) + 1))
    graph = ClientGraph.unsplit(path.stem, x, fields["edge_index"].astype(np.int64), y, classes)
    ids = fields.get("node_id", graph.node_id).astype(np.int64)
    graph = replace(graph, node_id=ids, boundary=_boundary(path, fields))
    return _with_masks(path, graph, fields, seed)


def _read_npz(path: Path) -> dict[str, Any]:
    key = ""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            _check_keys(path, archive.files)
            arrays = {}
            for key in archive.files:
                arrays[key] = archive[key]
            return arrays
    except GraphError:
        raise
    except Exception as error:  # a hostile file may make NumPy raise anything
        where = f"the key '{key}' cannot be read" if key else "this is no whole .npz file"
        raise GraphError(
            f"{path}: {where} ({_one_line(error)}): write it again with np.savez, "
            "from arrays of numbers, not of objects"
        ) from error


def _read_beside(path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """The boundary that is kept in a file of its own."""
    arrays = _read_npz(path)
    for key in arrays:
        if key not in _BOUNDARY:
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
        _check_keys(path, fields, "name", "boundary_owners")
    given = [key for key in _KEYS if fields.get(key) is not None]
    arrays = {key: _from_torch(path, key, fields[key]) for key in given}
    if "boundary_owner" in arrays:
        owners = fields.get("boundary_owners", [])
        arrays["boundary_owner"] = _owner_names(path, arrays["boundary_owner"], owners)
    return arrays


def _from_torch(path: Path, key: str, value: Any) -> Any:
    """A tensor, number or list as an array; sparse features as CSR."""
    import torch

    try:
        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        tensor: Any = value.detach()
        if tensor.layout is not torch.strided:
            tensor = tensor.to_sparse_coo().coalesce()
            parts = (tensor.values().numpy(), tensor.indices().numpy())
            return sp.csr_array(parts, shape=tuple(tensor.shape))
        array = tensor.numpy()
    except (TypeError, ValueError, RuntimeError) as error:
        reason = _one_line(error)
        raise GraphError(f"{path}: the key '{key}' is no plain tensor: {reason}") from error
    return array.reshape(-1) if key == "y" and array.shape[1:] == (1,) else array


def _owner_names(path: Path, owner: Any, owners: Any) -> Any:
    """Tensors hold no text: in ``.pt`` files owners are numbers into ``boundary_owners``."""
    plain = isinstance(owners, list) and all(isinstance(name, str) for name in owners)
    numbers = plain and owner.dtype.kind in _INTEGER
    if not numbers or not np.isin(owner, np.arange(len(owners))).all():
        raise GraphError(
            f"{path}: 'boundary_owner' must number the names in the list 'boundary_owners'"
        )
    return np.array(owners, np.str_)[owner]


def _check_keys(path: Path, keys: Sequence[str] | dict[str, Any], *more: str) -> None:
    for key in keys:
        if key not in _KEYS and key not in more:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the keys are {', '.join(_KEYS)}"
            raise GraphError(f"{path}: the key {key!r} is unknown: {hint}")


def _check_kind(path: Path, key: str, value: Any) -> None:
    kinds, dimensions, meaning = _KEYS[key]
    plain = isinstance(value, np.ndarray) or (key == "x" and sp.issparse(value))
    if not plain or value.dtype.kind not in kinds:
        kind = getattr(value, "dtype", type(value).__name__)
        raise GraphError(f"{path}: the key '{key}' is {kind}: make it {meaning}")
    if value.ndim != dimensions:
        raise GraphError(f"{path}: the key '{key}' has shape {value.shape}: make it {meaning}")


def _features(path: Path, fields: dict[str, Any]) -> Features:
    missing = [key for key in _CSR if key not in fields]
    if ("x" in fields) == (len(missing) < len(_CSR)):
        problem = "features are given twice" if "x" in fields else "the key 'x' is missing"
        raise GraphError(f"{path}: {problem}: give either 'x' or {', '.join(_CSR)}")
    if "x" in fields:
        return compact(_single(fields["x"]))
    if missing:
        raise GraphError(f"{path}: the key '{missing[0]}' is missing: CSR features need it")
    data, indices, indptr, shape = (fields[key] for key in _CSR)
    try:
        x = sp.csr_array((_single(data), indices, indptr), shape=tuple(shape.tolist()))
        x.check_format(full_check=True)
    except (ValueError, OverflowError, MemoryError) as error:
        raise GraphError(
            f"{path}: the keys {', '.join(_CSR)} make no CSR matrix: {_one_line(error)}"
        ) from error
    return x


def _single(values: Any) -> Any:
    """Values as float32; those too large for it become infinite, which validation names."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _with_masks(path: Path, graph: ClientGraph, fields: dict[str, Any], seed: int) -> ClientGraph:
    """The graph with the file's masks, or with a split drawn where a label can be split."""
    missing = [key for key in MASKS if key not in fields]
    if not missing:
        return graph.with_masks(*(fields[key] for key in MASKS))
    if len(missing) < len(MASKS):
        raise GraphError(
            f"{path}: the key '{missing[0]}' is missing: give all three masks, "
            "or none to have a split drawn"
        )
    if len(graph.y) == graph.num_nodes and (graph.y >= 0).any():
        return by_fraction(graph, numpy_generator(seed, "split", graph.name))
    return graph


def _boundary(path: Path, fields: dict[str, Any]) -> Boundary:
    missing = [key for key in _BOUNDARY if key not in fields]
    if len(missing) == len(_BOUNDARY):
        return Boundary.empty()
    if missing:
        raise GraphError(
            f"{path}: the key '{missing[0]}' is missing: a boundary needs {', '.join(_BOUNDARY)}"
        )
    owners, owner = np.unique(fields["boundary_owner"], return_inverse=True)
    given = {**fields, "boundary_owner": owner}
    arrays = {key: given[f"boundary_{key}"].astype(np.int64) for key in BOUNDARY}
    return Boundary(**arrays, owners=tuple(owners.tolist()))


def _with_owners(boundary: Boundary, names: Sequence[str]) -> Boundary:
    """The same boundary with owners numbered as in ``names``; strangers come after them."""
    owners = [*names, *(name for name in boundary.owners if name not in names)]
    number = np.array([owners.index(name) for name in boundary.owners], np.int64)
    return replace(boundary, owner=number[boundary.owner], owners=tuple(owners))


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
