"""Objects of other libraries become the graphs that files with the same content give."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

import autofgl
from autofgl.errors import GraphError, GraphNotice
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.graphs.objects import as_clients, as_graph

EDGES = torch.tensor([[0, 1, 1, 2, 3, 2], [1, 0, 2, 1, 2, 3]])
WEIGHTS = torch.tensor([0.5, 0.5, 2.0, 2.0, 1.0, 1.0])


def data(**more: Any) -> Data:
    x = torch.arange(8.0).reshape(4, 2) + 1
    return Data(**{"x": x, "edge_index": EDGES, "y": torch.tensor([0, 1, 2, -1]), **more})


def networkx_graph(kind: type[nx.Graph] = nx.Graph) -> nx.Graph:
    """The same graph, its nodes called by letters."""
    graph, given = kind(), data()
    for index, node in enumerate("abcd"):
        graph.add_node(node, x=given.x[index].tolist())
    for index, node in enumerate("abc"):
        graph.nodes[node]["y"] = index
    for start, end, weight in zip(*EDGES.tolist(), WEIGHTS.tolist(), strict=True):
        if kind is nx.DiGraph or start < end:
            graph.add_edge("abcd"[start], "abcd"[end], weight=weight)
    return graph


def same(one: ClientGraph, other: ClientGraph) -> None:
    np.testing.assert_array_equal(to_dense(one.x), to_dense(other.x))
    order = [np.lexsort(graph.edge_index) for graph in (one, other)]
    for key in ("y", "train_mask", "val_mask", "test_mask", "node_id"):
        np.testing.assert_array_equal(getattr(one, key), getattr(other, key), strict=True)
    for key in ("edge_index", "edge_weight"):
        first, second = getattr(one, key), getattr(other, key)
        assert (first is None) == (second is None)
        if first is not None:
            np.testing.assert_array_equal(first[..., order[0]], second[..., order[1]], strict=True)
    assert (one.classes, one.directed) == (other.classes, other.directed)


def test_all_kinds_give_what_a_file_gives(tmp_path: Path) -> None:
    given = data()
    arrays = {key: given[key].numpy() for key in ("x", "edge_index", "y")}
    np.savez(tmp_path / "bank.npz", **arrays)
    expected = autofgl.load_graph(tmp_path / "bank.npz", seed=3)
    assert expected.train_mask.any()
    triple = (given.x, given.edge_index, given.y)
    plain = tuple(part.numpy() for part in triple)
    sparse = (sp.csr_array(plain[0]), EDGES.tolist(), plain[2].tolist())
    for one in (given, triple, plain, sparse, tmp_path / "bank.npz"):
        graph = as_graph(one, "bank", seed=3)
        same(graph, expected)
        assert graph.name == "bank"
    assert as_graph(given, "bank", seed=3).fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_networkx_is_read_with_weights(kind: type[nx.Graph]) -> None:
    expected = as_graph(data(edge_weight=WEIGHTS), "bank")
    same(as_graph(networkx_graph(kind), "bank"), expected)


def test_networkx_ids_masks_and_classes() -> None:
    graph = nx.Graph([(7, 9), (9, 9)], classes=4)
    nx.set_node_attributes(graph, {7: [1.0], 9: np.array([2.0])}, "x")
    nx.set_node_attributes(graph, {7: 1, 9: 0}, "y")
    nx.set_node_attributes(graph, {7: True}, "train_mask")
    nx.set_node_attributes(graph, {9: True}, "val_mask")
    graph.nodes[7]["test_mask"] = False
    with pytest.warns(GraphNotice, match="graph: 1 self-loops and 0 repeated edges are kept"):
        got = as_graph(graph)
    assert got.node_id.tolist() == [7, 9]
    assert got.edge_index.tolist() == [[0, 1, 1], [1, 1, 0]]
    assert (got.classes, got.edge_weight) == (4, None)
    assert got.train_mask.tolist() == [True, False]
    assert got.val_mask.tolist() == [False, True]


def test_parallel_edges_of_networkx_are_kept() -> None:
    graph = nx.MultiGraph([(0, 1), (0, 1)])
    nx.set_node_attributes(graph, [1.0], "x")
    nx.set_node_attributes(graph, 0, "y")
    with pytest.warns(GraphNotice, match="2 repeated edges"):
        assert as_graph(graph).num_edges == 4


def test_weights_missing_in_networkx_are_one() -> None:
    graph = networkx_graph()
    del graph.edges["a", "b"]["weight"]
    weight = as_graph(graph).edge_weight
    assert weight is not None
    assert sorted(weight.tolist()) == [1, 1, 1, 1, 2, 2]


def test_directed_input_is_made_undirected_with_a_notice_or_kept() -> None:
    one_way = data(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([2.0, 3.0]))
    with pytest.warns(GraphNotice, match="graph: 2 of 2 edges have no equal reverse"):
        graph = as_graph(one_way)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2, 2, 3, 3]
    kept = as_graph(one_way, directed=True)
    assert kept.directed
    assert kept.edge_index.tolist() == [[0, 1], [1, 2]]
    assert kept.degree.tolist() == [0, 1, 1, 0]


def test_masks_are_taken_and_missing_ones_drawn_by_seed_and_name() -> None:
    masks = {
        f"{name}_mask": torch.arange(4) == i for i, name in enumerate(("train", "val", "test"))
    }
    assert as_graph(data(**masks)).test_mask.tolist() == [False, False, True, False]
    drawn = [as_graph(data(), name, seed=seed).train_mask for name in "abcdef" for seed in (0, 1)]
    assert all(mask.any() for mask in drawn)
    assert len({mask.tobytes() for mask in drawn}) > 1
    assert np.array_equal(as_graph(data(), "a").train_mask, drawn[0])


def test_labels_may_be_missing_or_a_column() -> None:
    assert as_graph(data(y=torch.tensor([[0], [1], [1], [0]]))).y.tolist() == [0, 1, 1, 0]
    unlabeled = as_graph((data().x, EDGES, None), classes=3)
    assert unlabeled.y.tolist() == [-1] * 4
    assert unlabeled.classes == 3


def test_clients_are_named_and_have_the_same_classes() -> None:
    clients = as_clients([data(), data(y=torch.tensor([0, 5, 0, 0]))])
    assert [client.name for client in clients] == ["client-0", "client-1"]
    assert [client.classes for client in clients] == [6, 6]
    named = as_clients([data(name="bank"), networkx_graph()])
    assert [client.name for client in named] == ["bank", "client-1"]
    assert [one.name for one in as_clients({"bank": data(), "shop": networkx_graph()})] == [
        "bank",
        "shop",
    ]
    many = as_clients([data()] * 11)
    assert [many[0].name, many[10].name] == ["client-00", "client-10"]


def test_client_graphs_stay_as_they_are(small_clients: list[ClientGraph]) -> None:
    assert all(
        one is other for one, other in zip(as_clients(small_clients), small_clients, strict=True)
    )
    assert as_graph(small_clients[0]) is small_clients[0]


def test_clients_come_back_from_pyg_and_from_files(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    back = as_clients([client.to_pyg() for client in small_clients])
    for one, other in zip(back, small_clients, strict=True):
        same(one, other)
        assert one.boundary.owners == other.boundary.owners
        np.testing.assert_array_equal(one.boundary.owner, other.boundary.owner)
    paths = autofgl.save_graphs(tmp_path, back)
    digests = [client.fingerprint() for client in back]
    assert [client.fingerprint() for client in as_clients(paths)] == digests


def test_one_notice_for_all_clients() -> None:
    one_way = data(edge_index=torch.tensor([[0, 1], [1, 2]]))
    with pytest.warns(GraphNotice) as caught:
        as_clients([one_way, one_way])
    assert len(caught) == 1
    assert str(caught[0].message).startswith("client-0, client-1: 4 of 4 edges")


WRONG: dict[str, tuple[Any, str]] = {
    "a number": (3, "graph: an object of type int is no graph: give a PyG Data, a NetworkX graph"),
    "a pair": ((data().x, EDGES), "an object of type tuple is no graph"),
    "several kinds of nodes": (HeteroData(), "an object of type HeteroData is no graph"),
    "no features": (Data(edge_index=EDGES, y=data().y), "graph: the key 'x' is missing"),
    "no edges": (Data(x=data().x), "graph: the key 'edge_index' is missing: add it as int64"),
    "float labels": (data(y=torch.zeros(4)), "graph: the key 'y' is float32: make it int64"),
    "one-hot labels": (
        data(y=torch.eye(4, dtype=torch.int64)),
        "the key 'y' has shape (4, 4): make it int64 [n], -1 where unknown, as y.argmax(1) makes",
    ),
    "many splits": (
        data(train_mask=torch.ones(4, 10, dtype=torch.bool)),
        "'train_mask' has shape (4, 10): make it bool [n], one split only, such as train_mask[:",
    ),
    "one mask": (data(train_mask=torch.ones(4, dtype=torch.bool)), "'val_mask' is missing: give"),
    "edge out of range": (data(edge_index=EDGES + 1), "graph: edges are out of range (first at"),
    "label out of range": (data(y=torch.tensor([0, 1, -3, 0])), "graph: labels are out of range"),
    "infinite": (data(x=torch.full((4, 2), np.inf)), "graph: features are not finite"),
    "weights of others": (data(edge_weight=torch.ones(3)), "'edge_weight' has shape (3,)"),
    "negative weights": (
        data(edge_weight=-WEIGHTS),
        "'edge_weight' has values that are no weights",
    ),
    "nodes without features": (nx.path_graph(3), "graph: node 0 has no attribute 'x': give every"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_in_one_line(given: Any, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        as_graph(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_networkx_features_of_different_length() -> None:
    graph = nx.path_graph(2)
    graph.nodes[0]["x"], graph.nodes[1]["x"] = [1.0], [1.0, 2.0]
    with pytest.raises(GraphError, match="graph: nodes have from 1 to 2 features in 'x'"):
        as_graph(graph)


@pytest.mark.parametrize(
    "given", [data(), networkx_graph(), as_graph(data()), (data().x, EDGES, data().y), "bank.npz"]
)
def test_one_graph_is_no_list_of_clients(given: Any) -> None:
    with pytest.raises(GraphError, match="clients are given in a list, one graph for each: cut"):
        as_clients(given)


def test_clients_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match="two clients are called 'bank'"):
        as_clients([data(name="bank"), data(name="bank")])
