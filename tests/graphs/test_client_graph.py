from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.graphs.client_graph import (
    Boundary,
    ClientGraph,
    compact,
    sorted_unique,
    symmetric_edges,
    to_dense,
)
from autofgl.graphs.objects import as_graph


def client(seed: int = 0, nodes: int = 12, *, sparse: bool = False) -> ClientGraph:
    rng = np.random.default_rng(seed)
    low, high = np.nonzero(np.triu(rng.random((nodes, nodes)) < 0.3, 1))
    part = rng.integers(0, 4, nodes)
    b = int(rng.integers(0, 9))
    dense = rng.random((nodes, 10)).astype(np.float32)
    return ClientGraph(
        name="bank-a",
        x=compact(dense * (dense > 0.9) if sparse else dense + 1),
        edge_index=np.stack([np.append(low, high), np.append(high, low)]),
        y=rng.integers(-1, 3, nodes),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
        classes=5,
        node_id=rng.permutation(100)[:nodes],
        boundary=Boundary(
            local=rng.integers(0, nodes, b),
            owner=rng.integers(0, 2, b),
            remote=rng.integers(0, 50, b),
            degree=rng.integers(1, 9, b),
            owners=("bank-b", "bank-c"),
        ),
    )


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.booleans())
def test_pyg_round_trip_keeps_everything(seed: int, nodes: int, sparse: bool) -> None:
    graph = client(seed, nodes, sparse=sparse)
    masks = [
        getattr(graph, key) & (graph.y >= 0) for key in ("train_mask", "val_mask", "test_mask")
    ]
    graph = graph.with_masks(*masks)
    back = as_graph(graph.to_pyg())
    assert (back.name, back.classes) == (graph.name, graph.classes)
    np.testing.assert_array_equal(to_dense(back.x), to_dense(graph.x))
    for key in ("edge_index", "y", "train_mask", "val_mask", "test_mask", "node_id"):
        np.testing.assert_array_equal(getattr(back, key), getattr(graph, key), strict=True)
    for key in ("local", "remote", "degree"):
        kept = getattr(back.boundary, key)
        np.testing.assert_array_equal(kept, getattr(graph.boundary, key), strict=True)
    owners = [[each.boundary.owners[i] for i in each.boundary.owner] for each in (back, graph)]
    assert owners[0] == owners[1]


def test_pyg_data_has_its_own_memory() -> None:
    graph = client()
    data = graph.to_pyg()
    data.x.zero_()
    data.y.zero_()
    assert to_dense(graph.x).all()
    assert graph.y.any()


def test_compact_chooses_the_smaller_form() -> None:
    assert isinstance(compact(np.eye(10, dtype=np.float64)), sp.csr_array)
    assert isinstance(compact(np.ones((3, 3), np.float64)), np.ndarray)
    kept = compact(sp.csr_matrix(np.ones((3, 3))))
    assert isinstance(kept, sp.csr_array)
    assert kept.dtype == np.float32


def test_degree_counts_the_boundary() -> None:
    graph = client()
    inner = replace(graph, boundary=Boundary.empty()).degree
    assert inner.sum() == graph.num_edges
    assert (graph.degree - inner).sum() == len(graph.boundary)


def test_with_masks_leaves_the_original() -> None:
    graph = client()
    none = np.zeros(graph.num_nodes, np.bool_)
    other = graph.with_masks(~none, none, none)
    assert other.train_mask.all()
    assert not graph.train_mask.all()
    assert other.x is graph.x


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_symmetric_edges(pairs: list[tuple[int, int]]) -> None:
    ends = np.array(pairs, np.uint16).reshape(-1, 2)
    found = symmetric_edges(ends[:, 0], ends[:, 1], 10)
    both = {(a, b) for a, b in pairs if a != b} | {(b, a) for a, b in pairs if a != b}
    assert found.T.tolist() == [list(pair) for pair in sorted(both)]
    assert found.dtype == np.int64


@pytest.mark.parametrize("end", [-1, 10])
def test_edges_end_at_nodes(end: int) -> None:
    with pytest.raises(ValueError, match="outside the 10 nodes"):
        symmetric_edges([0, 1], [1, end], 10)


@given(st.lists(st.integers(-5, 5)))
def test_distinct(values: list[int]) -> None:
    assert sorted_unique(np.array(values, np.int64)).tolist() == sorted(set(values))
