import collections
import gzip
import os
import pickle
import pickletools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.graphs.raw_files import (
    ARXIV_PARTS,
    read_arxiv,
    read_attributed,
    read_heterophilous,
    read_planetoid,
    read_reddit,
)

DATA = Path(os.environ.get("AUTOFGL_DATA") or Path(__file__).parents[3] / "shared" / "data")


def as_python_2(data: bytes) -> bytes:
    """A protocol-3 pickle as Python 2, NumPy 1 and an old SciPy would have written it."""
    patched = bytearray(data)
    patched[:2] = pickle.PROTO + b"\x02"
    for opcode, _, position in pickletools.genops(data):
        # Bytes become strings: the opcodes differ, the layout is the same.
        old = {"SHORT_BINBYTES": b"U", "BINBYTES": b"T"}.get(opcode.name)
        if old and position is not None:
            patched[position : position + 1] = old
    renamed = bytes(patched)
    for new_name, old_name in (
        (b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n"),
        (b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"),
        (b"cbuiltins\n", b"c__builtin__\n"),
    ):
        renamed = renamed.replace(new_name, old_name)
    return renamed


def write_planetoid(folder: Path, name: str = "citeseer", *, old: bool = True) -> None:
    """A graph of 540 nodes with 20 test ids, of which two are missing in test.index."""
    rng = np.random.default_rng(0)
    train, inner, features, classes = 6, 520, 9, 3
    test = rng.permutation(np.setdiff1d(np.arange(inner, inner + 20), [525, 531]))
    n = inner + 20
    x = sp.csr_matrix(sp.random(inner, features, 0.4, random_state=rng), dtype=np.float32)
    tx = sp.csr_matrix(sp.random(len(test), features, 0.4, random_state=rng), dtype=np.float32)
    ally = np.eye(classes, dtype=np.int32)[rng.integers(0, classes, inner)]
    ty = np.eye(classes, dtype=np.int32)[rng.integers(0, classes, len(test))]
    graph: dict[int, list[int]] = collections.defaultdict(list)
    for start, end in rng.integers(0, n, (900, 2)).tolist():  # one way, with loops and doubles
        graph[start].append(end)
    parts = {"x": x[:train], "tx": tx, "allx": x, "y": ally[:train], "ty": ty, "ally": ally}
    for key, value in (parts | {"graph": graph}).items():
        data = pickle.dumps(value, 3)
        (folder / f"ind.{name}.{key}").write_bytes(as_python_2(data) if old else data)
    (folder / f"ind.{name}.test.index").write_text("".join(f"{i}\n" for i in test))


def assert_same_as_pyg(graph: ClientGraph, folder: Path, name: str) -> None:
    from torch_geometric.io import read_planetoid_data
    from torch_geometric.utils import to_undirected

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = read_planetoid_data(str(folder), name)
    np.testing.assert_array_equal(to_dense(graph.x), data.x.numpy())
    np.testing.assert_array_equal(graph.edge_index, to_undirected(data.edge_index).numpy())
    for key in ("train_mask", "val_mask", "test_mask"):
        np.testing.assert_array_equal(getattr(graph, key), data[key].numpy())
    # PyG gives the ids that are missing in test.index class 0.
    np.testing.assert_array_equal(np.maximum(graph.y, 0), data.y.numpy())
    unlabelled = graph.y < 0
    assert not to_dense(graph.x)[unlabelled].any()
    assert graph.classes == int(data.y.max()) + 1


@pytest.mark.parametrize("old", [True, False])
def test_planetoid_agrees_with_pyg(tmp_path: Path, old: bool) -> None:
    write_planetoid(tmp_path, old=old)
    graph = read_planetoid(tmp_path, "citeseer")
    assert_same_as_pyg(graph, tmp_path, "citeseer")
    assert np.flatnonzero(graph.y < 0).tolist() == [525, 531]
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    assert [int(mask.sum()) for mask in masks] == [6, 500, 18]


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "train", "blank"),
    [
        ("cora", 2708, 5278, 1433, 7, 140, 0),
        ("citeseer", 3327, 4552, 3703, 6, 120, 15),
        ("pubmed", 19717, 44324, 500, 3, 60, 0),
    ],
)
def test_real_planetoid(
    name: str, nodes: int, edges: int, features: int, classes: int, train: int, blank: int
) -> None:
    folder = DATA / "planetoid"
    if not (folder / f"ind.{name}.x").is_file():
        pytest.skip("needs the raw Planetoid files below $AUTOFGL_DATA")
    graph = read_planetoid(folder, name)
    assert (graph.num_nodes, graph.num_edges) == (nodes, 2 * edges)
    assert (graph.num_features, graph.classes) == (features, classes)
    assert int(graph.train_mask.sum()) == train
    assert int((graph.y < 0).sum()) == blank
    assert_same_as_pyg(graph, folder, name)


