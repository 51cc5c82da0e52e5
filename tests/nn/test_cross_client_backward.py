"""Backpropagation across clients: the clients' gradients add up to that of the uncut graph."""

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import pool
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.cross_client import (
    ClientOperators,
    CrossClientStructure,
    closed_hops,
    run_together,
)
from autofgl.nn.cross_client_backward import BackwardPass, LeafRows
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.base import GNN
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import FAMILIES, ModelSpec, NetworkSpec, SearchedSpec
from autofgl.nn.structure import Structure
from autofgl.seeding import torch_generator
from families import family

FIXED = [name for name in FAMILIES if name != "sfgnn"]


@pytest.fixture(scope="module")
def clients(small_graph: ClientGraph) -> list[ClientGraph]:
    return autofgl.partition(small_graph, clients=3, method="random", seed=0)


def network(spec: NetworkSpec) -> GNN:
    return build_network(spec, torch_generator(0, "weights")).eval()


def loss_of(output: Tensor, graph: ClientGraph) -> Tensor:
    nodes = torch.from_numpy(graph.train_mask)
    labels = torch.from_numpy(graph.y)[nodes]
    return functional.cross_entropy(output[nodes], labels, reduction="sum")


def of_uncut(clients: Sequence[ClientGraph], spec: NetworkSpec) -> dict[str, Tensor]:
    """The gradient on the pooled graph."""
    whole, model = pool(clients), network(spec)
    output = model(InputFeatures.from_client(whole.x), Structure.from_client(whole))
    loss_of(output, whole).backward()  # type: ignore[no-untyped-call]
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def together(clients: Sequence[ClientGraph], spec: NetworkSpec) -> dict[str, Tensor]:
    """The sum of the clients' gradients, their own and what the others' losses owe to them."""
    closed, graphs = closed_hops(spec, "all"), {one.name: one for one in clients}
    features = {name: InputFeatures.from_client(one.x) for name, one in graphs.items()}
    structures = {
        name: CrossClientStructure(ClientOperators(one), closed) for name, one in graphs.items()
    }
    models = {name: network(spec) for name in graphs}

    def run(name: str) -> Tensor:
        output: Tensor = models[name](features[name], structures[name])
        return output

    with torch.no_grad():
        run_together(structures, run)
    passes, received = {}, {}
    for name, graph in graphs.items():
        with LeafRows(structures[name]) as rows:
            loss_of(run(name), graph).backward()  # type: ignore[no-untyped-call]
        received[name] = rows.gradients()
        passes[name] = BackwardPass(structures[name], partial(run, name))
    for hop in next(iter(passes.values())).hops:
        told = {name: received[name][hop] + one.to_owners(hop) for name, one in passes.items()}
        for name, gradient in told.items():
            near = structures[name].operators.neighborhood
            for index, owner in enumerate(near.owners):
                mine = near.owner == index
                nodes = torch.from_numpy(near.remote[mine])
                passes[owner].add(hop, nodes, gradient[torch.from_numpy(mine)])
    total: dict[str, Tensor] = {}
    for name, model in models.items():
        named = [(key, value) for key, value in model.named_parameters() if value.requires_grad]
        owed = passes[name].parameter_gradients([value for _, value in named])
        for (key, value), others in zip(named, owed, strict=True):
            own = torch.zeros_like(value) if value.grad is None else value.grad
            total[key] = total.get(key, torch.zeros_like(value)) + own + others
    return total


def check(clients: Sequence[ClientGraph], spec: NetworkSpec) -> None:
    expected, found = of_uncut(clients, spec), together(clients, spec)
    assert any(bool(value.abs().max() > 1e-3) for value in expected.values())
    for name, value in expected.items():
        scale = max(1.0, float(value.abs().max()))
        assert torch.allclose(found[name] / scale, value / scale, atol=1e-5), name


@pytest.mark.parametrize("name", family(FIXED, ["gcn", "sage", "appnp", "gat"]))
def test_gradients_are_those_of_the_uncut_graph(name: str, clients: list[ClientGraph]) -> None:
    graph = clients[0]
    check(clients, ModelSpec(name, graph.num_features, graph.classes, hidden=16, heads=4, layers=3))


GENOTYPES = [f"relu | {kind}<0 {kind}<1 | identity" for kind in CONVOLUTIONS]


@pytest.mark.parametrize("genotype", family(GENOTYPES, ["relu | gen<0 gen<1 | identity"]))
def test_so_are_those_of_a_searched_network(genotype: str, clients: list[ClientGraph]) -> None:
    graph = clients[0]
    check(clients, SearchedSpec(genotype, graph.num_features, graph.classes, hidden=8))
