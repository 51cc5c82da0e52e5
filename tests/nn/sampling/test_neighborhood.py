from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from torch import Tensor

import autofgl
from autofgl.errors import GraphError
from autofgl.graphs.catalog import PARTITIONERS
from autofgl.graphs.client_graph import Boundary, ClientGraph, Ints
from autofgl.graphs.cut import pool
from autofgl.nn.sampling.neighborhood import Neighborhood
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


def csr(matrix: Neighborhood) -> sp.csr_array:
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
    matrix = Neighborhood.from_client(client(both((0, 1)), 2, boundary))
    assert (matrix.own, matrix.external) == (2, 1)
    assert matrix.owners[matrix.owner[0]] == "c"
    assert matrix.remote.tolist() == [4]
    # Both own nodes have degree 2, plus the self loop 3; u has 6.
    inner, outer = 1 / 3, 1 / np.sqrt(18)
    expected = [[inner, inner, outer], [inner, inner, outer]]
    np.testing.assert_allclose(csr(matrix).toarray(), expected, rtol=1e-6)
    assert matrix.values.dtype == np.float32


def test_external_nodes_are_distinct_by_owner_and_index() -> None:
    boundary = Boundary(
        local=np.array([0, 1, 1, 0]),
        owner=np.array([1, 0, 1, 0]),
        remote=np.array([2, 2, 2, 0]),
        degree=np.array([3, 8, 3, 1]),
        owners=("b", "c"),
    )
    matrix = Neighborhood.from_client(client(both(), 2, boundary))
    assert matrix.owner.tolist() == [0, 0, 1]
    assert matrix.remote.tolist() == [0, 2, 2]
    assert csr(matrix).toarray()[:, 2:].astype(bool).tolist() == [
        [True, False, True],
        [False, True, True],
    ]
    scale = np.array([3, 3, 2, 9, 4]) ** -0.5
    row = np.array([1, 0, 1, 0, 1]) * scale * scale[0]
    np.testing.assert_allclose(csr(matrix).toarray()[0], row, rtol=1e-6)


def test_an_uncut_graph_is_the_matrix_of_the_gcn(small_graph: ClientGraph) -> None:
    matrix = Neighborhood.from_client(small_graph)
    operator = Structure.from_client(small_graph).gcn
    assert np.array_equal(matrix.indptr, operator.pattern.crow.numpy())
    assert np.array_equal(matrix.indices, operator.pattern.col.numpy())
    assert np.array_equal(matrix.values, operator.values.numpy())
    assert matrix.internal() is matrix


def test_repeated_edges_and_self_loops_count_as_in_the_gcn(graph: tuple[Tensor, int]) -> None:
    edge_index, nodes = graph
    matrix = Neighborhood.from_client(client(edge_index.numpy(), nodes))
    expected = Structure(edge_index, nodes).gcn.to_dense().numpy()
    np.testing.assert_allclose(csr(matrix).toarray(), expected, rtol=1e-6)
    assert csr(matrix).has_canonical_format  # each entry once, sorted
    assert np.array_equal(matrix.indices[matrix.indptr[:-1] + matrix.loops], np.arange(nodes))


def test_weights_count_as_in_the_gcn(graph: tuple[Tensor, int]) -> None:
    edge_index, nodes = graph
    weight = np.random.default_rng(0).random(edge_index.shape[1], np.float32)
    given = replace(client(edge_index.numpy(), nodes), edge_weight=weight)
    expected = Structure.from_client(given).gcn.to_dense().numpy()
    np.testing.assert_allclose(csr(Neighborhood.from_client(given)).toarray(), expected, rtol=1e-5)


def test_weights_are_refused_where_edges_cross(small_clients: list[ClientGraph]) -> None:
    graph = small_clients[0]
    weighted = replace(graph, edge_weight=np.ones(graph.num_edges, np.float32))
    with pytest.raises(GraphError, match="client-0: edges have weights, and a convolution across"):
        Neighborhood.from_client(weighted)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("method", PARTITIONERS)
def test_rows_of_the_clients_are_rows_of_the_pooled_graph(
    small_graph: ClientGraph, method: str, directed: bool
) -> None:
    if directed:
        edges = small_graph.edge_index[:, small_graph.edge_index[0] < small_graph.edge_index[1]]
        small_graph = replace(small_graph, edge_index=edges, directed=True)
    clients = autofgl.partition(small_graph, clients=3, method=method, seed=2)
    assert sum(len(graph.boundary) for graph in clients) > 0
    pooled = pool(clients)
    whole = csr(Neighborhood.from_client(pooled))
    names = [graph.name for graph in clients]
    for graph in clients:
        matrix = Neighborhood.from_client(graph)
        owners = [clients[names.index(matrix.owners[owner])] for owner in matrix.owner]
        external = [o.node_id[remote] for o, remote in zip(owners, matrix.remote, strict=True)]
        ids = np.append(graph.node_id, np.array(external, np.int64))
        assert len(np.unique(ids)) == len(ids)
        own, columns = (np.searchsorted(pooled.node_id, i) for i in (graph.node_id, ids))
        rows = whole[own]
        assert rows.nnz == csr(matrix).nnz
        assert np.array_equal(rows[:, columns].toarray(), csr(matrix).toarray())


def test_internal_makes_up_for_external_columns(
    small_clients: list[ClientGraph],
) -> None:
    matrix = Neighborhood.from_client(small_clients[0])
    inside = matrix.internal()
    assert inside.external == 0 < matrix.external
    assert inside.own == matrix.own
    whole = csr(matrix).toarray()
    left = whole[:, : matrix.own]
    scale = (whole != 0).sum(1) / (left != 0).sum(1)  # |V(v)| / |N(v)| of Eq. 7
    assert scale.max() > 1
    np.testing.assert_allclose(csr(inside).toarray(), left * scale[:, None], rtol=1e-6)
    assert len(inside.values) == small_clients[0].num_edges + matrix.own


def test_importance_adds_up_the_squares_of_columns(small_clients: list[ClientGraph]) -> None:
    matrix = Neighborhood.from_client(small_clients[0])
    squares = csr(matrix).toarray().astype(np.float64) ** 2
    share = np.diff(matrix.importance, prepend=0.0)
    np.testing.assert_allclose(share, squares.sum(0) / squares.sum(), rtol=1e-9)
    assert matrix.importance[-1] == 1.0


@pytest.mark.parametrize("nodes", [0, 3])
def test_without_edges(nodes: int) -> None:
    matrix = Neighborhood.from_client(client(both(), nodes))
    assert np.array_equal(csr(matrix).toarray(), np.eye(nodes))
    assert matrix.internal().own == nodes
    assert len(matrix.importance) == nodes