class Hostile:
    """Unpickled by an ordinary unpickler, this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_the_hostile_pickle_is_a_real_one(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Hostile(tmp_path / "victim")))
    assert (tmp_path / "victim").exists()


@pytest.mark.parametrize("part", ["x", "ally", "graph"])
@pytest.mark.parametrize("protocol", range(6))
def test_hostile_pickles_are_refused_unrun(tmp_path: Path, part: str, protocol: int) -> None:
    write_planetoid(tmp_path)
    victim = tmp_path / "victim"
    path = tmp_path / f"ind.citeseer.{part}"
    path.write_bytes(pickle.dumps(Hostile(victim), protocol))
    with pytest.raises(GraphError, match=rf"ind\.citeseer\.{part}: refused: it asks for"):
        read_planetoid(tmp_path, "citeseer")
    assert not victim.exists()


@pytest.mark.parametrize(
    "payload",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cscipy.sparse.csr\ncsr_matrix.__init__\n.",
        b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.",
        b"P1\n.",
        b"\x82\x01.",
        b"",
        b"no pickle",
        pickle.dumps("neither a matrix nor a dictionary"),
    ],
)
@pytest.mark.parametrize("part", ["allx", "ally", "graph"])
def test_odd_pickles_are_refused(tmp_path: Path, part: str, payload: bytes) -> None:
    write_planetoid(tmp_path)
    (tmp_path / f"ind.citeseer.{part}").write_bytes(payload)
    with pytest.raises(GraphError, match=r"ind\.citeseer\."):
        read_planetoid(tmp_path, "citeseer")


@pytest.mark.parametrize("part", ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"])
def test_missing_and_cut_files_are_named(tmp_path: Path, part: str) -> None:
    write_planetoid(tmp_path)
    path = tmp_path / f"ind.citeseer.{part}"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(GraphError, match=r"ind\.citeseer\."):
        read_planetoid(tmp_path, "citeseer")
    path.unlink()
    with pytest.raises(GraphError, match=f"{path}: no such file"):
        read_planetoid(tmp_path, "citeseer")


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    write_planetoid(tmp_path)
    objects = pickle.dumps(np.array([[None]], object), 3)
    (tmp_path / "ind.citeseer.ally").write_bytes(objects)
    with pytest.raises(GraphError, match="instead of numbers"):
        read_planetoid(tmp_path, "citeseer")


@pytest.mark.parametrize("index", ["3 4", "-1", "520 x", "", "99999999999999"])
def test_impossible_test_ids_are_refused(tmp_path: Path, index: str) -> None:
    write_planetoid(tmp_path)
    (tmp_path / "ind.citeseer.test.index").write_text(index)
    with pytest.raises(GraphError, match="damaged, or not in the expected format"):
        read_planetoid(tmp_path, "citeseer")


def attributed() -> dict[str, Any]:
    """A directed graph of four authors, with a self-loop and word counts."""
    adjacency = sp.csr_array(np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0] * 4]))
    words = sp.csr_array(np.array([[2, 0, 0], [0, 1, 0], [0, 0, 7], [1, 0, 1]], np.float32))
    arrays = {"labels": np.array([0, 2, 1, 0])}
    for prefix, matrix in (("adj", adjacency), ("attr", words)):
        for key in ("data", "indices", "indptr", "shape"):
            arrays[f"{prefix}_{key}"] = np.array(getattr(matrix, key))
    return arrays


def test_attributed_graph(tmp_path: Path) -> None:
    path = tmp_path / "ms_academic_cs.npz"
    # The published files also hold names as pickled objects, which nobody may open.
    np.savez(path, **attributed(), class_names=np.array([Hostile(tmp_path / "v")], object))
    graph = read_attributed(path, "coauthor:cs")
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert to_dense(graph.x).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]]
    assert (graph.name, graph.classes, graph.y.tolist()) == ("coauthor:cs", 3, [0, 2, 1, 0])
    assert not (graph.train_mask | graph.val_mask | graph.test_mask).any()
    assert not (tmp_path / "v").exists()


def test_attributed_graph_agrees_with_pyg(tmp_path: Path) -> None:
    from torch_geometric.io import read_npz

    path = tmp_path / "cora.npz"
    np.savez(path, **attributed())
    graph, data = read_attributed(path, "corafull"), read_npz(str(path))
    np.testing.assert_array_equal(to_dense(graph.x), data.x.numpy())
    np.testing.assert_array_equal(graph.edge_index, data.edge_index.numpy())
    np.testing.assert_array_equal(graph.y, data.y.numpy())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "labels"),
        ({"labels": np.array([Hostile(Path("v"))] * 4, object)}, "allow_pickle"),
        ({"labels": np.zeros(3, np.int64)}, "differ in length"),
        ({"attr_indices": np.array([0, 1, 2, 0, 99])}, "damaged"),
        ({"adj_indptr": np.array([0, 9, 9, 9, 9])}, "damaged"),
        ({"adj_shape": np.array([4, 99]), "adj_indices": np.array([0, 1, 0, 98])}, "outside"),
    ],
)
def test_bad_attributed_graphs_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    arrays = {key: value for key, value in (attributed() | change).items() if value is not None}
    path = tmp_path / "cora.npz"
    np.savez(path, **arrays)
    with pytest.raises(GraphError, match=rf"cora\.npz: .*{message}"):
        read_attributed(path, "corafull")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_files_that_are_no_npz_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cora.npz"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"cora\.npz: damaged"):
        read_attributed(path, "corafull")


def test_a_single_array_is_not_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "cora.npz"
    with path.open("wb") as handle:
        np.save(handle, np.zeros(3))
    with pytest.raises(GraphError, match=r"cora\.npz: damaged"):
        read_attributed(path, "corafull")


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [("cs", 18333, 81894, 6805, 15), ("phy", 34493, 247962, 8415, 5)],
)
def test_real_coauthor(name: str, nodes: int, edges: int, features: int, classes: int) -> None:
    path = DATA / "coauthor" / f"ms_academic_{name}.npz"
    if not path.is_file():
        pytest.skip("needs the raw Coauthor files below $AUTOFGL_DATA")
    graph = read_attributed(path, "coauthor")
    assert (graph.num_nodes, graph.num_edges) == (nodes, 2 * edges)
    assert (graph.num_features, graph.classes) == (features, classes)
    assert set(np.unique(graph.x.data)) == {1.0}


def write_reddit(folder: Path) -> None:
    np.savez(
        folder / "reddit_data.npz",
        feature=np.arange(8.0).reshape(4, 2),
        label=np.array([1, 0, 2, 1]),
        node_types=np.array([1, 2, 3, 1]),
        node_ids=np.arange(4),
    )
    ends = (np.array([0, 1, 2, 3, 2]), np.array([1, 0, 2, 2, 3]))
    sp.save_npz(folder / "reddit_graph.npz", sp.coo_matrix((np.ones(5), ends), (4, 4)))


def test_reddit(tmp_path: Path) -> None:
    write_reddit(tmp_path)
    graph = read_reddit(tmp_path)
    assert graph.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
    assert graph.x.dtype == np.float32
    assert to_dense(graph.x).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    masks = np.stack([graph.train_mask, graph.val_mask, graph.test_mask])
    assert (masks.argmax(0) + 1).tolist() == [1, 2, 3, 1]
    assert graph.classes == 3


@pytest.mark.parametrize("file", ["reddit_data.npz", "reddit_graph.npz"])
def test_broken_reddit_is_named(tmp_path: Path, file: str) -> None:
    write_reddit(tmp_path)
    (tmp_path / file).write_bytes(b"PK")
    with pytest.raises(GraphError, match=f"{file}: damaged"):
        read_reddit(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(GraphError, match=f"{file}: no such file"):
        read_reddit(tmp_path)


def write_heterophilous(folder: Path, name: str) -> None:
    """Four nodes in a row, the third of which nobody uses in the first split."""
    folder.mkdir(parents=True, exist_ok=True)
    masks = {key: np.zeros((2, 4), np.bool_) for key in ("train", "val", "test")}
    for key, node in zip(masks, (0, 1, 3), strict=True):
        masks[key][0, node] = True
    np.savez(
        folder / f"{name.replace('-', '_')}.npz",
        node_features=np.arange(8, dtype=np.float64).reshape(4, 2),
        node_labels=np.array([0, 1, 1, 0]),
        edges=np.array([[0, 1], [1, 2], [2, 3]]),
        **{f"{key}_masks": mask for key, mask in masks.items()},
    )


def write_arxiv(folder: Path) -> None:
    """Three nodes, two of which cite the first."""
    parts = ("0.5,1\n0,-1\n2,3\n", "1\n0\n1\n", "1,0\n2,0\n", "0\n", "1\n", "2\n")
    for path, text in zip(ARXIV_PARTS, parts, strict=True):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(folder / path, "wt") as stream:
            stream.write(text)


def test_heterophilous_graph(tmp_path: Path) -> None:
    write_heterophilous(tmp_path, "roman-empire")
    graph = read_heterophilous(tmp_path / "roman_empire.npz", "roman-empire")
    assert to_dense(graph.x).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert set(zip(*graph.edge_index.tolist(), strict=True)) == {
        (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2),
    }  # fmt: skip
    assert graph.y.tolist() == [0, 1, 1, 0]
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [[0], [1], [3]]
    (tmp_path / "roman_empire.npz").write_bytes(b"PK nothing")
    with pytest.raises(GraphError, match=r"roman_empire.npz: damaged"):
        read_heterophilous(tmp_path / "roman_empire.npz", "roman-empire")


def test_arxiv(tmp_path: Path) -> None:
    write_arxiv(tmp_path)
    graph = read_arxiv(tmp_path)
    assert to_dense(graph.x).tolist() == [[0.5, 1], [0, -1], [2, 3]]
    assert graph.num_links == 2
    assert graph.y.tolist() == [1, 0, 1]
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [[0], [1], [2]]
    (tmp_path / ARXIV_PARTS[2]).unlink()
    with pytest.raises(GraphError, match=r"edge.csv.gz: no such file"):
        read_arxiv(tmp_path)
