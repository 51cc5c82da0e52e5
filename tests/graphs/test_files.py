import pickle
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from autofgl.errors import GraphError, UserError
from autofgl.graphs.catalog import PARTITIONERS, PartitionSettings
from autofgl.graphs.client_graph import Boundary, ClientGraph, to_dense
from autofgl.graphs.files import load_graph, load_graphs, save_graph, save_graphs
from autofgl.graphs.partition import partition

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
]


def whole(n: int = 30, *, sparse: bool = False) -> ClientGraph:
    rng = np.random.default_rng(1)
    low, high = np.nonzero(np.triu(rng.random((n, n)) < 0.2, 1))
    x = (rng.random((n, 20)) < (0.1 if sparse else 0.5)).astype(np.float32)
    y = rng.integers(-1, 3, n)
    part = np.where(y >= 0, rng.integers(0, 3, n), -1)
    return ClientGraph(
        name="whole",
        x=sp.csr_array(x) if sparse else x,
        edge_index=np.stack([np.append(low, high), np.append(high, low)]),
        y=y,
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
        classes=4,
        node_id=rng.permutation(n),
    )


def arrays(**changes: object) -> dict[str, object]:
    """A small file's content; a key changed to None is left out."""
    content = {
        "x": np.ones((5, 2), np.float32),
        "edge_index": np.array([[0, 1], [1, 0]]),
        "y": np.array([0, 1, 0, 1, -1]),
    }
    return {key: value for key, value in (content | changes).items() if value is not None}


def csr(**changes: object) -> dict[str, object]:
    x = sp.csr_array(np.eye(5, 3, dtype=np.float32))
    shape = np.array(x.shape)
    parts = {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr, "x_shape": shape}
    return arrays(**{"x": None, **parts, **changes})


def written(path: Path, content: dict[str, object]) -> Path:
    np.savez(path, **content)
    return path


def assert_same(one: ClientGraph, other: ClientGraph) -> None:
    assert (one.name, one.classes) == (other.name, other.classes)
    assert sp.issparse(one.x) == sp.issparse(other.x)
    assert np.array_equal(to_dense(one.x), to_dense(other.x))
    for key in ("edge_index", "y", "train_mask", "val_mask", "test_mask", "node_id"):
        assert np.array_equal(getattr(one, key), getattr(other, key)), key
    for key in ("local", "remote", "degree"):
        assert np.array_equal(getattr(one.boundary, key), getattr(other.boundary, key)), key
    names = [[b.owners[k] for k in b.owner] for b in (one.boundary, other.boundary)]
    assert names[0] == names[1]


@pytest.mark.parametrize("sparse", [False, True])
def test_round_trip(tmp_path, sparse):
    graph = whole(sparse=sparse)
    save_graph(tmp_path / "whole.npz", graph)
    assert_same(load_graph(tmp_path / "whole.npz"), graph)


@pytest.mark.parametrize("method", PARTITIONERS)
def test_round_trip_of_clients(tmp_path, method):
    clients = partition(whole(sparse=True), 3, method)
    loaded = load_graphs(save_graphs(tmp_path / "sites", clients))
    for one, other in zip(loaded, clients, strict=True):
        assert_same(one, other)
        assert one.boundary.owners == other.boundary.owners


def test_round_trip_of_an_empty_client(tmp_path):
    settings = PartitionSettings(dirichlet_beta=0.01)
    graph = replace(whole(), y=np.zeros(30, np.int64))
    save_graphs(tmp_path, partition(graph, 4, "dirichlet", settings=settings))
    sizes = [client.num_nodes for client in load_graphs(sorted(tmp_path.glob("*.npz")))]
    assert 0 in sizes
    assert sum(sizes) == 30


def test_equal_graphs_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        save_graph(tmp_path / f"{name}.npz", whole(sparse=True))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}, "no clock in it"


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = written(tmp_path / "a.npz", arrays())
    before = path.read_bytes()

    def fail(stream, **_):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(UserError, match="disk full"):
        save_graph(path, whole())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_malformed_graphs_are_not_written(tmp_path):
    with pytest.raises(GraphError, match="labels are out of range"):
        save_graph(tmp_path / "a.npz", replace(whole(), classes=1))
    with pytest.raises(UserError, match=r"written as \.npz"):
        save_graph(tmp_path / "a.pt", whole())
    assert not list(tmp_path.iterdir())


