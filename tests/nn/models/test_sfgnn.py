"""The network of ASFGNN."""

import numpy as np
import torch

from autofgl.nn.models.networks import build_network
from autofgl.nn.models.sfgnn import DISCRIMINATOR, BlendedGNN, Discriminator, SeparatedGNN
from autofgl.nn.models.spec import BLENDED_FAMILY, BlendedSpec, ModelSpec
from autofgl.nn.structure import Structure

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def network(layers: int, dropout: float = 0.0) -> SeparatedGNN:
    spec = ModelSpec("sfgnn", in_features=5, classes=3, hidden=4, layers=layers, dropout=dropout)
    model = build_network(spec, torch.Generator().manual_seed(0))
    assert isinstance(model, SeparatedGNN)
    return model.eval()


def test_algorithm_1_node_by_node() -> None:
    model = network(layers=2)
    x = np.random.default_rng(0).random((4, 5))
    weights = {name: value.numpy().astype(float) for name, value in model.state_dict().items()}
    neighbors = [[1], [0, 2], [1, 3], [2]]
    h = x @ weights["input.weight"]
    for k in range(2):
        w = np.vstack([weights[f"convs.{k}.lin_r.weight"], weights[f"convs.{k}.lin_l.weight"]])
        mean = np.array([h[own].mean(0) for own in neighbors])
        h = np.tanh(np.concatenate([h, mean], axis=1) @ w + weights[f"convs.{k}.lin_l.bias"])
    expected = h / np.linalg.norm(h, axis=1, keepdims=True)
    with torch.no_grad():
        got = model.embed(torch.tensor(x, dtype=torch.float32), Structure(EDGES, 4))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-6)


def test_the_discriminator_by_hand() -> None:
    layer = Discriminator(2, 2)
    with torch.no_grad():
        layer.first.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        layer.first.bias.copy_(torch.tensor([0.0, 1.0]))
        layer.second.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, -1.0]]))
        layer.second.bias.copy_(torch.tensor([0.5, 0.0]))
        got = layer(torch.tensor([[1.0, -0.5]]))
    first = np.tanh(1.0)  # the second unit is tanh(-1 + 1) = 0
    np.testing.assert_allclose(got.numpy(), [[first + 0.5, first]], atol=1e-6)


def test_networks_of_different_depths_begin_with_one_discriminator() -> None:
    shallow, deep = network(1).state_dict(), network(4).state_dict()
    names = [name for name in shallow if name.startswith(DISCRIMINATOR)]
    assert len(names) == 4
    assert all(torch.equal(shallow[name], deep[name]) for name in names)
    assert not torch.equal(network(1).discriminator.first.weight, torch.zeros(4, 4))


def test_two_towers_by_hand() -> None:
    spec = BlendedSpec(BLENDED_FAMILY, 5, 3, hidden=4, layers=2, dropout=0.0, common_layers=1)
    model = build_network(spec, torch.Generator().manual_seed(0)).eval()
    assert isinstance(model, BlendedGNN)
    x = torch.rand(4, 5, generator=torch.Generator().manual_seed(1))
    structure = Structure(EDGES, 4)
    with torch.no_grad():
        own = model.own(x, structure).numpy().astype(float)
        common = torch.softmax(model.common(x, structure), 1).numpy().astype(float)
        np.testing.assert_array_equal(model(x, structure).argmax(1), own.argmax(1))
        model.seen.copy_(torch.tensor([1.0, 0.0, 1.0]))
        model.shift.fill_(0.7)
        found = model(x, structure).exp().numpy()
    odds = np.exp(0.7) * (common[:, 0] + common[:, 2]) / common[:, 1]
    here = odds / (1 + odds)
    inside = np.exp(own[:, [0, 2]]) / np.exp(own[:, [0, 2]]).sum(1, keepdims=True)
    expected = np.column_stack([here * inside[:, 0], 1 - here, here * inside[:, 1]])
    np.testing.assert_allclose(found, expected, rtol=1e-4)
