"""The part of a graph around the measured nodes is that part of the graph."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.features import InputFeatures
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import ReceptiveField


def convolve(x: Tensor, edge_index: Tensor) -> Tensor:
    """The sum over the neighbors, written against PyG's convention."""
    source, target = edge_index
    return torch.zeros_like(x).index_add(0, target, x[source])


@pytest.fixture(scope="module")
def field(small_graph: ClientGraph) -> ReceptiveField:
    features = InputFeatures.from_client(small_graph.x)
    labels = torch.from_numpy(small_graph.y.copy())
    structure = Structure.from_client(small_graph)
    return ReceptiveField(features, structure, labels, [torch.tensor([40, 3, 77])])


@pytest.mark.parametrize("radius", [0, 1, 9])
@pytest.mark.parametrize("copies", [1, 3])
def test_edge_index_has_the_edges_of_the_operators(
    radius: int, copies: int, field: ReceptiveField
) -> None:
    structure = field.structure(radius, copies)
    assert structure.edge_index.dtype == torch.int64
    assert structure.edge_index.shape[1] == structure.sum.pattern.nnz > 0
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(structure.num_nodes, 2, generator=generator)
    torch.testing.assert_close(convolve(x, structure.edge_index), structure.sum @ x)


@pytest.mark.parametrize("radius", [0, 1])
def test_a_layer_on_edges_computes_what_it_does_on_the_whole_graph(
    radius: int, field: ReceptiveField, small_graph: ClientGraph
) -> None:
    """Node by node of the radius, for two inputs side by side."""
    whole = convolve(torch.tensor(small_graph.x.toarray()), torch.tensor(small_graph.edge_index))
    structure, nodes = field.structure(radius, copies=2), field.size(radius + 1)
    x = field.features.to_dense()[:nodes]
    both = torch.stack([x, 10 * x], dim=1).reshape(2 * nodes, -1)
    out = convolve(both, structure.edge_index).view(nodes, 2, -1)[: field.measured]
    expected = whole[torch.tensor([3, 40, 77])]
    torch.testing.assert_close(out[:, 0], expected)
    torch.testing.assert_close(out[:, 1], 10 * expected)


def test_the_edges_of_a_part_make_up_its_operators(field: ReceptiveField) -> None:
    """A structure made anew from the edges of everything reachable is the same."""
    part = field.structure(field.limit, copies=2)
    fresh = Structure(part.edge_index, part.num_nodes)
    operators: list[Callable[[Structure], Tensor]] = [
        lambda s: s.gcn.to_dense(),
        lambda s: s.symmetric.to_dense(),
        lambda s: s.mean.to_dense(),
        lambda s: s.sum.to_dense(),
    ]
    for operator in operators:
        torch.testing.assert_close(operator(part), operator(fresh))


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_weights_of_a_part_are_those_of_the_whole(kind: str, small_graph: ClientGraph) -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.tensor(small_graph.edge_index)
    n, weights = small_graph.num_nodes, torch.rand(edges.shape[1], generator=generator)
    whole = Structure(edges, n, edge_weight=weights)
    features, labels = InputFeatures(torch.rand(n, 8, generator=generator)), torch.zeros(n).long()
    field = ReceptiveField(features, whole, labels, [torch.tensor([3, 40, 77])])
    convolution = CONVOLUTIONS[kind].make(8)
    convolution.reset_parameters(generator)
    expected = convolution(features.to_dense(), whole)[[3, 40, 77]]
    part = field.structure(field.limit, copies=2)
    both = field.features.to_dense().repeat_interleave(2, dim=0)
    out = convolution(both, part).view(-1, 2, 8)[:3]
    torch.testing.assert_close(out[:, 0], expected, rtol=1e-4, atol=1e-5)
    fresh = Structure(part.edge_index, part.num_nodes, edge_weight=part.edge_weight)
    torch.testing.assert_close(part.symmetric.to_dense(), fresh.symmetric.to_dense())


def test_convolving_does_not_pay_for_the_edge_index(field: ReceptiveField) -> None:
    structure = field.structure(2, copies=4)
    x = torch.ones(structure.num_nodes, 8)
    for kind in CONVOLUTIONS.values():
        kind.make(8)(x, structure)
    assert "edge_index" not in vars(structure)


def test_radii_that_hold_nearly_everything_are_one() -> None:
    """A path of ten nodes, measured at one end: nine are more than 85 % of ten."""
    chain = torch.stack([torch.arange(1, 10), torch.arange(9)])
    structure = Structure(chain, 10)
    around = ReceptiveField(torch.ones(10, 1), structure, torch.zeros(10).long(), [torch.zeros(1)])
    assert [around.size(radius) for radius in range(10)] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10]
    assert around.limit == 8
    assert around.measured == 1
