from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from autofgl.errors import GraphError, UserError
from autofgl.graphs.catalog import SPLITS, DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.datasets import by_fraction, per_class, public, split_nodes, supervised


def graph_of(y: list[int]) -> ClientGraph:
    n = len(y)
    labels = np.array(y, np.int64).reshape(n)
    none = np.zeros(n, np.bool_)
    return ClientGraph(
        name="g",
        x=sp.csr_array((n, 3), dtype=np.float32),
        edge_index=np.zeros((2, 0), np.int64),
        y=labels,
        train_mask=none,
        val_mask=none.copy(),
        test_mask=none.copy(),
        classes=int(labels.max(initial=-1)) + 1,
        node_id=np.arange(n),
    )


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def masks(graph: ClientGraph) -> np.ndarray:
    return np.stack([graph.train_mask, graph.val_mask, graph.test_mask])


def sizes(graph: ClientGraph) -> list[int]:
    return masks(graph).sum(1).tolist()


def assert_sound(graph: ClientGraph) -> None:
    assert masks(graph).sum(0).max(initial=0) <= 1
    assert not (masks(graph) & (graph.y < 0)).any()


LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=80).filter(lambda y: max(y) >= 0)


def test_per_class_sizes_on_a_large_graph() -> None:
    graph = per_class(graph_of(list(range(5)) * 100), rng(), train=20, val=150, test=200)
    assert sizes(graph) == [100, 150, 200]
    assert np.bincount(graph.y[graph.train_mask]).tolist() == [20] * 5


@given(LABELS, st.integers(1, 30), st.integers(0, 60), st.integers(0, 60), st.integers(0, 99))
def test_per_class_properties(y: list[int], train: int, val: int, test: int, seed: int) -> None:
    graph = per_class(graph_of(y), rng(seed), train, val, test)
    assert_sound(graph)
    count = np.bincount(graph.y[graph.y >= 0])
    taken = np.bincount(graph.y[graph.train_mask], minlength=len(count))
    assert taken.tolist() == np.minimum(train, (count + 1) // 2).tolist()
    left = int(count.sum() - taken.sum())
    assert sum(sizes(graph)[1:]) == min(val + test, left)
    if val + test > left >= 2 and val and test:
        assert abs(sizes(graph)[1] - left * val / (val + test)) <= 1
        assert min(sizes(graph)[1:]) >= 1


@given(LABELS, st.floats(0, 0.49), st.floats(0, 0.49), st.integers(0, 99))
def test_fraction_properties(y: list[int], val: float, test: float, seed: int) -> None:
    graph = by_fraction(graph_of(y), rng(seed), None, val, test)
    assert_sound(graph)
    labelled = sum(label >= 0 for label in y)
    exact = np.array([1 - val - test, val, test]) * labelled
    assert np.abs(np.array(sizes(graph)) - exact).max() <= 1 + 1e-9
    assert sum(sizes(graph)) == labelled
    assert graph.train_mask.any()


def test_fraction_may_leave_nodes_out() -> None:
    assert sizes(by_fraction(graph_of([0, 1] * 50), rng(), 0.1, 0.2, 0.3)) == [10, 20, 30]


@given(LABELS)
def test_supervised_trains_on_all_the_rest(y: list[int]) -> None:
    before = per_class(graph_of(y), rng(), 2, 5, 5)
    after = supervised(before)
    assert_sound(after)
    assert (after.val_mask == before.val_mask).all()
    assert (after.test_mask == before.test_mask).all()
    assert (masks(after).any(0) == (after.y >= 0)).all()


def test_unlabelled_nodes_leave_given_masks() -> None:
    graph = graph_of([0, -1, 1, -1, 0, -1])
    pair = np.arange(6) // 2
    given_masks = graph.with_masks(pair == 0, pair == 1, pair == 2)
    assert sizes(public(given_masks)) == [1, 1, 1]
    assert sizes(supervised(given_masks)) == [1, 1, 1]


@pytest.mark.parametrize("kind", SPLITS)
def test_every_kind_is_seeded(kind: str) -> None:
    start = per_class(graph_of([0, 1, 2, -1] * 50), rng(5), 5, 20, 20)
    first, again, other = (
        split_nodes(start, kind, rng(seed), DataSettings()) for seed in (1, 1, 2)
    )
    assert (masks(first) == masks(again)).all()
    if kind in ("public", "supervised"):
        assert (masks(first) == masks(other)).all()
    else:
        assert (masks(first) != masks(other)).any()


def test_split_passes_the_sizes_on() -> None:
    graph = graph_of([0, 1] * 100)
    sized = {"train_per_class": 3, "val_nodes": 7, "test_nodes": 11}
    assert sizes(split_nodes(graph, "per-class", rng(), DataSettings(**sized))) == [6, 7, 11]
    assert sizes(split_nodes(graph, "supervised", rng(), DataSettings(**sized))) == [182, 7, 11]
    shares = {"train_fraction": 0.1, "val_fraction": 0.05, "test_fraction": 0.5}
    assert sizes(split_nodes(graph, "fraction", rng(), DataSettings(**shares))) == [20, 10, 100]


def test_small_graphs_shrink_step_by_step() -> None:
    totals = [sum(sizes(per_class(graph_of([0] * n), rng()))) for n in range(1, 60)]
    assert all(before < after for before, after in pairwise(totals))


def test_mistakes_are_named() -> None:
    graph = graph_of([0, 1, 2])
    with pytest.raises(UserError, match=r"unknown split 'per_class': did you mean per-class"):
        split_nodes(graph, "per_class", rng(), DataSettings())
    with pytest.raises(GraphError, match="g: has no split of its own; choose from per-class"):
        split_nodes(graph, "public", rng(), DataSettings())
    for kind in ("per-class", "fraction", "supervised"):
        with pytest.raises(GraphError, match="g: no node has a label"):
            split_nodes(graph_of([-1, -1]), kind, rng(), DataSettings())
    with pytest.raises(UserError, match="not 0 / 1 / 1"):
        per_class(graph, rng(), 0, 1, 1)
    for shares in ((None, 0.5, 0.5), (0.9, 0.2, 0.2), (None, -0.1, 0.2), (0.0, 0.1, 0.1)):
        with pytest.raises(UserError, match="fractions of a split"):
            by_fraction(graph, rng(), *shares)
