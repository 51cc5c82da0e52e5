"""Every tensor is created where its inputs are.

Run on a stand-in for a graphics card, :mod:`devices`.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.datasets import load
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.conv import gen as gen_module
from autofgl.nn.features import InputFeatures
from autofgl.nn.kernels import sparse
from autofgl.nn.kernels.attention import AttentionPattern
from autofgl.nn.kernels.dropout import dropout_mask
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern, sampled_product, spmm
from autofgl.nn.models.networks import build_network, receptive_hops
from autofgl.nn.models.spec import FAMILIES, ModelSpec, NetworkSpec, SearchedSpec
from autofgl.nn.sampling.subgraphs import SubgraphSampler
from autofgl.nn.space import LAYER_TYPES, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import ReceptiveField, SuperNet
from autofgl.nn.supernet.relaxed import RelaxedNetwork, initial_logits
from devices import CARD, OneDevice

CLASSES, HIDDEN, FEATURES = 4, 16, 30


@pytest.fixture(scope="module")
def graph() -> ClientGraph:
    settings = DataSettings(nodes=120, features=FEATURES, classes=CLASSES, degree=5)
    return load("synthetic", seed=1, settings=settings)


@pytest.fixture(scope="module")
def structure(graph: ClientGraph) -> Structure:
    return Structure.from_client(graph)


@pytest.fixture(autouse=True)
def _safe_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """GEN looks at its values to choose between two equations; a shape has none."""
    monkeypatch.setattr(gen_module, "in_safe_range", lambda *_: True)


def take_a_step(model: nn.Module, logits: Tensor, labels: Tensor) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [value.grad for value in model.parameters() if value.grad is not None]
    assert grads
    assert all(grad.device == CARD for grad in grads)
    optimizer.step()
    assert all(value.device == CARD for value in model.state_dict().values())


SPECS: list[NetworkSpec] = [
    *(ModelSpec(family, FEATURES, CLASSES, HIDDEN, dropout=0.5) for family in FAMILIES),
    *(
        SearchedSpec(f"relu | {kind}<0 gcn<1 | tanh", FEATURES, CLASSES, HIDDEN, 0.5, 0.25)
        for kind in LAYER_TYPES
    ),
]
NAMES = [spec.genotype if isinstance(spec, SearchedSpec) else spec.family for spec in SPECS]


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_a_network_stays_on_its_device(
    spec: NetworkSpec, graph: ClientGraph, structure: Structure, dense: bool
) -> None:
    features = InputFeatures.from_client(graph.x)
    features = InputFeatures(features.to_dense()) if dense else features
    model = build_network(spec, torch.Generator().manual_seed(0)).to(CARD)
    labels = torch.from_numpy(graph.y).to(CARD)
    with OneDevice():
        generator = torch.Generator().manual_seed(0)
        logits = model(features.to(CARD), structure.to(CARD), generator=generator)
        assert logits.device == CARD
        take_a_step(model, logits, labels)
        model.eval()(features.to(CARD), structure.to(CARD))


def test_so_does_the_other_equation_of_gen(
    structure: Structure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gen_module, "in_safe_range", lambda *_: False)
    conv = CONVOLUTIONS["gen"].make(HIDDEN).to(CARD)
    x = torch.zeros(structure.num_nodes, HIDDEN, device=CARD)
    with OneDevice():
        logits = conv(x, structure.to(CARD))
        take_a_step(conv, logits, torch.zeros(len(x), dtype=torch.int64, device=CARD))


@pytest.mark.parametrize("family", ["gcn", "gat", "arma", "gin"])
def test_a_mini_batch_is_drawn_here_and_moved(
    family: str, graph: ClientGraph, structure: Structure
) -> None:
    spec = ModelSpec(family, FEATURES, CLASSES, HIDDEN)
    model = build_network(spec, torch.Generator().manual_seed(0)).to(CARD)
    hops = receptive_hops(spec)
    assert hops is not None
    sampler = SubgraphSampler(structure, [3] * hops)
    part = sampler.draw(np.arange(8), np.random.default_rng(0))
    rows = InputFeatures.from_client(graph.x).rows(part.nodes)
    labels = torch.from_numpy(graph.y[:8]).to(CARD)
    with OneDevice():
        generator = torch.Generator().manual_seed(0)
        logits = model(rows.to(CARD), part.structure.to(CARD), generator=generator)[:8]
        take_a_step(model, logits, labels)
    with pytest.raises(ValueError, match="on the CPU"):
        SubgraphSampler(structure.to(CARD), [3])


def test_a_supernet_stays_on_its_device(graph: ClientGraph, structure: Structure) -> None:
    space = Space(3, LAYER_TYPES)
    net = SuperNet(space, FEATURES, CLASSES, HIDDEN, dropout=0.5, layer_dropout=0.25)
    net.reset_parameters(torch.Generator().manual_seed(0))
    net.to(CARD)
    labels = torch.from_numpy(graph.y.copy())
    nodes = [torch.from_numpy(np.flatnonzero(graph.train_mask))]
    features = InputFeatures.from_client(graph.x)
    around = ReceptiveField(features, structure, labels, nodes, CARD)
    rng = np.random.default_rng(0)
    population = [space.random(rng) for _ in range(12)]
    texts = [f"relu | {kind}<0 gcn<1 | tanh" for kind in LAYER_TYPES]
    population += [space.parse(text) for text in texts]
    total: dict[str, Tensor] = {}
    with OneDevice():  # all of it but the copy of the numbers, which a shape has not
        plan, generator = net.plan(population), torch.Generator().manual_seed(0)
        start, sweep = net._sweep(plan, around, generator, differentiable=True)
        outputs = sweep.outputs().requires_grad_()
        scores = net._heads(plan, outputs, sweep.order, generator)
        losses = around.mean_losses(scores)
        (upstream,) = torch.autograd.grad(losses.sum(), [outputs])
        upstream = sweep.backward(upstream, net._group_parameters, total)
        assert around.part_sums(scores.detach()).device == CARD
        inputs = [value for _, value in net._named("inputs", plan.inputs)]
        torch.autograd.grad(start, inputs, upstream)
    assert total
    assert all(value.device == CARD for value in total.values())


@pytest.mark.parametrize("layers", [0, 2])
def test_the_relaxation_stays_on_its_device(
    graph: ClientGraph, structure: Structure, layers: int
) -> None:
    space = Space(layers, LAYER_TYPES)
    net = SuperNet(space, FEATURES, CLASSES, HIDDEN, dropout=0.5, layer_dropout=0.25).to(CARD)
    logits = torch.tensor(initial_logits(space), dtype=torch.float32, device=CARD)
    features = InputFeatures.from_client(graph.x).to(CARD)
    with OneDevice():
        generator = torch.Generator().manual_seed(0)
        relaxed = RelaxedNetwork(net)
        scores = relaxed(logits.requires_grad_(), features, structure.to(CARD), generator)
        (slope,) = torch.autograd.grad(scores.sum(), [logits])
    assert slope.device == CARD


CARELESS: dict[str, Callable[[Tensor], object]] = {
    "a new tensor": lambda x: x + torch.arange(len(x)),
    "an index": lambda x: x[torch.zeros(1, dtype=torch.int64)],
    "a target": lambda x: torch.zeros(len(x)).index_add_(0, torch.arange(len(x)), x),
}


@pytest.mark.parametrize("what", CARELESS)
def test_a_tensor_elsewhere_is_noticed(what: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, NotImplementedError)), OneDevice():
        CARELESS[what](torch.zeros(3, device=CARD))


def test_a_careless_convolution_is_noticed(
    graph: ClientGraph, structure: Structure, monkeypatch: pytest.MonkeyPatch
) -> None:
    conv = CONVOLUTIONS["gcn"].make(HIDDEN).to(CARD)
    careful = type(conv).convolve
    careless = lambda self, x, edges: careful(self, x, edges) + torch.ones(HIDDEN)  # noqa: E731
    monkeypatch.setattr(type(conv), "convolve", careless)
    x = torch.zeros(graph.num_nodes, HIDDEN, device=CARD)
    with pytest.raises((AssertionError, RuntimeError)), OneDevice():
        conv(x, structure.to(CARD))


def test_a_mask_is_the_same_wherever_it_is_needed() -> None:
    shape = torch.Size([7, 9])
    draws = [torch.Generator().manual_seed(3) for _ in range(2)]
    here = dropout_mask(shape, 0.3, draws[0], device=torch.device("cpu"))
    with OneDevice():
        there = dropout_mask(shape, 0.3, draws[1], device=CARD)
    assert there.device == CARD
    assert draws[0].get_state().equal(draws[1].get_state())
    assert here.equal(dropout_mask(shape, 0.3, torch.Generator().manual_seed(3)))


def test_kernels_without_csr_products_compute_the_same(
    structure: Structure, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, dense = structure.gcn.pattern, torch.randn(structure.num_nodes, 5)
    values = torch.rand(pattern.nnz)

    def results() -> list[Tensor]:
        inputs = [dense.clone().requires_grad_(), values.clone().requires_grad_()]
        out = [
            SparseOperator(pattern, values) @ inputs[0],
            spmm(pattern, inputs[1], inputs[0]),
            sampled_product(pattern, inputs[0], dense).unsqueeze(1),
            AttentionPattern(pattern).softmax(inputs[1].unsqueeze(1)),
        ]
        total = torch.stack([one.square().sum() for one in out]).sum()
        return [*out, *torch.autograd.grad(total, inputs)]

    expected = results()
    monkeypatch.setattr(sparse, "_CSR_DEVICES", ())
    for ours, theirs in zip(results(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_pattern_sorted_on_a_device_is_the_one_counted_here(structure: Structure) -> None:
    pattern = structure.sum.pattern
    sorted_there = sparse._transpose_by_sorting(pattern.crow, pattern.col, pattern.shape)
    assert all(map(torch.equal, sorted_there, (pattern.crow_t, pattern.col_t, pattern.to_t)))
    moved = SparsePattern.from_csr(pattern.crow.to(CARD), pattern.col.to(CARD), pattern.shape)
    assert moved.from_t.device == CARD
