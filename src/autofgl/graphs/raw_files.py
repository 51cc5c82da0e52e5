"""Readers of the raw files of public datasets, in place and without running anything in them.

Planetoid's files are Python pickles. They are read by an unpickler that knows half a dozen
names and puts a passive stand-in behind each, so that a hostile file can at worst be refused.
"""

import collections
import gzip
import itertools
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import MASKS, Bools, ClientGraph, Ints, compact, symmetric_edges

#: Validation nodes of Planetoid's public split: those that follow the training nodes.
PLANETOID_VAL = 500
#: Files of ogbn-arxiv as its archive has them: features, labels, edges, and three lists of nodes.
ARXIV_PARTS = (
    "raw/node-feat.csv.gz", "raw/node-label.csv.gz", "raw/edge.csv.gz",
    *(f"split/time/{split}.csv.gz" for split in ("train", "valid", "test")),
)  # fmt: skip
#: Endings of the eight files that make up a Planetoid graph.
PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def read_planetoid(folder: Path, name: str) -> ClientGraph:
    """Read ``ind.<name>.*`` with the public split and in the node order of PyG.

    Test rows are put where ``test.index`` says. Ids that it skips (15 in CiteSeer) become nodes
    without features and, unlike in PyG, which gives them class 0, without a label.
    """
    paths = {part: folder / f"ind.{name}.{part}" for part in PLANETOID_PARTS}
    _require(*paths.values())
    parts = {key: _unpickled(path) for key, path in paths.items() if key != "test.index"}
    with _speaking(folder / f"ind.{name}.*"):
        test = np.array(paths["test.index"].read_text("ascii").split(), np.int64)
        inner, tested = _matrix(parts["allx"]), _matrix(parts["tx"])
        train, first = len(_array(parts["y"])), inner.shape[0]
        if len(test) != tested.shape[0] or test.min() < first:
            raise ValueError("test.index does not fit allx and tx")
        n = int(test.max()) + 1
        # Where each node's row is in allx, tx and one more row of zeros, stacked.
        place = np.full(n, first + len(test))
        place[:first] = np.arange(first)
        place[test] = first + np.arange(len(test))
        blank = sp.csr_array((1, inner.shape[1]), dtype=np.float32)
        x = sp.vstack([inner, tested, blank], format="csr")[place]
        onehot = np.concatenate([_array(parts["ally"]), _array(parts["ty"])])
        y = np.append(np.where(onehot.any(1), onehot.argmax(1), -1), -1)[place]
        edges = _adjacency_lists(parts["graph"], n)
        val = np.arange(train, min(train + PLANETOID_VAL, first))
        masks = [np.zeros(n, np.bool_) for _ in MASKS]
        for mask, nodes in zip(masks, (np.arange(train), val, test), strict=True):
            mask[nodes] = True
        return _graph(f"planetoid:{name}", x, edges, y, masks, onehot.shape[1])


def read_attributed(path: Path, name: str) -> ClientGraph:
    """Read an ``.npz`` of gnn-benchmark or graph2gauss: Coauthor and CoraFull.

    As in PyG, word counts become 0 or 1 and edges lose their direction. There is no split.
    """
    with _npz(path) as arrays:
        x = _csr_of(arrays, "attr")
        x.data = (x.data > 0).astype(np.float32)
        x.eliminate_zeros()
        adjacency = _csr_of(arrays, "adj").tocoo()
        edges = symmetric_edges(adjacency.row, adjacency.col, x.shape[0])
        masks = [np.zeros(x.shape[0], np.bool_) for _ in MASKS]
        return _graph(name, x, edges, arrays["labels"], masks)


def read_heterophilous(path: Path, name: str) -> ClientGraph:
    """Read an ``.npz`` of Platonov et al. (2023), with the first of its ten splits.

    Edges are there once each and lose their direction.
    """
    with _npz(path) as arrays:
        x, y = arrays["node_features"].astype(np.float32), arrays["node_labels"]
        low, high = arrays["edges"].T
        masks = [
            np.asarray(arrays[f"{key}_masks"][0], np.bool_) for key in ("train", "val", "test")
        ]
        return _graph(name, x, symmetric_edges(low, high, len(y)), y, masks)


def read_arxiv(folder: Path) -> ClientGraph:
    """Read the unpacked files of ogbn-arxiv, with its split by year; edges lose their direction."""
    paths = [folder / part for part in ARXIV_PARTS]
    _require(*paths)
    features, labels, edges, *splits = paths
    with _speaking(folder):
        x = _table(features, np.float32)
        y = _table(labels, np.int64).reshape(-1)
        low, high = _table(edges, np.int64).T
        masks = [np.zeros(len(y), np.bool_) for _ in splits]
        for mask, path in zip(masks, splits, strict=True):
            mask[_table(path, np.int64).reshape(-1)] = True
        return _graph("ogbn-arxiv", x, symmetric_edges(low, high, len(y)), y, masks)


