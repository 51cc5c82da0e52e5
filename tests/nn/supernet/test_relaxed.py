"""The relaxation is the discrete network where it is certain, and a mixture elsewhere."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS
from autofgl.nn.space import Genotype, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import SuperNet
from autofgl.nn.supernet.relaxed import (
    RelaxedNetwork,
    confidence,
    entropy,
    fusion_weights,
    initial_logits,
    likely_genotypes,
    most_likely_genotype,
    split_genes,
)

SPACE = Space(3, stop=0.15)


def make(space: Space = SPACE, **options: object) -> SuperNet:
    net = SuperNet(space, 36, 3, hidden=8, **options)
    net.reset_parameters(torch.Generator().manual_seed(1))
    return net


def certain(space: Space, genotype: Genotype, height: float = 60.0) -> Tensor:
    """Logits that leave no doubt about a genotype."""
    genes = [
        functional.one_hot(torch.tensor(int(choice)), int(count)).float() * 2 * height - height
        for choice, count in zip(space.encode(genotype), space.cardinalities, strict=True)
    ]
    return torch.cat(genes)


def doubtful(space: Space, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    size = int(space.cardinalities.sum())
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.fixture(scope="module")
def x(small_graph: ClientGraph) -> InputFeatures:
    return InputFeatures.from_client(small_graph.x).row_normalized()


@pytest.fixture(scope="module")
def structure(small_graph: ClientGraph) -> Structure:
    return Structure.from_client(small_graph)


@pytest.mark.parametrize("fusion", ["all", "leaves"])
def test_certain_logits_give_the_discrete_network(
    fusion: str, x: InputFeatures, structure: Structure
) -> None:
    net = make(fusion=fusion).eval()
    generator = np.random.default_rng(0)
    population = [SPACE.random(generator) for _ in range(12)]
    texts = ("tanh | - | softmax", "relu | gcn<0 | identity", "sigmoid | gin<0 agnn<0 | relu")
    population += [SPACE.parse(text) for text in texts]
    assert {genotype.depth for genotype in population} == {0, 1, 2, 3}
    for genotype in population:
        got = RelaxedNetwork(net)(certain(SPACE, genotype), x, structure)
        torch.testing.assert_close(
            got, net.extract(genotype)(x, structure), atol=1e-5, rtol=1e-5, msg=str(genotype)
        )


def test_one_layer_by_hand(x: InputFeatures, structure: Structure) -> None:
    space = Space(1)
    net, logits = make(space).eval(), doubtful(space)
    inputs, kinds, previous, outputs = (
        np.exp(gene.numpy()) / np.exp(gene.numpy()).sum() for gene in split_genes(space, logits)
    )
    dense = x.to_dense()
    start = sum(
        float(p)
        * ACTIVATION_FUNCTIONS[name](dense @ net.inputs[name].weight + net.inputs[name].bias)
        for p, name in zip(inputs, space.activations, strict=True)
    )
    layer = sum(
        float(p) * net.layers[f"1-{kind}"](start, structure)
        for p, kind in zip(kinds, space.types, strict=True)
    )
    fused = float(previous[0]) * start + float(previous[1]) * layer
    expected = sum(
        float(p)
        * ACTIVATION_FUNCTIONS[name](fused @ net.outputs[name].weight + net.outputs[name].bias)
        for p, name in zip(outputs, space.activations, strict=True)
    )
    torch.testing.assert_close(RelaxedNetwork(net)(logits, x, structure), expected)


def test_the_fusion_is_the_expected_mean() -> None:
    """Over all ways to draw ends and predecessors, of three layers, by counting them."""
    previous = [doubtful(SPACE, seed)[: i + 1].softmax(0).double() for i, seed in ((1, 0), (2, 1))]
    previous.append(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64))
    expected = np.zeros(4)
    for depth in range(4):
        chance = np.prod([1 - float(p[0]) for p in previous[:depth]])
        chance *= 1.0 if depth == 3 else float(previous[depth][0])
        expected[1 : depth + 1] += chance / max(depth, 1)
        expected[0] += chance if depth == 0 else 0.0
    ends = [p[:1] for p in previous]
    shares = [p[1:] / p[1:].sum() for p in previous]
    np.testing.assert_allclose(fusion_weights(ends, shares, "all"), expected, rtol=1e-12)


def test_leaves_count_as_likely_as_they_are() -> None:
    """Two layers that exist for certain; the second reads the first with probability 0.3."""
    ends = [torch.zeros(1), torch.zeros(1)]
    shares = [torch.ones(1), torch.tensor([0.7, 0.3])]
    got = fusion_weights(ends, shares, "leaves")
    np.testing.assert_allclose(got, [0, 0.7 / 1.7, 1 / 1.7], rtol=1e-6)


@pytest.mark.parametrize("fusion", ["all", "leaves"])
def test_the_gradient_of_the_logits_by_differences(fusion: str, small_graph: ClientGraph) -> None:
    space = Space(2)
    net = make(space, fusion=fusion).eval().double()
    edges = torch.tensor(small_graph.edge_index)
    graph = Structure(edges, small_graph.num_nodes, torch.float64)
    features = InputFeatures.from_client(small_graph.x, torch.float64).row_normalized()
    labels = torch.from_numpy(small_graph.y.copy())
    network = RelaxedNetwork(net)

    def loss(logits: Tensor) -> Tensor:
        return functional.cross_entropy(network(logits, features, graph), labels)

    logits = doubtful(space, 3, torch.float64).requires_grad_()
    (got,) = torch.autograd.grad(loss(logits), logits)
    step = 1e-5
    with torch.no_grad():
        expected = torch.stack(
            [
                (loss(logits + step * unit) - loss(logits - step * unit)) / (2 * step)
                for unit in torch.eye(len(logits), dtype=torch.float64)
            ]
        )
    assert float(expected.abs().min()) > 0
    torch.testing.assert_close(got, expected, atol=1e-9, rtol=1e-5)


def test_dropout_is_that_of_the_discrete_network(x: InputFeatures, structure: Structure) -> None:
    """Certain logits draw the same masks in the same order."""
    net = make(Space(1), dropout=0.5, layer_dropout=0.25).train()
    genotype = net.space.parse("tanh | sage<0 | identity")
    logits = certain(net.space, genotype)

    def relaxed(seed: int) -> Tensor:
        return RelaxedNetwork(net)(logits, x, structure, torch.Generator().manual_seed(seed))

    alone = net.extract(genotype)(x, structure, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(relaxed(5), alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(relaxed(6), alone, atol=1e-3)


def test_the_initial_logits_are_those_of_random_codes() -> None:
    genes = [
        gene.softmax(0) for gene in split_genes(SPACE, torch.from_numpy(initial_logits(SPACE)))
    ]
    for index, gene in enumerate(genes[2:-1:2], start=1):
        np.testing.assert_allclose(gene, [0.15, *[0.85 / index] * index], rtol=1e-9)
    for gene in [genes[0], genes[-1], *genes[1:-1:2]]:
        np.testing.assert_allclose(gene, 1 / len(gene), rtol=1e-9)
    assert np.isfinite(initial_logits(Space(2, stop=0.0))).all()
    assert not initial_logits(Space(2)).any()


def test_the_most_likely_code_is_read_off() -> None:
    for text in (
        "relu | gcn<0 gat<1 sage<0 | identity",
        "tanh | appnp<0 | relu",
    ):
        logits = certain(SPACE, SPACE.parse(text), 1.0).double().numpy()
        assert str(most_likely_genotype(SPACE, logits)) == text
        assert most_likely_genotype(SPACE, logits) == SPACE.parse(text)
    # A layer after the end does not matter, whatever it prefers.
    logits = certain(SPACE, SPACE.parse("relu | gcn<0 | relu"), 1.0).double()
    split_genes(SPACE, logits)[6][2] = 9.0
    assert str(most_likely_genotype(SPACE, logits.numpy())) == "relu | gcn<0 | relu"


def test_likely_codes_are_drawn_by_their_probability() -> None:
    rng = np.random.default_rng(0)
    logits = np.asarray(initial_logits(SPACE))
    found = likely_genotypes(SPACE, logits, 12, rng)
    assert found[0] == most_likely_genotype(SPACE, logits)
    assert len({one.shape() for one in found}) == len(found) == 12
    assert all(one.layers for one in found), "a network has a layer"
    sure = 50.0 * (np.random.default_rng(1).permutation(len(logits)) % 7 == 0) + logits
    again = likely_genotypes(SPACE, sure, 5, rng)
    assert again[0] == most_likely_genotype(SPACE, sure)


def test_there_is_always_a_first_layer() -> None:
    logits = certain(SPACE, SPACE.parse("tanh | - | tanh"), 1.0).double()
    split_genes(SPACE, logits)[1][SPACE.types.index("sage")] = 9.0
    assert str(most_likely_genotype(SPACE, logits.numpy())) == "tanh | sage<0 | tanh"


def test_entropy_and_confidence() -> None:
    nothing = np.zeros(int(SPACE.cardinalities.sum()))
    assert entropy(SPACE, nothing) == pytest.approx(1)
    assert confidence(SPACE, nothing) == pytest.approx(list(1 / SPACE.cardinalities))
    sure = certain(SPACE, SPACE.parse("relu | gcn<0 | relu"), 400.0).double().numpy()
    assert entropy(SPACE, sure) == pytest.approx(0, abs=1e-12)
    assert confidence(SPACE, sure) == pytest.approx([1.0] * 8)
    space = Space(0, activations=("relu", "tanh"))
    half = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    got = entropy(space, np.array([0.0, np.log(3), 0.0, 0.0]))
    assert got == pytest.approx((half + 1) / 2)


def test_convolutions_of_each_predecessor_are_refused() -> None:
    with pytest.raises(UserError, match="shared"):
        RelaxedNetwork(make(per_predecessor=True))
