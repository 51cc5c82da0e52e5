"""A population computed as one equals its architectures computed one by one."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import SearchedNetwork
from autofgl.nn.space import PAPER_TYPES, Genotype, Layer, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import ReceptiveField, SuperNet
from autofgl.nn.supernet.plan import Plan

CLASSES = 3
SPACE = Space(4, stop=0.15)


class Data:
    """The small graph, with a few labeled nodes."""

    def __init__(self, graph: ClientGraph) -> None:
        self.x = InputFeatures.from_client(graph.x).row_normalized()
        self.structure = Structure.from_client(graph)
        self.labels = torch.from_numpy(graph.y.copy())
        self.train = torch.arange(0, graph.num_nodes, 17)
        self.val = torch.arange(3, graph.num_nodes, 11)
        self.field = self.around(self.train)

    def around(self, *parts: Tensor) -> ReceptiveField:
        return ReceptiveField(self.x, self.structure, self.labels, parts)

    def alone(self, network: SearchedNetwork) -> Tensor:
        """Mean training loss of a stand-alone network, on the whole graph."""
        scores = network(self.x, self.structure)
        return functional.cross_entropy(scores[self.train], self.labels[self.train])


@pytest.fixture(scope="module")
def data(small_graph: ClientGraph) -> Data:
    return Data(small_graph)


def make(space: Space = SPACE, **options: object) -> SuperNet:
    net = SuperNet(space, 36, CLASSES, hidden=16, **options)
    net.reset_parameters(torch.Generator().manual_seed(1))
    return net


def draw(count: int, space: Space = SPACE, seed: int = 0) -> list[Genotype]:
    generator = np.random.default_rng(seed)
    return [space.random(generator) for _ in range(count)]


def single_gradient(
    net: SuperNet, genotype: Genotype, data: Data
) -> tuple[dict[str, Tensor], float]:
    """Loss and gradient of the stand-alone network, under the SuperNet's names."""
    network = net.extract(genotype)
    loss = data.alone(network)
    loss.backward()
    names = {id(module): name for name, module in net.named_modules()}
    return {
        f"{names[id(module)]}.{key}": parameter.grad
        for name, module in net.parts(genotype)
        for key, parameter in network.get_submodule(name).named_parameters()
        if parameter.grad is not None
    }, loss.item()


