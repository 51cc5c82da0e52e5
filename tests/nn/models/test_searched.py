"""The stand-alone network of a genotype."""

import json
from typing import Any

import torch
from torch.nn import functional

from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import SearchedSpec
from autofgl.nn.structure import Structure

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


def spec(text: str = "relu | gcn<0 gat<1 appnp<0 | identity", **options: Any) -> SearchedSpec:
    return SearchedSpec(text, in_features=6, classes=3, hidden=8, **options)


def features() -> torch.Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


def test_the_mean_over_layers_by_hand(generator: torch.Generator) -> None:
    network = build_network(spec(), generator)
    x, structure = features(), Structure(EDGES, 5)
    start = torch.relu(x @ network.input.weight + network.input.bias)
    first = network.convs[0](start, structure)
    second = network.convs[1](first, structure)
    third = network.convs[2](start, structure)
    fused = (first + second + third) / 3
    torch.testing.assert_close(network(x, structure), network.output(fused))
    leaves = build_network(spec(fusion="leaves"), generator)
    leaves.load_state_dict(network.state_dict())
    torch.testing.assert_close(leaves(x, EDGES), network.output((second + third) / 2))


def test_without_layers_the_input_stage_is_handed_on(generator: torch.Generator) -> None:
    network = build_network(spec("tanh | - | softmax"), generator)
    x = features()
    expected = torch.softmax(network.output(torch.tanh(network.input(x))), 1)
    torch.testing.assert_close(network(x, EDGES), expected)
    assert sum(p.numel() for p in network.parameters()) == 6 * 8 + 8 + 8 * 3 + 3


def test_plain_tensors_and_precomputed_input_agree(generator: torch.Generator) -> None:
    network = build_network(spec(), generator)
    x = features()
    out = network(InputFeatures(x), Structure(EDGES, 5))
    torch.testing.assert_close(out, network(x, EDGES))


def test_dropout_stands_before_the_linear_maps_and_the_convolutions() -> None:
    x = features()
    for options in ({"dropout": 0.5}, {"layer_dropout": 0.5}):
        network = build_network(spec(**options), torch.Generator().manual_seed(1))
        once, again, other = (
            network(x, EDGES, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
        )
        assert torch.equal(once, again)
        assert not torch.equal(once, other)
        network.eval()
        assert torch.equal(network(x, EDGES), network(x, EDGES))


def test_a_spec_survives_json_and_weights_a_state() -> None:
    first = spec("ReLU | gcn<0  gat<1 | tanh", dropout=0.5, fusion="leaves")
    data = json.loads(json.dumps(first.to_json()))
    assert data["family"] == "found"
    assert data["genotype"] == "relu | gcn<0 gat<1 | tanh"
    again = SearchedSpec.from_json(data)
    assert again == first
    trained = build_network(first, torch.Generator().manual_seed(1)).eval()
    loaded = build_network(again, torch.Generator().manual_seed(2)).eval()
    loaded.load_state_dict(trained.state_dict())
    assert torch.equal(trained(features(), EDGES), loaded(features(), EDGES))


def test_building_leaves_the_global_random_state_alone(generator: torch.Generator) -> None:
    before = torch.get_rng_state()
    build_network(spec("relu | gat<0 gin<1 feast<2 gen<3 gmm<4 gatedgraph<5 | relu"), generator)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_searched_network_learns(generator: torch.Generator) -> None:
    network = build_network(spec("relu | gcn<0 sage<1 | identity"), generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    x, y = features(), torch.tensor([0, 1, 2, 0, 1])
    for _ in range(60):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(x, EDGES), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
