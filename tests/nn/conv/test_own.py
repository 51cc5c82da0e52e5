"""Layers from outside the package in searched networks and in the SuperNet."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv, TransformerConv

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.conv.own import OwnConvolution
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import SearchedSpec, own_names, spec_from_json
from autofgl.nn.space import Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet.network import SuperNet
from autofgl.nn.supernet.receptive_field import ReceptiveField
from autofgl.seeding import torch_generator

FAR = f"{Path(__file__)}:FarConv"
TYPES = ("gcn", FAR, "torch_geometric.nn:TransformerConv", "sage")
SEARCH = {"layers": 2, "hidden": 8, "rounds": 3, "candidates": 3, "candidate_rounds": 2}
SEARCH |= {"finalists": 1}


class FarConv(nn.Module):
    """Two hops with GCN's normalization, which depends on degrees two hops away."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.first, self.last = GCNConv(width, width), GCNConv(width, out)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(x, edge_index), edge_index)


class NormedConv(SAGEConv):
    """A layer with buffers."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out)
        self.norm = nn.BatchNorm1d(out)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.norm(super().forward(x, edge_index))


class NarrowConv(GCNConv):
    """Gives another width than asked for."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out // 2)


def test_it_is_the_layer_itself(small_graph: ClientGraph) -> None:
    structure = Structure.from_client(small_graph)
    ours = OwnConvolution("torch_geometric.nn:TransformerConv", 8)
    ours.reset_parameters(torch_generator(0, "x"))
    state = torch.get_rng_state()
    torch.manual_seed(torch_generator(0, "x").initial_seed())
    theirs = TransformerConv(8, 8)
    torch.set_rng_state(state)
    x = torch.rand(small_graph.num_nodes, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours.eval()(x, structure), theirs.eval()(x, structure.edge_index))


def test_architectures_name_it_in_lower_case() -> None:
    space = Space(2, TYPES)
    assert space.types == ("gcn", "farconv", "transformerconv", "sage")
    genotype = space.parse("relu | farconv<0 transformerconv<1 | identity")
    assert space.decode(space.encode(genotype)) == genotype
    spec = SearchedSpec(str(genotype), 4, 2, hidden=8, own_layers=space.own)
    assert spec_from_json(spec.to_json()) == spec
    assert own_names(spec) == {FAR, "torch_geometric.nn:TransformerConv"}
    names = list(build_network(spec).state_dict())
    assert "convs.0.layer.first.lin.weight" in names
    with pytest.raises(UserError, match="rename its class"):
        Space(1, ["somewhere.py:GCN"])
    assert not {"farconv"} & CONVOLUTIONS.keys()


def test_a_path_of_the_supernet_equals_its_stand_alone_network(small_graph: ClientGraph) -> None:
    space = Space(2, TYPES)
    net = SuperNet(space, small_graph.num_features, 3, hidden=8)
    net.reset_parameters(torch_generator(0, "supernet"))
    features = InputFeatures.from_client(small_graph.x)
    structure = Structure.from_client(small_graph)
    nodes = torch.tensor([3, 40, 77])
    labels = torch.from_numpy(small_graph.y)
    field = ReceptiveField(features, structure, labels, [nodes])
    texts = ["relu | farconv<0 gcn<1 | identity", "relu | gcn<0 farconv<1 | identity"]
    texts += ["tanh | transformerconv<0 sage<0 | identity"]
    population = [space.parse(text) for text in texts]
    gradient, losses = net.gradient(population, field)
    for genotype, loss in zip(population, losses, strict=True):
        alone = net.extract(genotype)
        scores = alone(features, structure)[nodes]
        expected = nn.functional.cross_entropy(scores, labels[nodes])
        assert np.isclose(loss, float(expected.detach()), atol=1e-5)
    alone = net.extract(population[0])
    nn.functional.cross_entropy(alone(features, structure)[nodes], labels[nodes]).backward()
    name = "layers.1-farconv.layer.first.lin.weight"
    expected_gradient = alone.convs[0].layer.first.lin.weight.grad
    only = net.gradient(population[:1], field)[0]
    assert np.allclose(only[name], expected_gradient, atol=1e-5)
    assert name in gradient


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fl-random", "fl-agcns"])
def test_a_search_over_them_runs(
    method: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    settings = {**SEARCH, "types": f"{FAR},torch_geometric.nn:TransformerConv", "stop": 0.0}
    if method == "fl-agcns":
        settings = {"layers": 2, "hidden": 8, "rounds": 3, "finalists": 1, "stop": 0.0}
        settings |= {"types": f"{FAR},torch_geometric.nn:TransformerConv", "generations": 2}
        settings |= {"population": 6, "codes_per_step": 3, "weight_steps": 1, "warmup": 1}
        settings |= {"trials": 0}
    result = autofgl.run(method, small_clients, out=tmp_path / "run", **settings)
    names = {
        word.partition("<")[0] for word in result.figures["architecture"].split("|")[1].split()
    }
    assert names <= {"farconv", "transformerconv", "-"}
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (small_clients[0].num_nodes, 3)


def test_what_does_not_fit_is_one_line(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    narrow, normed = (f"{Path(__file__)}:{name}" for name in ("NarrowConv", "NormedConv"))
    with pytest.raises(UserError, match=r"gives \[3, 4\] for 3 nodes, and not \[3, 8\]"):
        autofgl.run("fl-random", small_clients, out=tmp_path / "a", types=narrow, **SEARCH)
    other = {"types": "torch_geometric.nn:GINEConv", **SEARCH}
    with pytest.raises(UserError, match="does not work as Layer"):
        autofgl.run("fl-random", small_clients, out=tmp_path / "b", **other)
    with pytest.raises(UserError, match="has buffers, which a SuperNet cannot share"):
        autofgl.run("fl-agcns", small_clients, out=tmp_path / "c", types=normed, hidden=8)
