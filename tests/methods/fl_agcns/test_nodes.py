"""On which nodes a client's SuperNet learns and is measured, where it does not take all."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from autofgl.errors import GraphNotice
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import SharedSuperNet
from autofgl.methods.fl_agcns.nodes import BATCH, SearchNodes, too_large
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, genotypes, make_space
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.sampling.subgraphs import SubgraphSampler
from autofgl.nn.space import Genotype, Layer
from autofgl.nn.supernet import ReceptiveField
from autofgl.runtime.client_data import ClientData
from federations import make

SMALL: dict[str, Any] = {
    "layers": 2, "hidden": 8, "population": 6, "dropout": 0.0, "weight_steps": 2, "known": False,
}  # fmt: skip


def nodes_of(graph: ClientGraph, seed: int = 0, **settings: Any) -> SearchNodes:
    return SearchNodes(ClientData(graph, seed), FLAGCNSSettings(**{**SMALL, **settings}))


def supernet(graph: ClientGraph, **settings: Any) -> Any:
    return SharedSuperNet(ClientData(graph, 0), FLAGCNSSettings(**{**SMALL, **settings})).network


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_subgraph_with_all_neighbors_is_as_good_as_the_graph(
    kind: str, small_graph: ClientGraph
) -> None:
    """Losses and gradients of two layers of each kind, at some nodes."""
    hops = 2 * CONVOLUTIONS[kind].hops
    net = supernet(small_graph, types=f"{kind},gcn" if kind != "gcn" else kind)
    population = [
        Genotype("tanh", (Layer(kind, 0), Layer(kind, 1)), "identity"),
        Genotype("relu", (Layer(kind, 0), Layer(kind, 0)), "identity"),
    ]
    inputs = ClientData(small_graph, 0).inputs(True)
    labels, asked = torch.from_numpy(small_graph.y.copy()), np.arange(0, 120, 30)
    drawn = SubgraphSampler(inputs.structure, [0] * hops).draw(asked)
    part = ReceptiveField.around(inputs.features, labels, drawn)
    whole = ReceptiveField(inputs.features, inputs.structure, labels, [torch.from_numpy(asked)])
    assert (part.measured, part.size(0)) == (4, 4)
    assert part.size(hops) == len(drawn.nodes)
    got, losses = net.gradient(population, part)
    want, expected = net.gradient(population, whole)
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5, err_msg=name)


def test_neighbors_that_are_drawn_stand_for_all(small_graph: ClientGraph) -> None:
    """On average over the draws the output of a layer that adds up neighbors is the graph's, also
    for several inputs side by side.
    """
    inputs = ClientData(small_graph, 0).inputs(True)
    sampler = SubgraphSampler(inputs.structure, [2])
    asked, rng = np.arange(0, 120, 24), np.random.default_rng(0)
    labels = torch.zeros(120, dtype=torch.int64)
    values = torch.randn(120, 2, 3, generator=torch.Generator().manual_seed(0))
    total = torch.zeros(len(asked), 2, 3)
    for _ in range(600):
        drawn = sampler.draw(asked, rng)
        field = ReceptiveField.around(inputs.features, labels, drawn)
        structure = field.structure(0, 2)
        rows = values[drawn.nodes].reshape(-1, 3)
        total += (structure.sum @ rows).view(-1, 2, 3)[: len(asked)]
    exact = (inputs.structure.sum @ values.view(120, 6)).view(120, 2, 3)[asked]
    torch.testing.assert_close(total / 600, exact, atol=0.5, rtol=0.05)


def test_batches_go_through_all_training_nodes(small_graph: ClientGraph) -> None:
    nodes = nodes_of(small_graph, batch=8, fanout="3")
    train = int(small_graph.train_mask.sum())
    steps = -(-train // 8)
    fields = [nodes.train_field(1 + step // 2, step % 2) for step in range(steps)]
    assert sum(field.measured for field in fields) == train
    again = nodes_of(small_graph, batch=8, fanout="3").train_field(1, 1)
    assert torch.equal(again._order, fields[1]._order), "by seed, client and step alone"
    assert not torch.equal(fields[0].labels, fields[1].labels)


def test_the_batches_of_an_epoch_have_the_gradient_of_all_nodes(small_graph: ClientGraph) -> None:
    """With all neighbors and networks that look no farther than a batch reaches."""
    train = int(small_graph.train_mask.sum())
    size = next(size for size in (2, 3, 4, 5, 6, 7) if train % size == 0)
    net = supernet(small_graph, types="gcn,sage,gat")
    texts = ("relu | gcn<0 sage<1 | tanh", "tanh | gat<0 | identity")
    population = [net.space.parse(text) for text in texts]
    whole, _ = net.gradient(population, nodes_of(small_graph).train_field(1, 0))
    nodes, count = nodes_of(small_graph, batch=size), train // size
    parts = [nodes.train_field(1 + at // 2, at % 2) for at in range(count)]
    gradients = [net.gradient(population, part)[0] for part in parts]
    for name, value in whole.items():
        mean = np.mean([gradient[name] for gradient in gradients], axis=0)
        np.testing.assert_allclose(mean, value, atol=1e-5, err_msg=name)


def test_the_sampled_loss_has_no_bias(small_graph: ClientGraph) -> None:
    """Over samples, the mean of the weighted sums is the sum over all validation nodes."""
    net = supernet(small_graph)
    genotype = net.space.parse("relu | gcn<0 sage<1 | tanh")
    data = ClientData(small_graph, 0).inputs("unit")
    scores = net.extract(genotype).eval()(data.features, data.structure)
    labels = torch.from_numpy(small_graph.y.copy())
    each = functional.cross_entropy(scores, labels, reduction="none").detach().numpy()
    total = each[small_graph.val_mask].sum()
    estimates = []
    for seed in range(80):
        nodes = nodes_of(small_graph, seed, val_sample=7)
        field = nodes.val_field
        assert field.measured == 7
        estimates.append(nodes.val_weight * each[field._nodes.numpy()].sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert error > 0
    assert abs(np.mean(estimates) - total) < 4 * error
    got = net.evaluate([genotype], field)[0, 0]
    np.testing.assert_allclose(got[0], each[field._nodes.numpy()].sum(), rtol=1e-4)


def test_federated_losses_weigh_clients_by_all_their_nodes(
    small_clients: list[ClientGraph],
) -> None:
    settings = {**SMALL, "val_sample": 3, "start": "relu | gcn<0 | tanh"}
    method = make("fl-agcns", small_clients, **settings)
    method.setup()
    codes = method.search.population[:1]
    figures = method.search.measure(codes)
    space = make_space(FLAGCNSSettings(**settings))
    expected, total = 0.0, sum(int(client.val_mask.sum()) for client in small_clients)
    for client in small_clients:
        nodes = nodes_of(client, val_sample=3)
        assert nodes.val_field.measured == 3 < nodes.val_nodes
        net = SharedSuperNet(ClientData(client, 0), FLAGCNSSettings(**settings)).network
        sums = net.evaluate(genotypes(space, codes), nodes.val_field)[0, 0]
        expected += nodes.val_nodes * sums[0] / 3 / total
    assert float(figures["losses"][0]) == pytest.approx(expected, abs=1e-6)


def test_a_client_that_is_too_large_takes_batches_and_says_so(small_graph: ClientGraph) -> None:
    large = {"layers": 12, "hidden": 64, "search_memory": 1}
    assert not too_large(small_graph, FLAGCNSSettings(**SMALL))
    assert too_large(small_graph, FLAGCNSSettings(**{**SMALL, **large}))
    with pytest.warns(GraphNotice, match=f"120 nodes are too many .* batch={BATCH} fanout=5,5"):
        nodes = nodes_of(small_graph, **large)
    assert nodes.train_field(1, 0).limit <= 2
    assert nodes.val_weight == 1  # it has fewer validation nodes than a batch


def test_a_batch_that_is_given_is_taken_without_a_word(small_graph: ClientGraph) -> None:
    nodes = nodes_of(small_graph, layers=12, hidden=64, search_memory=1, batch=4, fanout="2")
    assert nodes.train_field(1, 0).measured == 4
    assert nodes.val_field.measured == 8
    assert nodes.val_field is nodes.val_field, "the same nodes all the time"


def test_what_is_known_of_a_code_is_not_computed_again(small_clients: list[ClientGraph]) -> None:
    """Parents, children and own codes come several times in a generation."""
    method = make("fl-agcns", small_clients, **SMALL, warmup=0, generations=2)
    method.setup()
    party = next(iter(method.federation._actors.values())).party
    counted: list[str] = []
    usual = party._evaluate_anew

    def counting(networks: Any) -> Any:
        counted.extend(str(network) for network in networks)
        return usual(networks)

    party._evaluate_anew = counting
    method.step()
    assert len(counted) >= 2 * SMALL["population"] - 1
    assert len(counted) == len(set(counted))
