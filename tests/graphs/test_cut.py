from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import Boundary, ClientGraph, to_dense
from autofgl.graphs.cut import cut, cut_overlapping, pool
from autofgl.graphs.validation import validate_clients, validate_graph


def graph_of(n: int, seed: int = 0, *, sparse: bool = False) -> ClientGraph:
    rng = np.random.default_rng(seed)
    low, high = np.nonzero(np.triu(rng.random((n, n)) < 0.3, 1))
    x = rng.integers(0, 2, (n, 5)).astype(np.float32)
    part = rng.integers(0, 4, n)
    return ClientGraph(
        name="whole",
        x=sp.csr_array(x) if sparse else x,
        edge_index=np.stack([np.append(low, high), np.append(high, low)]),
        y=rng.integers(0, 3, n),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
        classes=3,
        node_id=np.arange(n) + 100,
    )


def path(names: tuple[str, ...] = ("a", "b")) -> list[ClientGraph]:
    """0 – 1 – 2 – 3 with a self loop at 2, cut between 1 and 2."""
    edges = np.array([[0, 1, 1, 2, 2, 3, 2], [1, 0, 2, 1, 3, 2, 2]])
    whole = replace(graph_of(4), edge_index=edges)
    return cut(whole, np.array([0, 0, 1, 1]), names)


def assert_same_graph(one: ClientGraph, other: ClientGraph) -> None:
    """Equal but for the order of the edges and the name."""
    assert np.array_equal(to_dense(one.x), to_dense(other.x))
    for key in ("y", "train_mask", "val_mask", "test_mask", "node_id", "classes"):
        assert np.array_equal(getattr(one, key), getattr(other, key)), key
    assert sorted(one.edge_index.T.tolist()) == sorted(other.edge_index.T.tolist())


def test_boundary_by_hand():
    left, right = path()
    assert right.edge_index.tolist() == [[0, 1, 0], [1, 0, 0]]
    for client, local, owner, remote, degree in ((left, 1, 1, 0, 2), (right, 0, 0, 1, 2)):
        boundary = client.boundary
        assert boundary.owners == ("a", "b")
        assert [boundary.local, boundary.owner, boundary.remote, boundary.degree] == [
            [local],
            [owner],
            [remote],
            [degree],
        ]
    assert left.degree.tolist() == [1, 2]
    assert right.degree.tolist() == [2, 1]


def test_a_client_without_nodes_is_an_empty_graph():
    empty = cut(graph_of(6), np.zeros(6, np.int64), ["a", "b"])[1]
    assert (empty.num_nodes, empty.num_edges, len(empty.boundary)) == (0, 0, 0)
    assert empty.x.shape == (0, 5)
    assert empty.edge_index.shape == (2, 0)


def test_sparse_features_stay_sparse():
    whole = graph_of(20, sparse=True)
    clients = cut(whole, np.arange(20) % 3, list("abc"))
    assert all(isinstance(client.x, sp.csr_array) for client in clients)
    pooled = pool(clients)
    assert isinstance(pooled.x, sp.csr_array)
    assert_same_graph(pooled, whole)


@pytest.mark.slow
def test_many_clients():
    whole = graph_of(30)
    names = [f"c{index}" for index in range(70_000)]
    clients = cut(whole, np.arange(30) * 2_000, names)
    assert sum(client.num_nodes for client in clients) == 30
    assert clients[58_000].node_id.tolist() == [129]


@pytest.mark.parametrize("owner", [[0, 1, 2, 0], [0, -1, 0, 0], [0, 0, 0]])
def test_owners_must_fit(owner):
    with pytest.raises(GraphError, match="'owner'"):
        cut(graph_of(4), np.array(owner), ["a", "b"])


def test_a_part_cannot_be_cut_again():
    with pytest.raises(GraphError, match="a: a graph with a boundary"):
        cut(path()[0], np.array([0, 1]), ["c", "d"])


def test_overlapping_by_hand():
    """Path 0 – 1 – 2 – 3; a holds 0, 1; b holds 1, 2; nobody holds 3."""
    ends = np.array([[0, 1, 2], [1, 2, 3]])
    whole = replace(graph_of(4), edge_index=np.append(ends, ends[::-1], axis=1))
    member = np.array([[1, 1, 0, 0], [0, 1, 1, 0]], bool)
    a, b = cut_overlapping(whole, member, ["a", "b"])
    assert (a.node_id.tolist(), b.node_id.tolist()) == ([100, 101], [101, 102])
    assert (a.boundary.local.tolist(), a.boundary.remote.tolist()) == ([1], [1])
    assert a.boundary.degree.tolist() == [1], "the neighbour that nobody holds does not count"
    assert (b.boundary.local.tolist(), b.boundary.owner.tolist()) == ([0], [0])
    assert b.boundary.degree.tolist() == [1]


def test_overlapping_homes_are_spread_by_the_generator():
    rng = np.random.default_rng(0)
    whole = graph_of(60)
    member = rng.random((4, 60)) < 0.6
    first = cut_overlapping(whole, member, list("abcd"))
    drawn = cut_overlapping(whole, member, list("abcd"), rng)
    assert np.bincount(first[3].boundary.owner)[0] > np.bincount(drawn[3].boundary.owner)[0]
    for clients in (first, drawn):
        for client in clients:
            for owner, remote in zip(client.boundary.owner, client.boundary.remote, strict=True):
                assert clients[owner].node_id[remote] not in client.node_id


