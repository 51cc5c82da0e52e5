"""Networks on an edge list give the scores of our operators."""

import pytest
import torch

from autofgl.nn.models.networks import MODELS, build_network
from autofgl.nn.models.spec import SEARCHED_FAMILY, ModelSpec, NetworkSpec, SearchedSpec
from autofgl.nn.portable import EdgeList, PortableNetwork
from autofgl.nn.space import LAYER_TYPES
from autofgl.nn.structure import Structure

FAMILIES = sorted(MODELS.keys() - {SEARCHED_FAMILY})
#: Six nodes: a repeated edge, self loops, a node without any edge and one that only sends.
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 3, 0], [1, 0, 2, 1, 1, 3, 0, 2, 2]])
WEIGHTS = torch.tensor([0.5, 0.5, 2.0, 1.0, 3.0, 0.7, 1.3, 0.0, 1.0])


def network(spec: NetworkSpec) -> torch.nn.Module:
    built = build_network(spec, torch.Generator().manual_seed(3)).eval()
    built.scales_features = "unit"
    return built


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_the_same_scores(family: str, weight: torch.Tensor | None) -> None:
    ours = network(ModelSpec(family, in_features=5, classes=3, hidden=8))
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    x[4] = 0
    with torch.no_grad():
        theirs = PortableNetwork(ours, weight is not None)(x, EDGES, weight)
        torch.testing.assert_close(theirs, ours(x, EDGES, weight), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gcn", "symmetric", "mean", "sum", "weighted_sum"])
def test_operators_are_those_of_a_structure(name: str) -> None:
    x = torch.eye(6)
    edges = EdgeList(EDGES, 6, torch.float32, WEIGHTS)
    structure = Structure(EDGES, 6, edge_weight=WEIGHTS)
    torch.testing.assert_close(getattr(edges, name) @ x, getattr(structure, name) @ x)


@pytest.mark.parametrize("scaling", ["unit", True, False])
def test_features_are_scaled_as_in_training(scaling: str | bool) -> None:
    ours = network(ModelSpec("gcn", in_features=5, classes=3, hidden=8))
    ours.scales_features = scaling
    x = torch.randn(6, 5)
    with torch.no_grad():
        torch.testing.assert_close(PortableNetwork(ours)(x, EDGES), ours(x, EDGES))


@pytest.mark.parametrize("kind", LAYER_TYPES)
def test_every_layer_of_the_search_space(kind: str) -> None:
    genotype = f"tanh | {kind}<0 {kind}<1 | identity"
    ours = network(SearchedSpec(genotype=genotype, in_features=5, classes=3, hidden=8))
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        theirs = PortableNetwork(ours)(x, EDGES)
        torch.testing.assert_close(theirs, ours(x, EDGES), atol=1e-5, rtol=1e-5)


def test_messages_of_any_range() -> None:
    messages = torch.randn(6, 4, generator=torch.Generator().manual_seed(2)) * 100
    edges = EdgeList(EDGES, 6, torch.float32, None)
    torch.testing.assert_close(
        edges.softmax_sum(messages), Structure(EDGES, 6).softmax_sum(messages)
    )
