import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.structure import DenseStructure, Structure

Graph = tuple[Tensor, int]


def adjacency(edge_index: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    matrix = torch.zeros(num_nodes, num_nodes)
    return matrix.index_put_((edge_index[1], edge_index[0]), weight, accumulate=True)


def test_gcn_and_symmetric_equal_gcn_norm(graph: Graph) -> None:
    edge_index, n = graph
    structure = Structure(edge_index, n)
    for operator, loops in ((structure.gcn, True), (structure.symmetric, False)):
        expected = adjacency(*gcn_norm(edge_index, None, n, add_self_loops=loops), n)
        torch.testing.assert_close(operator.to_dense(), expected)


def weights_of(edge_index: Tensor) -> Tensor:
    return torch.rand(edge_index.shape[1], generator=torch.Generator().manual_seed(5))


def test_weighted_operators_equal_gcn_norm(graph: Graph) -> None:
    edge_index, n = graph
    weights = weights_of(edge_index)
    for kind in (Structure, DenseStructure):
        structure = kind(edge_index, n, edge_weight=weights)
        gcn = structure.gcn if kind is DenseStructure else structure.gcn.to_dense()
        torch.testing.assert_close(gcn, adjacency(*gcn_norm(edge_index, weights, n), n))
        expected = adjacency(*gcn_norm(edge_index, weights, n, add_self_loops=False), n)
        torch.testing.assert_close(structure.symmetric.to_dense(), expected)
        expected = adjacency(edge_index, weights, n)
        torch.testing.assert_close(structure.weighted_sum.to_dense(), expected)


def test_weights_of_one_are_no_weights(graph: Graph) -> None:
    edge_index, n = graph
    plain, ones = (
        Structure(edge_index, n, edge_weight=weight)
        for weight in (None, torch.ones(edge_index.shape[1]))
    )
    for key in ("gcn", "symmetric", "unweighted_symmetric", "weighted_sum", "sum", "mean"):
        assert torch.equal(getattr(plain, key).to_dense(), getattr(ones, key).to_dense()), key
    assert plain.weighted_sum is plain.sum
    assert plain.unweighted_symmetric is plain.symmetric


def test_a_symmetric_weighted_operator_is_kept_once() -> None:
    weights = torch.tensor([0.3, 0.7, 0.3, 0.7])
    structure = Structure(torch.tensor([[0, 1, 1, 2], [1, 2, 0, 1]]), 3, edge_weight=weights)
    assert structure.gcn.T is structure.gcn


def test_sum_and_mean(graph: Graph) -> None:
    edge_index, n = graph
    expected = adjacency(edge_index, torch.ones(edge_index.shape[1]), n)
    structure = Structure(edge_index, n)
    assert torch.equal(structure.sum.to_dense(), expected)
    degree = expected.sum(1, keepdim=True).clamp_min(1)
    torch.testing.assert_close(structure.mean.to_dense(), expected / degree)


def test_dense_operators_are_the_same(graph: Graph) -> None:
    edge_index, n = graph
    sparse, dense = Structure(edge_index, n), DenseStructure(edge_index, n)
    assert torch.equal(dense.gcn, sparse.gcn.to_dense())
    assert torch.equal(dense.mean, sparse.mean.to_dense())


def test_attention_has_one_self_loop_per_node(graph: Graph) -> None:
    edge_index, n = graph
    looped, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=n)
    pattern = Structure(edge_index, n).attention.pattern
    expected = adjacency(looped, torch.ones(looped.shape[1]), n)
    got = adjacency(torch.stack([pattern.col, pattern.row]).long(), torch.ones(pattern.nnz), n)
    assert torch.equal(got, expected)


def test_operators_are_kept() -> None:
    structure = Structure(torch.tensor([[0, 1], [1, 0]]), 3)
    assert structure.gcn is structure.gcn
    assert structure.gcn.T is structure.gcn
    assert structure.mean.pattern is structure.sum.pattern


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (torch.tensor([[0, 5], [1, 0]]), "node 5, but the graph has 3 nodes"),
        (torch.tensor([[0, -1], [1, 0]]), "node -1"),
        (torch.tensor([0, 1]), r"shape \[2, E\]"),
        (torch.zeros(2, 2), "integers"),
    ],
)
def test_bad_edges_are_refused(edge_index: Tensor, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Structure(edge_index, 3)


def test_weights_of_other_edges_are_refused() -> None:
    with pytest.raises(GraphError, match=r"shape \[3\], but there are 2 edges"):
        Structure(torch.tensor([[0, 1], [1, 0]]), 2, edge_weight=torch.ones(3))


def test_from_client_takes_read_only_arrays() -> None:
    edge_index = np.array([[0, 1], [1, 0]])
    edge_index.setflags(write=False)
    none = np.zeros(2, np.bool_)
    ids = np.arange(2)
    x = np.ones((2, 1), np.float32)
    client = ClientGraph("a", x, edge_index, ids, none, none, none, classes=2, node_id=ids)
    assert Structure.from_client(client).sum.to_dense().tolist() == [[0, 1], [1, 0]]


def test_a_structure_made_inside_a_transform_outlives_it() -> None:
    kept: list[Structure] = []

    def loss(x: Tensor, edge_index: Tensor) -> Tensor:
        kept.append(Structure(edge_index, 3))
        return (kept[0].gcn @ x).sum()

    edge_index = torch.tensor([[0, 1], [1, 2]])
    torch.func.grad(loss)(torch.ones(3, 2), edge_index)
    fresh = Structure(edge_index, 3)
    assert torch.equal(kept[0].gcn.to_dense(), fresh.gcn.to_dense())
    assert torch.equal(kept[0].mean.to_dense(), fresh.mean.to_dense())


def test_the_package_does_not_import_pyg() -> None:
    modules = "autofgl.nn.models.networks, autofgl.nn.supernet, autofgl.nn.sampling.rules"
    code = f"import sys, {modules}; sys.exit('torch_geometric' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