def test_overlapping_membership_must_fit():
    with pytest.raises(GraphError, match=r"clients × nodes, \(2, 4\)"):
        cut_overlapping(graph_of(4), np.ones((4, 2), bool), ["a", "b"])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_pooling_overlapping_clients_merges_the_copies(seed, sparse):
    whole = graph_of(25, seed, sparse=sparse)
    member = np.random.default_rng(seed).random((3, 25)) < 0.6
    member[0] |= ~member.any(axis=0)
    clients = cut_overlapping(whole, member, list("abc"), np.random.default_rng(seed))
    assert_same_graph(pool(clients), whole)


def numbered(clients: list[ClientGraph]) -> list[ClientGraph]:
    """Each client numbers its nodes for itself, as files without ``node_id`` do."""
    return [replace(client, node_id=np.arange(client.num_nodes)) for client in clients]


def test_pooling_files_that_number_nodes_for_themselves():
    whole = graph_of(21)
    clients = numbered(cut(whole, np.sort(np.arange(21) % 3), list("abc")))
    assert_same_graph(pool(clients), replace(whole, node_id=np.arange(21)))


def test_equal_features_do_not_make_nodes_the_same():
    plain = replace(graph_of(6), x=np.ones((6, 1), np.float32), y=np.zeros(6, np.int64))
    edges = np.array([[0, 1], [1, 0]])
    clients = [replace(plain, name="a"), replace(plain, name="b", edge_index=edges)]
    assert pool(numbered(clients)).num_nodes == 12


def test_a_boundary_to_an_own_id_means_that_ids_collide():
    plain = replace(graph_of(2), edge_index=np.zeros((2, 0), np.int64), y=np.zeros(2, np.int64))
    plain = replace(plain, x=np.ones((2, 1), np.float32))
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    a = replace(plain, name="a", boundary=Boundary(zero, zero, one, one, ("b",)))
    pooled = pool(numbered([a, replace(plain, name="b")]))
    assert pooled.edge_index.tolist() == [[0, 3], [3, 0]], "a one-sided boundary is mirrored"
    assert pooled.node_id.tolist() == [0, 1, 2, 3]


def test_dense_and_sparse_clients_pool():
    whole = graph_of(10)
    a, b = cut(whole, np.arange(10) % 2, ["a", "b"])
    assert_same_graph(pool([replace(a, x=sp.csr_array(a.x)), b]), whole)
    twice = pool([replace(whole, name="a", x=sp.csr_array(whole.x)), replace(whole, name="b")])
    assert_same_graph(twice, whole)


def test_a_node_is_never_in_two_masks():
    a, b = replace(graph_of(9), name="a"), replace(graph_of(9), name="b")
    none, every = np.zeros(9, np.bool_), np.ones(9, np.bool_)
    half = np.arange(9) < 4
    pooled = pool([a.with_masks(half, none, none), b.with_masks(none, none, every)])
    assert np.array_equal(pooled.train_mask, half)
    assert np.array_equal(pooled.test_mask, ~half)


def test_rows_to_absent_clients_are_dropped():
    left, _ = path()
    assert pool([left]).edge_index.tolist() == [[0, 1], [1, 0]]


def test_pooling_nothing():
    with pytest.raises(GraphError, match="no clients"):
        pool([])


def test_pooling_empty_clients():
    empty = cut(graph_of(4), np.zeros(4, np.int64), ["a", "b"])[1]
    assert pool([empty]).num_nodes == 0


def weighted(graph: ClientGraph, *, directed: bool) -> ClientGraph:
    """The graph with a weight that is known from an edge's ends, and maybe in one direction."""
    edges = graph.edge_index
    if directed:
        edges = edges[:, (edges[0] < edges[1]) | (edges.sum(0) % 3 == 0)]
    weight = (edges.min(0) * 100 + edges.max(0) + 1).astype(np.float32)
    return replace(graph, edge_index=edges, edge_weight=weight, directed=directed)


def by_ends(graph: ClientGraph) -> dict[tuple[int, int], float]:
    weight = graph.edge_weight
    assert weight is not None
    ends = graph.node_id[graph.edge_index].T.tolist()
    return {(u, v): float(w) for (u, v), w in zip(ends, weight, strict=True)}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("overlapping", [False, True])
def test_weights_and_directions_come_back(overlapping: bool, directed: bool) -> None:
    whole = weighted(graph_of(30), directed=directed)
    names = ["a", "b", "c"]
    if overlapping:
        member = np.random.default_rng(1).random((3, 30)) < 0.6
        member[0] |= ~member.any(axis=0)
        clients = cut_overlapping(whole, member, names)
    else:
        clients = cut(whole, np.arange(30) % 3, names)
    validate_clients(clients)
    assert all(client.directed == directed for client in clients)
    assert any(len(client.boundary) for client in clients)
    back = pool(clients)
    assert back.directed == directed
    assert by_ends(back) == by_ends(whole)
    validate_graph(back)


def test_a_one_sided_boundary_is_mirrored_with_its_weight() -> None:
    whole = weighted(graph_of(12), directed=False)
    left, right = cut(whole, np.arange(12) % 2, ["a", "b"])
    back = pool([left, replace(right, boundary=Boundary.empty())])
    assert by_ends(back) == by_ends(whole)


def test_edges_without_weights_weigh_one_among_others() -> None:
    left, right = cut(weighted(graph_of(12), directed=False), np.arange(12) % 2, ["a", "b"])
    back = by_ends(pool([left, replace(right, edge_weight=None)]))
    own = {(u, v) for u, v in right.node_id[right.edge_index].T.tolist()}
    assert own
    assert all(back[ends] == 1 for ends in own)