def test_the_least_file(tmp_path):
    graph = load_graph(written(tmp_path / "shop.npz", arrays()))
    assert (graph.name, graph.classes) == ("shop", 2)
    assert graph.node_id.tolist() == [0, 1, 2, 3, 4]
    assert len(graph.boundary) == 0
    masks = np.stack([graph.train_mask, graph.val_mask, graph.test_mask])
    assert masks.sum(axis=0).tolist() == [1, 1, 1, 1, 0], "labelled nodes are split"


def test_the_drawn_split_depends_on_seed_and_name(tmp_path):
    content = arrays(x=np.ones((200, 1)), y=np.arange(200) % 2)
    a, b = written(tmp_path / "a.npz", content), written(tmp_path / "b.npz", content)
    first = load_graph(a, seed=1)
    assert [m.sum() for m in (first.train_mask, first.val_mask, first.test_mask)] == [120, 40, 40]
    assert np.array_equal(first.train_mask, load_graphs([a, b], seed=1)[0].train_mask)
    assert not np.array_equal(first.train_mask, load_graph(a, seed=2).train_mask)
    assert not np.array_equal(first.train_mask, load_graph(b, seed=1).train_mask)


def test_types_are_converted(tmp_path):
    content = arrays(x=np.ones((5, 2), np.int8), y=np.array([0, 1, 0, 1, -1], np.int32))
    graph = load_graph(written(tmp_path / "a.npz", content))
    assert (graph.x.dtype, graph.y.dtype) == (np.float32, np.int64)


def test_classes_of_the_file_and_of_the_caller(tmp_path):
    path = written(tmp_path / "a.npz", arrays(classes=5))
    assert load_graph(path).classes == 5
    assert load_graph(path, classes=7).classes == 7
    unlabelled = written(tmp_path / "b.npz", arrays(y=np.full(5, -1)))
    assert load_graph(unlabelled, classes=3).classes == 3
    with pytest.raises(GraphError, match="the number of classes is 0"):
        load_graph(unlabelled)


def test_clients_share_the_largest_number_of_classes(tmp_path):
    a = written(tmp_path / "a.npz", arrays())
    b = written(tmp_path / "b.npz", arrays(y=np.array([0, 1, 2, 3, 6])))
    assert [graph.classes for graph in load_graphs([a, b])] == [7, 7]
    assert [graph.name for graph in load_graphs([b, a])] == ["b", "a"]


BOUNDARY = {
    "boundary_local": np.array([4, 0]),
    "boundary_owner": np.array(["b", "b"]),
    "boundary_remote": np.array([1, 2]),
    "boundary_degree": np.array([2, 3]),
}


def test_boundary_in_a_file_of_its_own(tmp_path):
    written(tmp_path / "a.npz", arrays())
    written(tmp_path / "b.npz", arrays())
    written(tmp_path / "a.boundary.npz", BOUNDARY)
    a, b = load_graphs(sorted(tmp_path.glob("*.npz")))
    assert (a.name, b.name) == ("a", "b")
    assert [a.boundary.owners[k] for k in a.boundary.owner] == ["b", "b"]
    assert a.boundary.local.tolist() == [4, 0]
    assert len(b.boundary) == 0


def test_boundary_twice(tmp_path):
    path = written(tmp_path / "a.npz", arrays(**BOUNDARY))
    written(tmp_path / "a.boundary.npz", BOUNDARY)
    with pytest.raises(GraphError, match=r"a\.boundary\.npz: .*is in the graph file too"):
        load_graph(path)


def test_boundary_file_with_more_in_it(tmp_path):
    path = written(tmp_path / "a.npz", arrays())
    written(tmp_path / "a.boundary.npz", BOUNDARY | {"y": np.zeros(5)})
    with pytest.raises(GraphError, match="boundary_\\* keys only, not 'y'"):
        load_graph(path)


def test_unknown_owner(tmp_path):
    path = written(tmp_path / "a.npz", arrays(**BOUNDARY))
    with pytest.raises(GraphError, match="a: the boundary's owner 'b' is no client"):
        load_graphs([path, written(tmp_path / "c.npz", arrays())])


