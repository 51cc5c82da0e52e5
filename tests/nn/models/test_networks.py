import copy
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric import nn as pyg

from autofgl.nn.features import InputFeatures
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS, GNN
from autofgl.nn.models.networks import MODELS, build_network
from autofgl.nn.models.spec import (
    FAMILIES,
    HIDDEN_ACTIVATIONS,
    SEARCHED_FAMILY,
    ModelSpec,
    SearchedSpec,
)
from autofgl.nn.space import ACTIVATIONS
from autofgl.nn.structure import Structure

FEATURES, CLASSES, NODES = 12, 3, 30


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def spec(family: str, **options: object) -> ModelSpec:
    return ModelSpec.from_json(
        {"family": family, "in_features": FEATURES, "classes": CLASSES, "hidden": 16} | options
    )


def data(nodes: int = NODES) -> tuple[Tensor, Tensor]:
    generator = seeded(9)
    x = torch.rand(nodes, FEATURES, generator=generator)
    x = x * (torch.rand(x.shape, generator=generator) < 0.3)
    edges = torch.randint(max(nodes, 1), (2, 4 * nodes), generator=generator)
    return x, torch.cat([edges, edges.flip(0)], dim=1)


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


def test_spec_names_every_model() -> None:
    assert set(MODELS) == {*FAMILIES, SEARCHED_FAMILY}


def test_every_activation_that_a_description_may_name_exists() -> None:
    assert set(ACTIVATION_FUNCTIONS) == {*ACTIVATIONS, *HIDDEN_ACTIVATIONS}


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_plain_tensors_and_prepared_input_agree(family: str, layers: int) -> None:
    x, edge_index = data()
    model = build_network(spec(family, layers=layers), seeded()).eval()
    expected = model(x, edge_index)
    assert expected.shape == (NODES, CLASSES)
    structure = Structure(edge_index, NODES)
    features = InputFeatures.from_client(sp.csr_array(x.numpy()))
    torch.testing.assert_close(model(features, structure), expected)
    torch.testing.assert_close(model(InputFeatures(x), structure), expected)


def test_every_parameter_learns(family: str) -> None:
    x, edge_index = data()
    model = build_network(spec(family, dropout=0.1), seeded())
    functional.cross_entropy(
        model(x, edge_index, generator=seeded()), torch.arange(NODES) % CLASSES
    ).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_graph_without_nodes_or_edges(family: str) -> None:
    x, _ = data(NODES)
    none = torch.empty(2, 0, dtype=torch.int64)
    model = build_network(spec(family), seeded())
    for nodes in (0, 1, NODES):
        for features in (x[:nodes], InputFeatures.from_client(sp.csr_array(x[:nodes].numpy()))):
            out = model(features, none, generator=seeded())
            assert out.shape == (nodes, CLASSES)
            out.sum().backward()


def test_one_seed_one_result(family: str) -> None:
    x, edge_index = data()
    structure, features = Structure(edge_index, NODES), InputFeatures.from_client(x.numpy())
    before = torch.get_rng_state()
    models = [build_network(spec(family), seeded(seed)) for seed in (1, 1, 2)]
    outs = [model(features, structure, generator=seeded(3)) for model in models]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    assert not torch.equal(models[0](features, structure, generator=seeded(4)), outs[0])


def test_runs_without_a_generator(family: str) -> None:
    x, edge_index = data()
    model = build_network(spec(family))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = model(x, edge_index)
        assert not torch.equal(model(x, edge_index), first)
        torch.manual_seed(0)
        assert torch.equal(model(x, edge_index), first)


def test_works_with_torch_func(family: str) -> None:
    x, edge_index = data()
    model = build_network(spec(family), seeded())
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    features = InputFeatures.from_client(sp.csr_array(x.numpy()))

    def loss(weights: dict[str, Tensor], given: object, edges: object) -> Tensor:
        drawn = {"generator": seeded(1)}
        return torch.func.functional_call(model, weights, (given, edges), drawn).square().mean()

    structure = Structure(edge_index, NODES)
    for given, edges in ((features, structure), (x, edge_index), (x, structure)):
        got = torch.func.grad(loss)(parameters, given, edges)
        model.zero_grad()
        model(given, edges, generator=seeded(1)).square().mean().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(got[name], parameter.grad, msg=name)


