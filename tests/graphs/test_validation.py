import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import Boundary, ClientGraph
from autofgl.graphs.validation import validate_clients, validate_graph


def client(name: str = "bank", other: str = "shop") -> ClientGraph:
    """Path 0 – 1 – 2 – 3; node 3 has no label and a neighbour elsewhere."""
    return ClientGraph(
        name=name,
        x=np.ones((4, 2), np.float32),
        edge_index=np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        y=np.array([0, 1, 2, -1]),
        train_mask=np.array([True, False, False, False]),
        val_mask=np.array([False, True, False, False]),
        test_mask=np.array([False, False, True, False]),
        classes=3,
        node_id=np.arange(4),
        boundary=Boundary(*(np.array([k]) for k in (3, 0, 2, 5)), owners=(other,)),
    )


def pair() -> list[ClientGraph]:
    return [client("bank", "shop"), client("shop", "bank")]


def masks(*rows: list[int]) -> dict[str, np.ndarray]:
    keys = ("train_mask", "val_mask", "test_mask")
    return dict(zip(keys, np.array(rows, np.bool_), strict=True))


def boundary(**changes: object) -> dict[str, Boundary]:
    return {"boundary": replace(client().boundary, **changes)}


def test_good_graphs_pass():
    validate_graph(client())
    validate_clients(pair())


def test_parallel_edges_and_self_loops_pass():
    edges = np.array([[0, 0, 1, 1, 2], [1, 1, 0, 0, 2]])
    validate_graph(replace(client(), edge_index=edges))


@pytest.mark.parametrize("sparse", [False, True])
def test_an_empty_client_is_valid(sparse):
    none = np.zeros(0, np.int64)
    x = np.zeros((0, 2), np.float32)
    empty = ClientGraph(
        name="empty",
        x=sp.csr_array(x) if sparse else x,
        edge_index=np.zeros((2, 0), np.int64),
        y=none,
        train_mask=none.astype(bool),
        val_mask=none.astype(bool),
        test_mask=none.astype(bool),
        classes=3,
        node_id=none,
    )
    validate_clients([*pair(), empty])


NAN = np.array([[1, 1], [1, np.nan], [1, 1], [np.inf, np.nan]], np.float32)
INF = np.array([[0, 1], [0, 0], [1, np.inf], [0, 0]], np.float32)
BAD_CSR = sp.csr_array(np.eye(4, 2, dtype=np.float32))
BAD_CSR.indices[1] = 7

