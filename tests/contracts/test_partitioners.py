"""What every partitioner must keep, whatever the graph and the number of clients."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.graphs.catalog import PARTITIONERS
from autofgl.graphs.client_graph import ClientGraph, summarize_clients
from autofgl.graphs.cut import pool
from autofgl.graphs.partition import partition
from autofgl.graphs.validation import validate_clients, validate_graph

DISJOINT = [name for name, entry in PARTITIONERS.items() if not entry.overlapping]


@dataclass(frozen=True)
class Case:
    graph: ClientGraph
    clients: int
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A small graph, with isolated nodes, self loops and parallel edges, and 1..n clients."""
    n = draw(st.integers(1, 24))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=3 * n))
    graph = graph_of(n, edges, draw(st.integers(0, 2**32)))
    return Case(graph, draw(st.integers(1, n)), draw(st.integers(0, 2**32)))


def graph_of(n: int, edges: list[tuple[int, int]], seed: int) -> ClientGraph:
    rng = np.random.default_rng(seed)
    ends = np.array(edges, np.int64).reshape(-1, 2).T
    loops = ends[:, ends[0] == ends[1]]
    ends = ends[:, ends[0] != ends[1]]
    y = rng.integers(-1, 3, n)
    y[0] = 0
    part = np.where(y >= 0, rng.integers(0, 4, n), 3)
    part[0] = 0
    return ClientGraph(
        name="small",
        x=rng.random((n, 2), np.float32),
        edge_index=np.concatenate([ends, ends[::-1], loops], axis=1),
        y=y,
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
        classes=3,
        node_id=rng.permutation(10 * n)[:n],
    )


def parts(method: str, case: Case) -> list[ClientGraph]:
    clients = case.clients
    if method in ("labels", "labels-asfgnn", "labels-degree"):
        clients = min(clients, len(np.unique(case.graph.y[case.graph.y >= 0])))
    return partition(case.graph, clients, method, case.seed)


def edge_multiset(graph: ClientGraph) -> Counter[tuple[int, int]]:
    return Counter(map(tuple, graph.node_id[graph.edge_index].T.tolist()))


def boundary_rows(clients: list[ClientGraph]) -> list[tuple[int, int, int, int]]:
    """(client, own node, owner, node there) of each row."""
    index = {client.name: number for number, client in enumerate(clients)}
    return [
        (number, local, index[client.boundary.owners[owner]], remote)
        for number, client in enumerate(clients)
        for local, owner, remote in zip(
            client.boundary.local.tolist(),
            client.boundary.owner.tolist(),
            client.boundary.remote.tolist(),
            strict=True,
        )
    ]


def contract(test):
    return settings(max_examples=20, deadline=None)(given(case=cases())(test))