def test_maml_step_is_twice_differentiable(family: str) -> None:
    x, edge_index = data()
    model = build_network(spec(family), seeded()).double()
    structure = Structure(edge_index, NODES, torch.float64)
    features = InputFeatures.from_client(sp.csr_array(x.numpy()), torch.float64)
    generator = seeded(2)

    def random_parameters() -> dict[str, Tensor]:
        # Biases of zero would put nodes without neighbors on the kinks of the activations.
        return {
            name: torch.randn(value.shape, dtype=torch.float64, generator=generator) / 3
            for name, value in model.named_parameters()
        }

    parameters, direction = random_parameters(), random_parameters()

    def loss(weights: dict[str, Tensor]) -> Tensor:
        drawn = {"generator": seeded(1)}
        out = torch.func.functional_call(model, weights, (features, structure), drawn)
        return functional.cross_entropy(out, torch.arange(NODES) % CLASSES)

    def adapted(weights: dict[str, Tensor]) -> Tensor:
        grads = torch.func.grad(loss)(weights)
        return loss({name: weights[name] - 0.5 * grads[name] for name in weights})

    got = torch.func.grad(adapted)(parameters)
    step = 1e-6
    ahead, behind = (
        adapted({name: parameters[name] + sign * step * direction[name] for name in parameters})
        for sign in (1, -1)
    )
    slope = sum((got[name] * direction[name]).sum() for name in parameters)
    torch.testing.assert_close((ahead - behind) / (2 * step), slope, rtol=1e-5, atol=1e-7)


def test_first_use_in_evaluation_does_not_spoil_training(family: str) -> None:
    x, edge_index = data()
    features = InputFeatures.from_client(sp.csr_array(x.numpy()))
    structure, model = Structure(edge_index, NODES), build_network(spec(family), seeded())
    with torch.inference_mode():
        model(features, structure)
    model(features, structure, generator=seeded()).sum().backward()


def _train(model: GNN, features: InputFeatures, structure: Structure) -> dict[str, Tensor]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator, y = seeded(5), torch.arange(NODES) % CLASSES
    for _ in range(3):
        optimizer.zero_grad()
        functional.cross_entropy(model(features, structure, generator=generator), y).backward()
        optimizer.step()
    return model.state_dict()


def test_threads_do_not_disturb_each_other() -> None:
    x, edge_index = data()

    def shared() -> tuple[InputFeatures, Structure]:
        return InputFeatures.from_client(sp.csr_array(x.numpy())), Structure(edge_index, NODES)

    models = [build_network(spec(family), seeded(index)) for index, family in enumerate(FAMILIES)]
    expected = [_train(copy.deepcopy(model), *shared()) for model in models]
    common = shared()
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda model: _train(model, *common), models))
    for state, wanted in zip(got, expected, strict=True):
        assert all(torch.equal(state[name], wanted[name]) for name in wanted)


def test_parameter_counts() -> None:
    specs = {
        ModelSpec("gcn", 1433, 7, hidden=16): 1433 * 16 + 16 + 16 * 7 + 7,
        ModelSpec("sgc", 1433, 7): 1433 * 7 + 7,
    }
    for given, count in specs.items():
        assert sum(p.numel() for p in build_network(given).parameters()) == count


def test_gcn_equals_two_layers_of_pyg() -> None:
    x, edge_index = data()
    model = build_network(spec("gcn"), seeded()).eval()
    first, second = pyg.GCNConv(FEATURES, 16), pyg.GCNConv(16, CLASSES)
    for theirs, ours in zip((first, second), model.convs, strict=True):
        theirs.load_state_dict({"lin.weight": ours.lin.weight.T, "bias": ours.bias})
    expected = second(first(x, edge_index).relu(), edge_index)
    torch.testing.assert_close(model(x, edge_index), expected)