PROBLEMS = {
    "features not finite": (
        {"x": NAN},
        "features are not finite (first at node 1, 2 in all)",
    ),
    "sparse features not finite": (
        {"x": sp.csr_array(INF)},
        "features are not finite (first at node 2, 1 in all)",
    ),
    "sparse features broken": ({"x": BAD_CSR}, "the CSR parts of 'x' do not fit"),
    "sparse features not CSR": (
        {"x": sp.coo_array(np.eye(4, 2, dtype=np.float32))},
        "sparse 'x' is coo, it must be CSR",
    ),
    "no features": ({"x": np.ones((4, 0), np.float32)}, "the nodes have no features"),
    "flat features": (
        {"x": np.ones(4, np.float32)},
        "'x' has shape (4,), it must be nodes × features",
    ),
    "features of another type": (
        {"x": np.ones((4, 2))},
        "'x' is float64, it must be float32: convert it with .astype('float32')",
    ),
    "edges of another shape": (
        {"edge_index": np.zeros((3, 2), np.int64)},
        "'edge_index' has shape (3, 2), it must be (2, 3)",
    ),
    "edges of another type": (
        {"edge_index": np.zeros((2, 3), np.int32)},
        "'edge_index' is int32, it must be int64",
    ),
    "too few labels": (
        {"y": np.zeros(3, np.int64)},
        "'y' has shape (3,), it must be (4,) for 4 nodes",
    ),
    "mask of numbers": (
        {"val_mask": np.zeros(4, np.int64)},
        "'val_mask' is int64, it must be bool",
    ),
    "too many ids": ({"node_id": np.arange(5)}, "'node_id' has shape (5,)"),
    "edges out of range": (
        {"edge_index": np.array([[0, 1, 4, 0], [1, 0, 0, -1]])},
        "edges are out of range (first at edge 2, 2 in all): use node indices 0..3",
    ),
    "edges in one direction": (
        {"edge_index": np.array([[0, 1, 1, 2], [1, 0, 2, 3]])},
        "edges lack their reverse (first at edge 2, 2 in all): list each edge once in both",
    ),
    "edges twice in one direction": (
        {"edge_index": np.array([[1, 0, 0], [0, 1, 1]])},
        "edges lack their reverse (first at edge 1, 2 in all)",
    ),
    "labels out of range": (
        {"y": np.array([0, 3, -2, 0])},
        "labels are out of range (first at node 1, 2 in all): use 0..2, or -1 where unknown",
    ),
    "no classes": ({"classes": 0}, "the number of classes is 0"),
    "training nodes without label": (
        masks([1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]),
        "nodes in train_mask have no label (first at node 3, 1 in all)",
    ),
    "test nodes without label": (
        masks([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]),
        "nodes in test_mask have no label (first at node 3, 1 in all)",
    ),
    "overlapping masks": (
        masks([1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]),
        "masks overlap (first at node 1, 2 in all)",
    ),
    "repeated ids": (
        {"node_id": np.array([5, 7, 5, 5])},
        "node ids repeat (first at node 2, 2 in all)",
    ),
    "boundary arrays of different length": (
        boundary(degree=np.array([1, 2])),
        "'boundary_degree' has shape (2,), it must be (1,)",
    ),
    "boundary node out of range": (
        boundary(local=np.array([4])),
        "boundary_local is out of range (first at row 0, 1 in all): use own node indices 0..3",
    ),
    "boundary owner out of range": (
        boundary(owner=np.array([1])),
        "boundary_owner is out of range (first at row 0, 1 in all)",
    ),
    "negative remote index": (
        boundary(remote=np.array([-1])),
        "boundary_remote is negative (first at row 0, 1 in all)",
    ),
    "boundary without degree": (
        boundary(degree=np.array([0])),
        "boundary_degree is below 1 (first at row 0, 1 in all)",
    ),
    "owner is the client itself": (
        boundary(owners=("bank",)),
        "the boundary names the client itself as owner (first at row 0, 1 in all)",
    ),
}


@pytest.mark.parametrize(("changes", "message"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_each_problem_of_a_graph_is_named(changes, message):
    with pytest.raises(GraphError, match=r"^bank: " + re.escape(message)):
        validate_graph(replace(client(), **changes))


def test_problems_of_one_client_are_found_among_many():
    bank, shop = pair()
    with pytest.raises(GraphError, match=r"^shop: labels are out of range"):
        validate_clients([bank, replace(shop, y=np.array([0, 1, 9, -1]))])


def test_no_clients():
    with pytest.raises(GraphError, match="there are no clients"):
        validate_clients([])


def test_names_must_differ():
    with pytest.raises(GraphError, match="two clients are called 'bank'"):
        validate_clients([client("bank", "shop"), client("shop", "bank"), client("bank", "shop")])


def test_feature_widths_must_agree():
    bank, shop = pair()
    message = "shop: nodes have 3 features, those of bank have 2: all clients need the same"
    with pytest.raises(GraphError, match=message):
        validate_clients([bank, replace(shop, x=np.ones((4, 3), np.float32))])


def test_class_counts_must_agree():
    bank, shop = pair()
    with pytest.raises(GraphError, match="shop: there are 4 classes, at bank 3"):
        validate_clients([bank, replace(shop, classes=4)])


def test_unknown_owner():
    message = r"bank: the boundary's owner 'shop' is no client \(first at row 0, 1 in all\)"
    with pytest.raises(GraphError, match=message):
        validate_clients([client("bank", "shop")])


def test_remote_index_beyond_the_owner():
    bank, shop = pair()
    bank = replace(bank, **boundary(remote=np.array([4])))
    message = r"bank: boundary_remote is out of range \(first at row 0, 1 in all\): 'shop' has 4"
    with pytest.raises(GraphError, match=message):
        validate_clients([bank, shop])


def test_somebody_must_train():
    without = [replace(one, train_mask=np.zeros(4, np.bool_)) for one in pair()]
    validate_clients([without[0], pair()[1]])
    with pytest.raises(GraphError, match="no client has a training node"):
        validate_clients(without)