@pytest.mark.parametrize("method", PARTITIONERS)
class TestEveryPartitioner:
    @contract
    def test_clients_are_valid(self, method, case):
        clients = parts(method, case)
        for client in clients:
            validate_graph(client)
        if any(client.train_mask.any() for client in clients):  # else nobody drew one (overlap)
            validate_clients(clients)
        assert len({client.name for client in clients}) == len(clients)
        assert all(client.classes == case.graph.classes for client in clients)

    @contract
    def test_nodes_keep_what_belongs_to_them(self, method, case):
        place = {node: index for index, node in enumerate(case.graph.node_id.tolist())}
        for client in parts(method, case):
            nodes = [place[node] for node in client.node_id.tolist()]
            for key in ("x", "y", "train_mask", "val_mask", "test_mask"):
                assert np.array_equal(getattr(client, key), getattr(case.graph, key)[nodes])

    @contract
    def test_internal_edges_are_those_between_own_nodes(self, method, case):
        whole = edge_multiset(case.graph)
        for client in parts(method, case):
            own = set(client.node_id.tolist())
            expected = {edge: k for edge, k in whole.items() if own.issuperset(edge)}
            assert edge_multiset(client) == expected

    @contract
    def test_degrees_agree_between_clients(self, method, case):
        clients = parts(method, case)
        names = [client.name for client in clients]
        for client in clients:
            boundary = client.boundary
            for owner, remote, degree in zip(
                boundary.owner, boundary.remote, boundary.degree, strict=True
            ):
                holder = clients[names.index(boundary.owners[owner])]
                assert holder.name != client.name
                assert holder.degree[remote] == degree

    @contract
    def test_boundaries_lead_to_nodes_the_client_lacks(self, method, case):
        clients = parts(method, case)
        whole = edge_multiset(case.graph)
        for number, local, owner, remote in boundary_rows(clients):
            ours = int(clients[number].node_id[local])
            theirs = int(clients[owner].node_id[remote])
            assert theirs not in clients[number].node_id
            assert (ours, theirs) in whole

    @contract
    def test_the_same_seed_gives_the_same_clients(self, method, case):
        first, second = parts(method, case), parts(method, case)
        for one, other in zip(first, second, strict=True):
            assert np.array_equal(one.node_id, other.node_id)
            assert np.array_equal(one.edge_index, other.edge_index)
            assert np.array_equal(one.boundary.owner, other.boundary.owner)
            assert np.array_equal(one.boundary.remote, other.boundary.remote)

    def test_another_seed_gives_another_partition(self, method):
        graph = graph_of(60, [(i, (i + 1) % 60) for i in range(60)], 0)
        owners = {
            tuple(map(tuple, (c.node_id.tolist() for c in partition(graph, 3, method, seed))))
            for seed in range(8)
        }
        assert len(owners) > 1

    @pytest.mark.parametrize("clients", [1, 2, 5, 12])
    def test_graphs_without_edges(self, method, clients):
        case = Case(graph_of(12, [], 0), clients, 0)
        for client in parts(method, case):
            assert client.num_edges == 0
            assert len(client.boundary) == 0


@pytest.mark.parametrize("method", DISJOINT)
class TestDisjointPartitioners:
    @contract
    def test_each_node_has_one_client(self, method, case):
        ids = np.concatenate([client.node_id for client in parts(method, case)])
        assert sorted(ids) == sorted(case.graph.node_id)

    @contract
    def test_boundaries_mirror_each_other(self, method, case):
        rows = boundary_rows(parts(method, case))
        assert Counter(rows) == Counter((o, r, n, u) for n, u, o, r in rows)

    @contract
    def test_edges_are_conserved_and_degrees_right(self, method, case):
        clients = parts(method, case)
        assert case.graph.num_edges == sum(c.num_edges + len(c.boundary) for c in clients)
        degree = dict(zip(case.graph.node_id.tolist(), case.graph.degree.tolist(), strict=True))
        for client in clients:
            assert client.degree.tolist() == [degree[node] for node in client.node_id.tolist()]

    @contract
    def test_pooling_restores_the_graph(self, method, case):
        pooled = pool(parts(method, case))
        order = np.argsort(case.graph.node_id)
        assert edge_multiset(pooled) == edge_multiset(case.graph)
        for key in ("node_id", "x", "y", "train_mask", "val_mask", "test_mask"):
            assert np.array_equal(getattr(pooled, key), getattr(case.graph, key)[order])


@pytest.mark.parametrize("method", ["metis", "louvain", "random"])
class TestBalancedPartitioners:
    @contract
    def test_nobody_stays_empty(self, method, case):
        assert all(client.num_nodes for client in parts(method, case))

    def test_sizes_are_nearly_equal(self, method):
        rng = np.random.default_rng(0)
        graph = graph_of(600, rng.integers(0, 600, (2400, 2)).tolist(), 0)
        sizes = [client.nodes for client in summarize_clients(partition(graph, 6, method)).clients]
        assert max(sizes) <= 1.3 * min(sizes)