def _table(path: Path, dtype: Any) -> Any:
    """Numbers of a packed CSV file without headings, ``[rows, columns]``."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        return np.loadtxt(lines, dtype, delimiter=",", ndmin=2)


def read_reddit(folder: Path) -> ClientGraph:
    """Read ``reddit_data.npz`` and ``reddit_graph.npz`` with their own split by time."""
    data_path, graph_path = folder / "reddit_data.npz", folder / "reddit_graph.npz"
    _require(data_path, graph_path)
    with _npz(data_path) as arrays:
        x, y, kinds = (arrays[key] for key in ("feature", "label", "node_types"))
    with _speaking(graph_path), graph_path.open("rb") as handle:
        adjacency = sp.load_npz(handle).tocoo()
        edges = symmetric_edges(adjacency.row, adjacency.col, len(y))
        return _graph("reddit", x, edges, y, [kinds == kind for kind in (1, 2, 3)])


def _graph(
    name: str, x: Any, edges: Ints, y: Any, masks: list[Bools], classes: int | None = None
) -> ClientGraph:
    y = np.asarray(y).astype(np.int64)
    if any(len(part) != x.shape[0] for part in (y, *masks)):
        raise ValueError("features, labels and masks differ in length")
    count = int(y.max(initial=-1)) + 1 if classes is None else classes
    return ClientGraph.unsplit(name, compact(x), edges, y, count).with_masks(*masks)


def _require(*paths: Path) -> None:
    for path in paths:
        if not path.is_file():
            raise GraphError(f"{path}: no such file")


@contextmanager
def _speaking(path: Path) -> Iterator[None]:
    """Turn whatever a broken file makes its parser raise into one sentence."""
    try:
        yield
    except GraphError:
        raise
    except Exception as error:  # a hostile file may make its parser raise anything
        detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise GraphError(f"{path}: damaged, or not in the expected format ({detail})") from error


@contextmanager
def _npz(path: Path) -> Iterator[Mapping[str, Any]]:
    _require(path)
    # Opened here, because np.load leaves a file open that turns out to be damaged.
    with _speaking(path), path.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
        yield arrays


def _csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_array:
    rows, columns = (int(side) for side in shape)
    matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns), copy=True)
    matrix.check_format(full_check=True)
    matrix.sum_duplicates()
    return matrix


def _csr_of(arrays: Mapping[str, Any], prefix: str) -> sp.csr_array:
    return _csr(*(arrays[f"{prefix}_{key}"] for key in ("data", "indices", "indptr", "shape")))


def _adjacency_lists(lists: Any, num_nodes: int) -> Ints:
    sizes = [len(neighbors) for neighbors in lists.values()]
    row = np.repeat(np.fromiter(lists, np.int64, len(lists)), sizes)
    flat = itertools.chain.from_iterable(lists.values())
    return symmetric_edges(row, np.fromiter(flat, np.int64, sum(sizes)), num_nodes)


class _Dtype:
    """Stands for ``numpy.dtype``, which warns about the arguments that old pickles give it."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        self.order = "=" if state[1] == "|" else state[1]

    def real(self) -> np.dtype[Any]:
        dtype = np.dtype(self.order + self.code)
        if dtype.kind not in "biuf":
            raise ValueError(f"an array of {dtype} instead of numbers")
        return dtype


class _Array:
    """Stands for ``numpy.ndarray`` and for the function that makes an empty one."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def real(self) -> Any:
        _, shape, dtype, fortran, data = self.state
        raw = data.encode("latin1") if isinstance(data, str) else data
        return np.frombuffer(raw, dtype.real()).reshape(shape, order="F" if fortran else "C")


class _Csr:
    """Stands for ``scipy.sparse.csr_matrix``."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def real(self) -> sp.csr_array:
        data, indices, indptr = (self.state[key].real() for key in ("data", "indices", "indptr"))
        return _csr(data, indices, indptr, self.state["_shape"])


_ADMITTED: dict[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("collections", "defaultdict"): collections.defaultdict,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
}


class _RestrictedUnpickler(pickle.Unpickler):
    """An unpickler that imports nothing: it knows the names above and refuses all others."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) in _ADMITTED:
            return _ADMITTED[module_name, global_name]
        asked = f"{module_name}.{global_name}"
        raise GraphError(f"refused: it asks for {asked}, which no Planetoid file needs")


def _unpickled(path: Path) -> Any:
    with _speaking(path), path.open("rb") as handle:
        try:
            return _RestrictedUnpickler(handle, encoding="latin1").load()
        except GraphError as error:
            raise GraphError(f"{path}: {error}") from None


def _array(value: Any) -> Any:
    if not isinstance(value, _Array):
        raise ValueError("labels are not an array")
    return value.real()


def _matrix(value: Any) -> sp.csr_array:
    if not isinstance(value, _Csr):
        raise ValueError("features are not a CSR matrix")
    return value.real().astype(np.float32)