def test_equal_stems(tmp_path):
    (tmp_path / "other").mkdir()
    paths = [written(tmp_path / "a.npz", arrays()), written(tmp_path / "other/a.npz", arrays())]
    with pytest.raises(GraphError, match="2 graph files are called 'a'"):
        load_graphs(paths)


def test_no_files():
    with pytest.raises(GraphError, match="there are no clients"):
        load_graphs([])


WRONG = {
    "no features": (arrays(x=None), "the key 'x' is missing"),
    "no edges": (arrays(edge_index=None), r"the key 'edge_index' is missing: add it as int64"),
    "no labels": (arrays(y=None), "the key 'y' is missing: add it as int64"),
    "features twice": (csr(x=np.ones((5, 3))), "features are given twice"),
    "half a CSR": (csr(x_indptr=None), "the key 'x_indptr' is missing"),
    "CSR out of range": (csr(x_indices=np.array([0, 1, 9])), "make no CSR matrix"),
    "CSR with negative shape": (csr(x_shape=np.array([5, -3])), "make no CSR matrix"),
    "CSR with three sizes": (csr(x_shape=np.array([5, 3, 1])), "make no CSR matrix"),
    "misspelt": (arrays(train_masks=np.ones(5)), "'train_masks' is unknown: did you mean 'train_"),
    "unknown": (arrays(colour=np.ones(5)), "the key 'colour' is unknown: the keys are x, "),
    "float labels": (arrays(y=np.ones(5)), "the key 'y' is float64: make it int64"),
    "text": (arrays(x=np.array([["a"]])), "the key 'x' is <U1: make it float32"),
    "complex": (arrays(x=np.ones((5, 2), complex)), "the key 'x' is complex128"),
    "mask of numbers": (arrays(train_mask=np.ones(5)), "'train_mask' is float64: make it bool"),
    "one mask": (arrays(train_mask=np.ones(5, bool)), "the key 'val_mask' is missing: give all"),
    "one-hot labels": (arrays(y=np.eye(5, 2, dtype=int)), r"the key 'y' has shape \(5, 2\)"),
    "half a boundary": (arrays(boundary_local=np.zeros(2, int)), "'boundary_owner' is missing"),
    "numbered owners": (arrays(boundary_owner=np.zeros(2, int)), "'boundary_owner' is int64"),
    "uneven boundary": (
        arrays(**BOUNDARY | {"boundary_degree": np.ones(3, int)}),
        "'boundary_degree' has shape",
    ),
    "too few labels": (arrays(y=np.zeros(4, int)), r"'y' has shape \(4,\), it must be \(5,\)"),
    "weights of other edges": (arrays(edge_weight=np.ones(3)), "'edge_weight' has shape"),
    "negative weights": (
        arrays(edge_index=np.array([[0, 1], [1, 0]]), edge_weight=np.array([-1.0, -1.0])),
        r"'edge_weight' has values that are no weights \(first at edge 0, 2 in all\)",
    ),
    "too large": (arrays(x=np.full((5, 1), 1e300)), "features are not finite"),
    "objects": (arrays(y=np.array([{}] * 5)), r"the key 'y' cannot be read \(Object arrays"),
}


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_content_is_named(tmp_path, content, message):
    path = written(tmp_path / "site-a.npz", content)
    for load in (load_graph, lambda path: load_graphs([path])):
        with pytest.raises(GraphError, match=message) as caught:
            load(path)
        assert "site-a" in str(caught.value)
        assert "\n" not in str(caught.value)


