"""Mini-batches against the whole graph, for every convolution and every network."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.datasets import load
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network, receptive_hops
from autofgl.nn.models.spec import FAMILIES, ModelSpec, NetworkSpec, SearchedSpec
from autofgl.nn.sampling.subgraphs import ALL, SubgraphSampler
from autofgl.nn.structure import Structure

SPECS: list[NetworkSpec] = [
    *(ModelSpec(family, 30, 4, 16, hops=3, dropout=0.5) for family in FAMILIES),
    *(SearchedSpec(f"relu | {kind}<0 gcn<1 sage<0 | tanh", 30, 4, 16) for kind in CONVOLUTIONS),
]
NAMES = [spec.genotype if isinstance(spec, SearchedSpec) else spec.family for spec in SPECS]


@pytest.fixture(scope="module")
def graph() -> ClientGraph:
    settings = DataSettings(nodes=300, features=30, classes=4, degree=5)
    return load("synthetic", seed=1, settings=settings)


@pytest.fixture(scope="module", params=["plain", "weighted"])
def structure(graph: ClientGraph, request: pytest.FixtureRequest) -> Structure:
    if request.param == "plain":
        return Structure.from_client(graph)
    rng = np.random.default_rng(2)
    weights = (rng.random(graph.num_edges) + 0.5).astype(np.float32)
    return Structure.from_client(replace(graph, edge_weight=weights))


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_with_all_neighbors_outputs_are_those_of_the_whole_graph(
    spec: NetworkSpec, graph: ClientGraph, structure: Structure
) -> None:
    features = InputFeatures.from_client(graph.x)
    model = build_network(spec, torch.Generator().manual_seed(0)).eval()
    asked = np.random.default_rng(0).permutation(graph.num_nodes)[:7]
    hops = receptive_hops(spec)
    assert hops is not None
    part = SubgraphSampler(structure, [ALL] * hops).draw(asked)
    assert part.nodes[:7].tolist() == asked.tolist()
    assert len(part.nodes.unique()) == len(part.nodes) <= graph.num_nodes
    with torch.no_grad():
        whole = model(features, structure)[asked]
        sampled = model(features.rows(part.nodes), part.structure)[:7]
    torch.testing.assert_close(sampled, whole, rtol=1e-5, atol=1e-5)
    if hops > 1:  # and they need that many hops
        short = SubgraphSampler(structure, [ALL] * (hops - 1)).draw(asked)
        with torch.no_grad():
            cut = model(features.rows(short.nodes), short.structure)[:7]
        assert len(short.nodes) == len(part.nodes) or not torch.allclose(cut, whole, atol=1e-5)


def test_sampled_edges_keep_their_weights(structure: Structure) -> None:
    part = SubgraphSampler(structure, [2]).draw(np.arange(9), np.random.default_rng(0)).structure
    if structure.edge_weight is None:
        assert part.edge_weight is None
        return
    assert part.edge_weight is not None
    pairs = zip(*structure.edge_index.tolist(), strict=True)
    known = dict(zip(pairs, structure.edge_weight.tolist(), strict=True))
    ends = part.nodes[part.edge_index]  # type: ignore[attr-defined]
    sampled = zip(*ends.tolist(), part.edge_weight.tolist(), strict=True)
    assert all(known[source, target] == weight for source, target, weight in sampled)


OPERATORS: dict[str, Callable[[Structure], Tensor]] = {
    name: lambda structure, name=name: getattr(structure, name).to_dense()  # type: ignore[misc]
    for name in ("gcn", "symmetric", "unweighted_symmetric", "sum", "weighted_sum", "mean")
}


@pytest.mark.parametrize("name", OPERATORS)
def test_on_average_an_operator_is_the_whole_graph_s(name: str, structure: Structure) -> None:
    rng, dense = np.random.default_rng(0), OPERATORS[name]
    node = int(torch.nonzero(structure.sum.pattern.crow.diff() == 6)[0])
    sampler = SubgraphSampler(structure, [3])
    total, draws = torch.zeros(structure.num_nodes), 400
    for _ in range(draws):
        part = sampler.draw(np.array([node]), rng)
        total[part.nodes] += dense(part.structure)[0]
    expected = dense(structure)[node]
    torch.testing.assert_close(total / draws, expected, rtol=0.2, atol=1e-6)


def test_every_node_draws_at_most_its_fanout_once(structure: Structure) -> None:
    asked = np.array([5, 0, 17])
    part = SubgraphSampler(structure, [4, 2]).draw(asked, np.random.default_rng(0))
    degree = torch.from_numpy(np.diff(structure.sum.pattern.crow.numpy()))
    kept = part.structure.sum.pattern.crow.diff()
    near = int((part.structure.edge_index[1] < 3).sum())
    assert kept[:3].tolist() == degree[asked].clamp(max=4).tolist()
    assert near == kept[:3].sum()
    second = len(set(part.structure.edge_index[0, :near].tolist()) - {0, 1, 2})
    assert kept[3 : 3 + second].tolist() == degree[part.nodes[3 : 3 + second]].clamp(max=2).tolist()
    assert not kept[3 + second :].any()
    # Every edge is one of the whole graph, and none is drawn twice.
    ends = part.nodes[part.structure.edge_index]
    known = set(map(tuple, structure.edge_index.T.tolist()))
    drawn = list(map(tuple, ends.T.tolist()))
    assert set(drawn) <= known
    assert len(set(drawn)) == len(drawn)


def test_self_loops_and_repeated_edges_count_as_in_the_whole_graph() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 0], [0, 0, 0, 0, 1, 2, 3]])
    whole = Structure(edges, 4)
    part = SubgraphSampler(whole, [ALL, ALL, ALL]).draw(np.array([0]))
    order = part.nodes
    for name, dense in OPERATORS.items():
        inner = dense(whole)[order][:, order]
        assert torch.allclose(dense(part.structure)[:3], inner[:3]), name
    assert torch.equal(part.structure.attention.pattern.crow.diff()[:1], torch.tensor([4]))


def test_a_draw_depends_on_its_generator_alone(structure: Structure) -> None:
    sampler = SubgraphSampler(structure, [3, 3])
    first, _, again = (
        sampler.draw(np.arange(20), np.random.default_rng(seed)) for seed in (1, 2, 1)
    )
    assert torch.equal(first.nodes, again.nodes)
    assert torch.equal(first.structure.edge_index, again.structure.edge_index)
    with pytest.raises(ValueError, match="generator"):
        sampler.draw(np.arange(20))
