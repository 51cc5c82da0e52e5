import numpy as np
import pytest
import scipy.sparse as sp
from torch import Tensor

import autofgl
from autofgl.graphs.client_graph import Boundary, ClientGraph, Ints
from autofgl.graphs.cut import pool
from autofgl.graphs.partition import PARTITIONERS
from autofgl.nn.neighbourhood import Neighbourhood
from autofgl.nn.structure import Structure


def client(edges: Ints, nodes: int, boundary: Boundary | None = None) -> ClientGraph:
    none, ids = np.zeros(nodes, np.bool_), np.arange(nodes)
    x = np.ones((nodes, 1), np.float32)
    return ClientGraph(
        "a", x, edges, ids, none, none, none, nodes, ids, boundary or Boundary.empty()
    )


def both(*pairs: tuple[int, int]) -> Ints:
    forth = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.concatenate([forth, forth[::-1]], axis=1)


def csr(matrix: Neighbourhood) -> sp.csr_array:
    shape = (matrix.own, matrix.own + matrix.external)
    return sp.csr_array((matrix.values, matrix.indices, matrix.indptr), shape=shape)


def test_by_hand() -> None:
    # A path 0 - 1 - u, and 0 - u as well; u is node 4 of client "c" and has degree 5 there.
    boundary = Boundary(
        local=np.array([1, 0]),
        owner=np.array([1, 1]),
        remote=np.array([4, 4]),
        degree=np.array([5, 5]),
        owners=("b", "c"),
    )
    found = Neighbourhood.from_client(client(both((0, 1)), 2, boundary))
    assert (found.own, found.external) == (2, 1)
    assert found.owners[found.owner[0]] == "c"
    assert found.remote.tolist() == [4]
    # Both own nodes have degree 2, plus the self loop 3; u has 6.
    inner, outer = 1 / 3, 1 / np.sqrt(18)
    expected = [[inner, inner, outer], [inner, inner, outer]]
    np.testing.assert_allclose(csr(found).toarray(), expected, rtol=1e-6)
    assert found.values.dtype == np.float32


def test_external_nodes_are_distinct_by_owner_and_index() -> None:
    boundary = Boundary(
        local=np.array([0, 1, 1, 0]),
        owner=np.array([1, 0, 1, 0]),
        remote=np.array([2, 2, 2, 0]),
        degree=np.array([3, 8, 3, 1]),
        owners=("b", "c"),
    )
    found = Neighbourhood.from_client(client(both(), 2, boundary))
    assert found.owner.tolist() == [0, 0, 1]
    assert found.remote.tolist() == [0, 2, 2]
    assert csr(found).toarray()[:, 2:].astype(bool).tolist() == [
        [True, False, True],
        [False, True, True],
    ]
    scale = np.array([3, 3, 2, 9, 4]) ** -0.5
    row = np.array([1, 0, 1, 0, 1]) * scale * scale[0]
    np.testing.assert_allclose(csr(found).toarray()[0], row, rtol=1e-6)


def test_an_uncut_graph_is_the_matrix_of_the_gcn(small_graph: ClientGraph) -> None:
    found = Neighbourhood.from_client(small_graph)
    operator = Structure.from_client(small_graph).gcn
    assert np.array_equal(found.indptr, operator.pattern.crow.numpy())
    assert np.array_equal(found.indices, operator.pattern.col.numpy())
    assert np.array_equal(found.values, operator.values.numpy())
    assert found.internal() is found


def test_repeated_edges_and_self_loops_count_as_in_the_gcn(graph: tuple[Tensor, int]) -> None:
    edge_index, nodes = graph
    found = Neighbourhood.from_client(client(edge_index.numpy(), nodes))
    expected = Structure(edge_index, nodes).gcn.to_dense().numpy()
    np.testing.assert_allclose(csr(found).toarray(), expected, rtol=1e-6)
    assert csr(found).has_canonical_format  # each entry once, sorted
    assert np.array_equal(found.indices[found.indptr[:-1] + found.loops], np.arange(nodes))


@pytest.mark.parametrize("method", PARTITIONERS)
def test_rows_of_the_clients_are_rows_of_the_pooled_graph(
    small_graph: ClientGraph, method: str
) -> None:
    clients = autofgl.partition(small_graph, clients=3, method=method, seed=2)
    assert sum(len(graph.boundary) for graph in clients) > 0
    pooled = pool(clients)
    whole = csr(Neighbourhood.from_client(pooled))
    names = [graph.name for graph in clients]
    for graph in clients:
        found = Neighbourhood.from_client(graph)
        owners = [clients[names.index(found.owners[owner])] for owner in found.owner]
        external = [o.node_id[remote] for o, remote in zip(owners, found.remote, strict=True)]
        ids = np.append(graph.node_id, np.array(external, np.int64))
        assert len(np.unique(ids)) == len(ids)
        own, columns = (np.searchsorted(pooled.node_id, i) for i in (graph.node_id, ids))
        rows = whole[own]
        assert rows.nnz == csr(found).nnz
        assert np.array_equal(rows[:, columns].toarray(), csr(found).toarray())


def test_internal_makes_up_for_external_columns(
    small_clients: list[ClientGraph],
) -> None:
    found = Neighbourhood.from_client(small_clients[0])
    inside = found.internal()
    assert inside.external == 0 < found.external
    assert inside.own == found.own
    whole = csr(found).toarray()
    left = whole[:, : found.own]
    scale = (whole != 0).sum(1) / (left != 0).sum(1)  # |V(v)| / |N(v)| of Eq. 7
    assert scale.max() > 1
    np.testing.assert_allclose(csr(inside).toarray(), left * scale[:, None], rtol=1e-6)
    assert len(inside.values) == small_clients[0].num_edges + found.own


def test_importance_adds_up_the_squares_of_columns(small_clients: list[ClientGraph]) -> None:
    found = Neighbourhood.from_client(small_clients[0])
    squares = csr(found).toarray().astype(np.float64) ** 2
    share = np.diff(found.importance, prepend=0.0)
    np.testing.assert_allclose(share, squares.sum(0) / squares.sum(), rtol=1e-9)
    assert found.importance[-1] == 1.0


@pytest.mark.parametrize("nodes", [0, 3])
def test_without_edges(nodes: int) -> None:
    found = Neighbourhood.from_client(client(both(), nodes))
    assert np.array_equal(csr(found).toarray(), np.eye(nodes))
    assert found.internal().own == nodes
    assert len(found.importance) == nodes