def test_gat_and_arma_have_their_usual_shape() -> None:
    gat = build_network(ModelSpec("gat", 10, 4), seeded())
    assert [(conv.heads, conv.out_channels) for conv in gat.convs] == [(8, 8), (1, 4)]
    arma = build_network(ModelSpec("arma", 10, 4), seeded())
    assert [(conv.num_stacks, conv.num_layers) for conv in arma.convs] == [(3, 2), (3, 2)]
    assert arma.convs[0].act is not None
    assert arma.convs[1].act is None
    agnn = build_network(ModelSpec("agnn", 10, 4), seeded())
    assert [conv.beta.requires_grad for conv in agnn.convs] == [False, True]


# The stand-alone network of a genotype.


EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


def searched_spec(
    text: str = "relu | gcn<0 gat<1 appnp<0 | identity", **options: Any
) -> SearchedSpec:
    return SearchedSpec(text, in_features=6, classes=3, hidden=8, **options)


def features() -> torch.Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


def test_the_mean_over_layers_by_hand(generator: torch.Generator) -> None:
    network = build_network(searched_spec(), generator)
    x, structure = features(), Structure(EDGES, 5)
    start = torch.relu(x @ network.input.weight + network.input.bias)
    first = network.convs[0](start, structure)
    second = network.convs[1](first, structure)
    third = network.convs[2](start, structure)
    fused = (first + second + third) / 3
    torch.testing.assert_close(network(x, structure), network.output(fused))
    leaves = build_network(searched_spec(fusion="leaves"), generator)
    leaves.load_state_dict(network.state_dict())
    torch.testing.assert_close(leaves(x, EDGES), network.output((second + third) / 2))


def test_without_layers_the_input_stage_is_handed_on(generator: torch.Generator) -> None:
    network = build_network(searched_spec("tanh | - | softmax"), generator)
    x = features()
    expected = torch.softmax(network.output(torch.tanh(network.input(x))), 1)
    torch.testing.assert_close(network(x, EDGES), expected)
    assert sum(p.numel() for p in network.parameters()) == 6 * 8 + 8 + 8 * 3 + 3


def test_plain_tensors_and_precomputed_input_agree(generator: torch.Generator) -> None:
    network = build_network(searched_spec(), generator)
    x = features()
    out = network(InputFeatures(x), Structure(EDGES, 5))
    torch.testing.assert_close(out, network(x, EDGES))


def test_dropout_stands_before_the_linear_maps_and_the_convolutions() -> None:
    x = features()
    for options in ({"dropout": 0.5}, {"layer_dropout": 0.5}):
        network = build_network(searched_spec(**options), torch.Generator().manual_seed(1))
        once, again, other = (
            network(x, EDGES, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
        )
        assert torch.equal(once, again)
        assert not torch.equal(once, other)
        network.eval()
        assert torch.equal(network(x, EDGES), network(x, EDGES))


def test_a_spec_survives_json_and_weights_a_state() -> None:
    first = searched_spec("ReLU | gcn<0  gat<1 | tanh", dropout=0.5, fusion="leaves")
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
    build_network(
        searched_spec("relu | gat<0 gin<1 feast<2 gen<3 gmm<4 gatedgraph<5 | relu"), generator
    )
    assert torch.equal(torch.get_rng_state(), before)


def test_a_searched_network_learns(generator: torch.Generator) -> None:
    network = build_network(searched_spec("relu | gcn<0 sage<1 | identity"), generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    x, y = features(), torch.tensor([0, 1, 2, 0, 1])
    for _ in range(60):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(x, EDGES), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_grand_classifies_the_mean_over_hops(hops: int) -> None:
    """Eq. 1, with powers of the dense propagation matrix."""
    x, edge_index = data()
    model = build_network(spec("grand", hops=hops, layers=2), seeded()).eval()
    structure = Structure(edge_index, NODES)
    step = structure.gcn @ torch.eye(NODES)
    mean = sum(torch.linalg.matrix_power(step, hop) @ x for hop in range(hops + 1)) / (hops + 1)
    first, (second,) = model.first, model.lins
    expected = torch.relu(mean @ first.weight + first.bias) @ second.weight + second.bias
    torch.testing.assert_close(model(x, edge_index), expected)
