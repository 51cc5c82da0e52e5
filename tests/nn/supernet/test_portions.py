"""What memory has no room for is computed in parts, and comes to the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.features import InputFeatures
from autofgl.nn.space import Genotype, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import ReceptiveField, SuperNet
from autofgl.nn.supernet.narrowing import narrow
from autofgl.nn.supernet.portions import MemoryBudget, Portion

SPACE, WIDTH, CLASSES = Space(4, stop=0.15), 16, 3


def make(space: Space = SPACE, features: int = 36) -> SuperNet:
    net = SuperNet(space, features, CLASSES, hidden=WIDTH)
    net.reset_parameters(torch.Generator().manual_seed(1))
    return net


def draw(count: int, space: Space = SPACE) -> list[Genotype]:
    generator = np.random.default_rng(0)
    return [space.random(generator) for _ in range(count)]


@pytest.fixture(scope="module")
def field(small_graph: ClientGraph) -> ReceptiveField:
    x = InputFeatures.from_client(small_graph.x)
    labels = torch.from_numpy(small_graph.y.copy())
    nodes = torch.arange(0, small_graph.num_nodes, 3)
    return ReceptiveField(x, Structure.from_client(small_graph), labels, [nodes])


@pytest.fixture(scope="module")
def ring() -> ReceptiveField:
    """A ring of 400 nodes: half of its nodes reach little more than half of it."""
    ahead = torch.arange(400).roll(-1)
    edges = torch.cat([torch.stack([torch.arange(400), ahead]), torch.stack([ahead, ahead - 1])], 1)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(400, 6, generator=generator)
    labels = torch.randint(0, CLASSES, (400,), generator=generator)
    parts = [torch.arange(0, 400, 2), torch.arange(0, 100)]
    return ReceptiveField(x, Structure(edges % 400, 400), labels, parts)


def portions(
    net: SuperNet, population: list[Genotype], field: ReceptiveField, memory: int
) -> list[Portion]:
    budget = MemoryBudget(memory, WIDTH, CLASSES, per_predecessor=False)
    return list(budget.portions(net.plan(population), population, field, differentiable=True))


def test_portions_have_every_network_once_and_fit(field: ReceptiveField) -> None:
    net, population, memory = make(), draw(30), 1_000_000
    parts = portions(net, population, field, memory)
    assert len(parts) > 1
    assert sorted(row for part in parts for row in part.rows) == list(range(30))
    budget = MemoryBudget(memory, WIDTH, CLASSES, per_predecessor=False)
    for part in parts:
        assert [population[row] for row in part.rows] == part.population
        assert budget.takes(net.plan(part.population), part.field, True) <= memory


def test_what_fits_is_left_alone(field: ReceptiveField) -> None:
    net, population = make(), draw(30)
    (part,) = portions(net, population, field, 1 << 30)
    assert part.population is population
    assert part.field is field


def test_one_network_that_is_too_large_has_its_nodes_halved(ring: ReceptiveField) -> None:
    space = Space(2, ("gen", "gatedgraph"), stop=0.0)
    net, population = make(space, 6), draw(1, space)
    parts = portions(net, population, ring, 300_000)
    assert len(parts) > 1
    assert [part.start for part in parts] == np.cumsum(
        [0, *(part.field.measured for part in parts)]
    )[:-1].tolist()
    assert sum(part.field.measured for part in parts) == ring.measured


def test_where_all_reach_everything_nothing_is_halved(field: ReceptiveField) -> None:
    net = make()
    population = [net.space.parse("relu | gen<0 appnp<1 appnp<2 | tanh")]
    assert len(portions(net, population, field, 1000)) == 1


@pytest.mark.parametrize("memory", [60_000, 300_000])
def test_the_parts_add_up(memory: int, ring: ReceptiveField) -> None:
    space = Space(2, ("gcn", "sage", "gat", "gen", "gmm"), stop=0.0)
    net, population = make(space, 6), draw(7, space)
    wholes = (
        net.gradient(population, ring), net.evaluate(population, ring),
        net.losses(population, ring), net.outputs_of(population, ring),
    )  # fmt: skip
    net.memory = memory
    assert len(portions(net, population, ring, memory)) > 2
    gradient, losses = net.gradient(population, ring)
    assert gradient.keys() == wholes[0][0].keys()
    for name, value in gradient.items():
        np.testing.assert_allclose(value, wholes[0][0][name], atol=2e-5, err_msg=name)
    np.testing.assert_allclose(losses, wholes[0][1], atol=1e-6)
    np.testing.assert_allclose(net.evaluate(population, ring), wholes[1], rtol=1e-5)
    np.testing.assert_allclose(net.losses(population, ring), wholes[2], atol=1e-6)
    torch.testing.assert_close(net.outputs_of(population, ring), wholes[3], atol=1e-5, rtol=1e-4)


def test_halves_are_measured_by_the_same_loss(ring: ReceptiveField) -> None:
    def zero(scores: Tensor, labels: Tensor) -> Tensor:
        return 0 * scores[:, 0] * labels

    before = ring.node_loss
    try:
        ring.halves()
        ring.node_loss = zero
        assert all(half.node_loss is zero for half in ring.halves())
    finally:
        ring.node_loss = before


@contextmanager
def saved_numbers(known: set[int]) -> Iterator[dict[int, tuple[int, Tensor]]]:
    """Floating-point numbers that autograd keeps meanwhile, by storage, but for known ones."""
    seen: dict[int, tuple[int, Tensor]] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided and tensor.is_floating_point():
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                seen[storage.data_ptr()] = storage.nbytes() // 4, tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield seen


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_layer_holds_what_it_says(kind: str) -> None:
    """Neither more nor, by far, less: the plan of the memory stands on it."""
    nodes, width, generator = 300, 32, torch.Generator().manual_seed(0)
    layer = CONVOLUTIONS[kind]
    for degree in (3, 9):
        source = torch.randint(0, nodes, (nodes * degree,), generator=generator)
        target = torch.arange(nodes).repeat_interleave(degree)
        structure = Structure(torch.stack([source, target]), nodes)
        convolution = layer.make(width)
        convolution.reset_parameters(generator)
        x = torch.randn(nodes, width, generator=generator).requires_grad_()
        hops = [(structure, nodes)] * layer.hops
        narrow(convolution, x, hops)  # lays out what is kept
        known = {tensor.data_ptr() for tensor in (x, *convolution.parameters())}
        with saved_numbers(known) as seen:
            out = narrow(convolution, x, hops)
        seen.pop(out.untyped_storage().data_ptr(), None)
        held = sum(count for count, _ in seen.values())
        edges = nodes * (degree + 1)
        planned = layer.held * width * nodes + layer.held_edge * edges
        slack = 3 * nodes  # a few numbers for each node, whatever the width
        assert held <= planned + slack
        assert planned <= 1.5 * held + slack


def test_a_pass_keeps_no_more_than_planned(field: ReceptiveField) -> None:
    net, population = make(), draw(20)
    net.gradient(population, field)  # lays out what is kept
    budget = MemoryBudget(1, WIDTH, CLASSES, per_predecessor=False)
    planned = budget.takes(net.plan(population), field, differentiable=True)
    known = {parameter.data_ptr() for parameter in net.parameters()}
    with saved_numbers(known) as seen:
        net.gradient(population, field)
    held = 4 * sum(count for count, _ in seen.values())
    assert 0.3 * planned < held <= planned
