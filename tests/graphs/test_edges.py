"""Edges are kept, or made undirected, and what is odd about them is counted."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.errors import GraphNotice
from autofgl.graphs.client_graph import Floats, Ints
from autofgl.graphs.edges import (
    EdgeCounts,
    settle_edges,
    tell_about_edges,
    undirected,
    without_reverse,
)

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=30)


def matrix(edges: Ints, weight: Floats | None) -> np.ndarray:
    dense = np.zeros((7, 7))
    np.add.at(dense, tuple(edges), 1.0 if weight is None else weight)
    return dense


def weights_of(edges: Ints) -> Floats:
    return np.random.default_rng(0).integers(1, 9, edges.shape[1]).astype(np.float32)


@given(PAIRS, st.booleans())
def test_undirected_edges_are_the_larger_of_two_directions(
    pairs: list[tuple[int, int]], weighted: bool
) -> None:
    edges = np.array(pairs).T
    weight = weights_of(edges) if weighted else None
    before = matrix(edges, weight)
    got, got_weight = undirected(edges, weight, 7)
    expected = np.maximum(before, before.T)
    expected = expected if weighted else (expected > 0).astype(float)
    np.testing.assert_array_equal(matrix(got, got_weight), expected)
    keys = got[0] * 7 + got[1]
    assert (np.diff(keys) > 0).all()  # each once, sorted
    assert not without_reverse(got, got_weight, 7).any()


@given(PAIRS, st.booleans())
def test_one_way_edges_are_found(pairs: list[tuple[int, int]], weighted: bool) -> None:
    edges = np.array(pairs).T
    weight = weights_of(edges) if weighted else None
    dense = matrix(edges, weight)
    bad = dense != dense.T if weighted else dense > dense.T
    np.testing.assert_array_equal(without_reverse(edges, weight, 7), bad[tuple(edges)])


def test_edges_in_both_directions_stay_as_they_are() -> None:
    edges = np.array([[2, 0, 1, 1, 0, 0, 1], [2, 1, 0, 2, 1, 0, 0]])
    edges = np.concatenate([edges, [[2], [1]]], axis=1)
    got, weight, counts = settle_edges(edges, None, 3, directed=False)
    assert got is edges
    assert weight is None
    assert counts == EdgeCounts(edges=8, loops=2, repeated=2)


def test_one_weight_that_differs_makes_all_undirected() -> None:
    edges, weight = np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), np.array([1, 1, 2, 3], np.float32)
    got, got_weight, counts = settle_edges(edges, weight, 3, directed=False)
    assert got.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert got_weight is not None
    assert got_weight.tolist() == [1, 1, 3, 3]
    assert counts == EdgeCounts(edges=4, one_way=2, undirected=True)


def test_directed_edges_stay_as_they_are() -> None:
    edges = np.array([[0, 1, 1], [1, 2, 2]])
    got, _, counts = settle_edges(edges, None, 3, directed=True)
    assert got is edges
    assert counts == EdgeCounts(edges=3, repeated=1)


@pytest.mark.parametrize(
    "edges", [np.zeros((2, 0), np.int64), np.array([[0], [9]]), np.array([0, 1])]
)
def test_what_is_malformed_is_left_to_validation(edges: Ints) -> None:
    assert settle_edges(edges, None, 3, directed=False) == (edges, None, EdgeCounts())


def test_a_notice_counts_over_all_clients() -> None:
    counts = {f"bank-{i}": EdgeCounts(10, 3, True, 1, 1) for i in range(5)}
    with pytest.warns(GraphNotice) as caught:
        tell_about_edges({**counts, "shop": EdgeCounts(8, loops=2, repeated=1)})
    assert [str(one.message) for one in caught] == [
        "bank-0, bank-1, bank-2 and 2 more: 15 of 50 edges have no equal reverse: all are taken as "
        "undirected and listed once in each direction; directed=true keeps their direction",
        "shop: 2 self-loops and 1 repeated edges are kept, and count as often as they are listed",
    ]


def test_there_is_nothing_to_tell_about_a_simple_graph() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell_about_edges({"bank": EdgeCounts(edges=10)})
