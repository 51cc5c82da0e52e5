"""Networks that convolve across clients: exact where everything is shared, closed where not."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import pool
from autofgl.graphs.partition import PARTITIONERS
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.cross_client import (
    ClientOperators,
    CrossClientStructure,
    Share,
    closed_hops,
    run_together,
)
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network, receptive_hops
from autofgl.nn.models.spec import FAMILIES, ModelSpec, NetworkSpec, SearchedSpec
from autofgl.nn.structure import Structure
from autofgl.seeding import torch_generator
from families import family

FIXED = [name for name in FAMILIES if name != "sfgnn"]


def fixed(family: str, graph: ClientGraph) -> ModelSpec:
    return ModelSpec(family, graph.num_features, graph.classes, hidden=16, heads=4)


def searched(genotype: str, graph: ClientGraph) -> SearchedSpec:
    return SearchedSpec(genotype, graph.num_features, graph.classes, hidden=8)


def across(clients: Sequence[ClientGraph], spec: NetworkSpec, share: Share) -> list[Tensor]:
    """Outputs at each client after all exchanges."""
    model = build_network(spec, torch_generator(0, "weights")).eval()
    features = {graph.name: InputFeatures.from_client(graph.x) for graph in clients}
    closed = closed_hops(spec, share)
    structures = {
        graph.name: CrossClientStructure(ClientOperators(graph), closed) for graph in clients
    }

    def run(name: str) -> Tensor:
        with torch.no_grad():
            out: Tensor = model(features[name], structures[name])
        return out

    return list(run_together(structures, run).values())


def uncut(clients: Sequence[ClientGraph], spec: NetworkSpec) -> list[Tensor]:
    """Outputs of the same network on the pooled graph, by client."""
    whole = pool(clients)
    model = build_network(spec, torch_generator(0, "weights")).eval()
    with torch.no_grad():
        out = model(InputFeatures.from_client(whole.x), Structure.from_client(whole))
    order = np.argsort(whole.node_id)
    return [
        out[order[np.searchsorted(whole.node_id, one.node_id, sorter=order)]] for one in clients
    ]


@pytest.mark.parametrize("partition", [n for n in PARTITIONERS if n not in ("overlap",)])
@pytest.mark.parametrize("name", family(FIXED, ["gcn", "gat"]))
def test_sharing_everything_equals_the_uncut_graph(
    name: str, partition: str, small_graph: ClientGraph
) -> None:
    clients = autofgl.partition(small_graph, clients=3, method=partition, seed=0)
    spec = fixed(name, small_graph)
    for mine, reference in zip(across(clients, spec, "all"), uncut(clients, spec), strict=True):
        assert torch.allclose(mine, reference, atol=1e-5)


GENOTYPES = [f"relu | {kind}<0 {kind}<1 | identity" for kind in CONVOLUTIONS]


@pytest.mark.parametrize(
    "genotype", [*GENOTYPES, "relu | appnp<0 gcn<1 | identity", "tanh | gat<0 gen<0 sage<2 | relu"]
)
def test_so_does_a_searched_network(genotype: str, small_graph: ClientGraph) -> None:
    clients = autofgl.partition(small_graph, clients=3, method="random", seed=0)
    spec = searched(genotype, small_graph)
    for mine, reference in zip(across(clients, spec, "all"), uncut(clients, spec), strict=True):
        assert torch.allclose(mine, reference, atol=1e-5)


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_layer_has_as_many_hops_as_its_type_says(
    kind: str, small_clients: list[ClientGraph]
) -> None:
    graph = small_clients[0]
    spec = searched(f"relu | {kind}<0 | identity", graph)
    structure = CrossClientStructure(ClientOperators(graph), frozenset())
    model = build_network(spec, torch_generator(0, "weights")).eval()
    model(InputFeatures.from_client(graph.x), structure)
    assert len(structure.widths) == receptive_hops(spec)