class Bomb:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def test_pickled_arrays_do_not_run(tmp_path):
    bomb = np.array([Bomb(tmp_path / "ran")] * 5, object)
    path = written(tmp_path / "a.npz", arrays(y=bomb))
    with pytest.raises(GraphError, match="the key 'y' cannot be read"):
        load_graph(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_truncated_files_are_refused(tmp_path, suffix, share):
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        save_graph(path, whole())
    else:
        torch.save(whole().to_pyg(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(GraphError, match=f"a{suffix}"):
        load_graph(path)


def test_changed_bytes_are_refused(tmp_path):
    path = written(tmp_path / "a.npz", arrays(x=np.ones((5, 100), np.float32)))
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(GraphError, match="the key 'x' cannot be read"):
        load_graph(path)


@pytest.mark.parametrize("content", [b"", b"hello", pickle.dumps([1]), b"PK\x03\x04" + bytes(40)])
@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_other_content_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=f"a{suffix}") as caught:
        load_graph(path)
    assert "\n" not in str(caught.value)


def test_a_single_array_is_refused(tmp_path):
    with (tmp_path / "a.npz").open("wb") as stream:
        np.save(stream, np.ones(3))
    with pytest.raises(GraphError, match="no whole"):
        load_graph(tmp_path / "a.npz")


def test_missing_files_and_other_kinds(tmp_path):
    with pytest.raises(GraphError, match=r"b\.npz: there is no such file"):
        load_graph(tmp_path / "b.npz")
    (tmp_path / "b.csv").touch()
    with pytest.raises(GraphError, match=r"graph files end in \.npz or \.pt"):
        load_graph(tmp_path / "b.csv")


@pytest.mark.parametrize("sparse", [False, True])
def test_pyg_round_trip(tmp_path, sparse):
    paths = []
    clients = partition(whole(sparse=sparse), 3)
    for client in clients:
        paths.append(tmp_path / f"{client.name}.pt")
        torch.save(client.to_pyg(), paths[-1])
    for one, other in zip(load_graphs(paths), clients, strict=True):
        assert_same(one, other)


def test_pyg_data_as_others_save_it(tmp_path):
    from torch_geometric.data import Data

    data = Data(
        x=torch.eye(5).to_sparse_csr(),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        y=torch.tensor([[0], [1], [2], [0], [1]]),
        edge_attr=torch.ones(2, 3),
        num_nodes=5,
        notes={"made": ["by", "hand"]},
    )
    torch.save(data, tmp_path / "a.pt")
    graph = load_graph(tmp_path / "a.pt")
    assert np.array_equal(to_dense(graph.x), np.eye(5))
    assert graph.y.tolist() == [0, 1, 2, 0, 1]
    assert graph.train_mask.sum() == 3


def test_a_dict_of_tensors(tmp_path):
    content = {key: torch.from_numpy(value) for key, value in arrays().items()}
    content |= {key: torch.tensor([1]) for key in ("boundary_local", "boundary_remote")}
    content |= {"boundary_owner": torch.tensor([0]), "boundary_degree": torch.tensor([3])}
    torch.save(content | {"classes": 4, "boundary_owners": ["b"]}, tmp_path / "a.pt")
    graph = load_graph(tmp_path / "a.pt")
    assert (graph.classes, graph.boundary.owners) == (4, ("b",))
    torch.save(content | {"boundary_owners": []}, tmp_path / "a.pt")
    with pytest.raises(GraphError, match="must number the names"):
        load_graph(tmp_path / "a.pt")
    torch.save(content | {"colour": 3}, tmp_path / "a.pt")
    with pytest.raises(GraphError, match="the key 'colour' is unknown"):
        load_graph(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "the file holds a list, not a PyG Data"),
        ({"x": torch.ones(2, 2).bfloat16()}, "the key 'x' is no plain tensor"),
        ({"x": {"a": 1}}, "the key 'x' is object"),
        ({"y": torch.ones(2, 2).to_sparse()}, "the key 'y' is float32"),
        ({"x": torch.ones(2, 2)}, "the key 'edge_index' is missing"),
    ],
)
def test_other_tensors_are_refused(tmp_path, content, message):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(GraphError, match=message):
        load_graph(tmp_path / "a.pt")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("hidden", [True, False])
def test_hostile_pt_does_not_run(tmp_path, hidden, zipped):
    bomb = Bomb(tmp_path / "ran")
    data = whole().to_pyg()
    data.extra = bomb
    torch.save(data if hidden else bomb, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(GraphError, match=r"a\.pt: the file asks for .*nothing else in it is run"):
        load_graph(tmp_path / "a.pt")
    assert not (tmp_path / "ran").exists()


def test_boundary_without_rows_is_left_out(tmp_path):
    save_graph(tmp_path / "a.npz", replace(whole(), boundary=Boundary.empty()))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert not [key for key in archive.files if key.startswith("boundary")]


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "graph-files.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, page.name, "exec"), {})
    bank, shop = load_graphs(["bank.npz", "shop.npz"])
    assert bank.boundary.owners[bank.boundary.owner[0]] == "shop"
    assert shop.degree[bank.boundary.remote].tolist() == bank.boundary.degree.tolist()