def check_sum(net: SuperNet, population: list[Genotype], data: Data) -> None:
    """Losses and the summed gradient equal those of stand-alone networks."""
    got, losses = net.gradient(population, data.field)
    want = {name: torch.zeros(value.shape) for name, value in got.items()}
    for genotype, loss in zip(population, losses, strict=True):
        gradient, expected = single_gradient(net, genotype, data)
        assert loss == pytest.approx(expected, abs=1e-5)
        for name, value in gradient.items():
            want[name] += value
    for name, value in got.items():
        scale = max(1.0, float(want[name].abs().max()))
        np.testing.assert_allclose(value / scale, want[name] / scale, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_path_equals_its_stand_alone_network(kind: str, data: Data) -> None:
    net = make(Space(3, (kind, "gcn") if kind != "gcn" else ("gcn",)))
    layers = tuple(Layer(kind, previous) for previous in (0, 1, 0))
    check_sum(net, [Genotype("tanh", layers, "identity")], data)


@pytest.mark.parametrize("fusion", ["all", "leaves"])
@pytest.mark.parametrize("per_predecessor", [False, True])
def test_a_population_s_gradient_is_the_sum_over_its_members(
    fusion: str, per_predecessor: bool, data: Data
) -> None:
    net = make(fusion=fusion, per_predecessor=per_predecessor)
    population = draw(30)
    check_sum(net, [*population, population[0]], data)


def test_scores_equal_those_of_stand_alone_networks(data: Data) -> None:
    net, population = make(), draw(20, seed=1)
    parts = (data.val, data.train, torch.empty(0, dtype=torch.int64))
    got = net.evaluate(population, data.around(*parts))
    for genotype, rows in zip(population, got, strict=True):
        scores = net.extract(genotype)(data.x, data.structure)
        for nodes, row in zip(parts, rows, strict=True):
            loss = functional.cross_entropy(scores[nodes], data.labels[nodes], reduction="sum")
            correct = (scores[nodes].argmax(1) == data.labels[nodes]).sum()
            np.testing.assert_allclose(row, [loss.item(), int(correct), len(nodes)], atol=1e-3)
    np.testing.assert_allclose(
        got[:, 0, 0] / len(data.val), net.losses(population, data.around(data.val)), atol=1e-6
    )


def test_little_memory_gives_the_same_gradient(data: Data) -> None:
    net, population = make(), draw(13, seed=2)
    whole, losses = net.gradient(population, data.field)
    net.memory = 100_000
    parts, again = net.gradient(population, data.field)
    assert list(whole) == list(parts)
    np.testing.assert_allclose(losses, again, atol=1e-6)
    for name in whole:
        np.testing.assert_allclose(whole[name], parts[name], atol=1e-5)


def test_only_active_parameters_have_a_gradient(data: Data) -> None:
    net = make(Space(2))
    population = [net.space.parse("relu | gcn<0 | tanh")]
    names = net.active(population)
    assert names == [
        "inputs.relu.weight",
        "inputs.relu.bias",
        "layers.1-gcn.bias",
        "layers.1-gcn.lin.weight",
        "outputs.tanh.weight",
        "outputs.tanh.bias",
    ]
    assert list(net.gradient(population, data.field)[0]) == names


def test_none_cuts_the_rest_and_canonical_codes_are_one(data: Data) -> None:
    net = make()
    layers = (Layer("gat", 0), Layer("sage", None), Layer("gin", 2), Layer("gcn", 1))
    cut = Genotype("relu", layers, "identity")
    same = [cut, net.space.canonical(cut), replace(cut, layers=(layers[0], *layers[1:][::-1]))]
    same[2] = replace(same[2], layers=(layers[0], Layer("arma", None), *layers[2:]))
    losses = net.losses(same, data.field)
    assert losses[0] == losses[1] == losses[2]
    assert net.active([cut]) == net.active([net.space.parse("relu | gat<0 | identity")])
    assert len(net.extract(cut).convs) == 1
    assert len(Plan(same).networks) == 1


def test_common_sub_paths_are_computed_once() -> None:
    texts = ["relu | gcn<0 gat<1 | tanh", "relu | gcn<0 gat<1 sage<2 | relu", "relu | gcn<0 | relu"]
    plan = Plan([SPACE.parse(text) for text in texts])
    assert [(step.layer, step.type, step.parent) for step in plan.steps] == [
        (1, "gcn", 0),
        (2, "gat", 1),
        (3, "sage", 2),
    ]
    assert plan.radii == [3, 2, 1, 0]


def test_nodes_beyond_reach_are_left_out(data: Data) -> None:
    """A path graph 0-1-2-3-4 and a separate pair: measured at node 0."""
    edges = torch.tensor([[0, 1, 2, 3, 5], [1, 2, 3, 4, 6]])
    structure = Structure(torch.cat([edges, edges.flip(0)], 1), 7)
    x = torch.randn(7, 36, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([1, 0, 2, 0, 0, 1, 2])
    field = ReceptiveField(x, structure, labels, [torch.tensor([0])])
    assert [field.size(radius) for radius in range(6)] == [1, 2, 3, 4, 5, 5]
    net = make()
    population = [SPACE.parse(f"tanh | {kind}<0 {kind}<1 | identity") for kind in PAPER_TYPES]
    for genotype, loss in zip(population, net.losses(population, field), strict=True):
        scores = net.extract(genotype)(x, structure)
        expected = functional.cross_entropy(scores[:1], labels[:1])
        assert loss == pytest.approx(expected.item(), abs=1e-5)


def test_a_client_without_labels_has_zero_loss_and_gradient(data: Data) -> None:
    net, population = make(), draw(5)
    field = data.around(torch.empty(0, dtype=torch.int64))
    gradient, losses = net.gradient(population, field)
    assert list(gradient) == net.active(population)
    assert not losses.any()
    assert not any(value.any() for value in gradient.values())
    assert not net.losses(population, field).any()
    assert not net.evaluate(population, field).any()


def test_dropout_is_drawn_from_the_generator_and_off_in_evaluation(data: Data) -> None:
    net, population = make(dropout=0.5, layer_dropout=0.25), draw(12, seed=3)

    def losses(seed: int) -> np.ndarray:
        return net.losses(population, data.field, torch.Generator().manual_seed(seed))

    before = torch.get_rng_state()
    np.testing.assert_array_equal(losses(1), losses(1))
    assert not np.array_equal(losses(1), losses(2))
    generator = torch.Generator().manual_seed(1)
    np.testing.assert_allclose(net.gradient(population, data.field, generator)[1], losses(1))
    assert torch.equal(torch.get_rng_state(), before)
    sums = net.evaluate(population, data.field)
    assert net.training
    net.eval()
    np.testing.assert_allclose(sums[:, 0, 0] / len(data.train), losses(1), atol=1e-6)


def test_dropout_has_the_distribution_of_the_stand_alone_network(data: Data) -> None:
    net = make(dropout=0.5, layer_dropout=0.5)
    genotype = SPACE.parse("tanh | gcn<0 sage<1 | identity")
    generator = torch.Generator().manual_seed(0)
    shared = [float(net.losses([genotype], data.field, generator)[0]) for _ in range(300)]
    network = net.extract(genotype)
    alone = []
    for _ in range(300):
        scores = network(data.x, data.structure, generator=generator)[data.train]
        alone.append(functional.cross_entropy(scores, data.labels[data.train]).item())
    error = np.hypot(np.std(shared), np.std(alone)) / np.sqrt(300)
    assert abs(np.mean(shared) - np.mean(alone)) < 4 * error
    assert np.std(shared) == pytest.approx(np.std(alone), rel=0.25)


def test_one_seed_gives_one_network() -> None:
    first, second = make(), make()
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )


def test_a_directed_graph_is_measured_along_its_edges(data: Data) -> None:
    chain = torch.tensor(list(pairwise(range(5)))).T  # 0 -> 1 -> 2 -> 3 -> 4
    structure = Structure(chain, 5)
    x = torch.randn(5, 36, generator=torch.Generator().manual_seed(0))
    field = ReceptiveField(x, structure, torch.arange(5) % 3, [torch.tensor([2])])
    assert field.size(9) == 3
    net = make()
    population = [SPACE.parse(f"tanh | {kind}<0 {kind}<1 | identity") for kind in PAPER_TYPES]
    for genotype, loss in zip(population, net.losses(population, field), strict=True):
        scores = net.extract(genotype)(x, structure)
        expected = functional.cross_entropy(scores[2:3], torch.tensor([2]))
        assert loss == pytest.approx(expected.item(), abs=1e-5)
