"""FeaSt, GEN and GMM equal PyG's, with the same state."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from autofgl.nn import Structure
from autofgl.nn.conv import FeaStConv, GENConv, GMMConv
from autofgl.nn.conv.gmm import pseudo_coordinates
from autofgl.nn.linear import Linear

DOUBLE = torch.float64
Make = Callable[[], nn.Module]

#: Ours, PyG's, and the width of the input.
CASES: dict[str, tuple[Make, Make, int]] = {
    "feast": (lambda: FeaStConv(5, 4), lambda: pyg.FeaStConv(5, 4), 5),
    "feast heads": (
        lambda: FeaStConv(3, 4, heads=3, bias=False),
        lambda: pyg.FeaStConv(3, 4, heads=3, bias=False),
        3,
    ),
    "gen": (lambda: GENConv(4, 4), lambda: pyg.GENConv(4, 4, norm=None), 4),
    "gen mapped": (
        lambda: GENConv(5, 3, t=0.4, bias=True),
        lambda: pyg.GENConv(5, 3, t=0.4, bias=True, norm=None),
        5,
    ),
    "gmm": (lambda: GMMConv(5, 4, 3), lambda: pyg.GMMConv(5, 4, 2, 3), 5),
    "gmm plain": (
        lambda: GMMConv(3, 4, 2, bias=False),
        lambda: pyg.GMMConv(3, 4, 2, 2, bias=False),
        3,
    ),
}


@pytest.fixture(params=list(CASES))
def case(
    request: pytest.FixtureRequest, generator: torch.Generator
) -> tuple[nn.Module, nn.Module, int]:
    """Both in double precision with the same weights, biases not zero."""
    make, make_theirs, width = CASES[request.param]
    before = torch.get_rng_state()
    ours = make()
    ours.reset_parameters(generator)
    assert torch.equal(torch.get_rng_state(), before)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.7, generator=generator)
    theirs = make_theirs()
    theirs.load_state_dict(_as_pyg(ours, dict(ours.named_parameters())))
    return ours.double(), theirs.double(), width


def _as_pyg(ours: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    linear = {f"{name}.weight" for name, m in ours.named_modules() if isinstance(m, Linear)}
    return {name: value.T if name in linear else value for name, value in tensors.items()}


def _theirs(conv: nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
    if not isinstance(conv, pyg.GMMConv):
        return conv(x, edge_index)
    degree = torch.bincount(edge_index[1], minlength=len(x)).double()
    return conv(x, edge_index, (1 + degree[edge_index]).rsqrt().T)


def _gradients(out: Tensor, inputs: list[Tensor], upstream: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(out, inputs, upstream, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]


def _compare(ours: nn.Module, theirs: nn.Module, x: Tensor, graph: tuple[Tensor, int]) -> None:
    edge_index, n = graph
    x = x.requires_grad_()
    out = ours(x, Structure(edge_index, n, DOUBLE))
    expected = _theirs(theirs, x, edge_index)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    upstream = torch.randn(out.shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(3))
    parameters = dict(ours.named_parameters())
    got = _gradients(out, [x, *parameters.values()], upstream)
    want = _gradients(expected, [x, *map(theirs.get_parameter, parameters)], upstream)
    weights = _as_pyg(ours, dict(zip(parameters, got[1:], strict=True)))
    torch.testing.assert_close([got[0], *weights.values()], want, rtol=1e-8, atol=1e-9)


def test_output_and_gradients_equal_pyg(
    case: tuple[nn.Module, nn.Module, int], graph: tuple[Tensor, int], generator: torch.Generator
) -> None:
    ours, theirs, width = case
    _compare(ours, theirs, torch.randn(graph[1], width, dtype=DOUBLE, generator=generator), graph)


def test_a_second_derivative_exists(
    case: tuple[nn.Module, nn.Module, int], generator: torch.Generator
) -> None:
    ours, theirs, width = case
    edge_index = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 1]])
    x = torch.randn(5, width, dtype=DOUBLE, generator=generator).requires_grad_()

    def penalty(out: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad((out**3).sum(), x, create_graph=True)
        return torch.autograd.grad((grad**2).sum(), x)[0]

    got = penalty(ours(x, Structure(edge_index, 5, DOUBLE)))
    torch.testing.assert_close(got, penalty(_theirs(theirs, x, edge_index)), rtol=1e-8, atol=1e-8)


def test_gen_is_exact_however_far_apart_its_messages_are(generator: torch.Generator) -> None:
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 0, 1, 2, 2, 3]])
    x = torch.randn(6, 4, dtype=DOUBLE, generator=generator) * 400
    ours, theirs = GENConv(4, 4).double(), pyg.GENConv(4, 4, norm=None).double()
    ours.reset_parameters(generator)
    theirs.load_state_dict(_as_pyg(ours, dict(ours.named_parameters())))
    _compare(ours, theirs, x, (edge_index, 6))
    single: Any = ours.float()(x.detach().float(), Structure(edge_index, 6))
    assert torch.isfinite(single).all()


def test_pseudo_coordinates_are_inverse_roots_of_degrees() -> None:
    structure = Structure(torch.tensor([[0, 1, 2, 3], [1, 0, 1, 1]]), 4, DOUBLE)
    # Edges by target: 1 -> 0; 0, 2, 3 -> 1. Nodes 2 and 3 have no incoming edge.
    degrees = torch.tensor([[3.0, 1], [1, 3], [0, 3], [0, 3]], dtype=DOUBLE)
    torch.testing.assert_close(pseudo_coordinates(structure), (1 + degrees).rsqrt())


def test_initial_weights_have_pyg_s_distribution() -> None:
    pairs = [
        (FeaStConv(300, 200, heads=2), pyg.FeaStConv(300, 200, heads=2)),
        (GENConv(300, 200), pyg.GENConv(300, 200, norm=None)),
        (GMMConv(300, 200, 4), pyg.GMMConv(300, 200, 2, 4)),
    ]
    for ours, theirs in pairs:
        ours.reset_parameters(torch.Generator().manual_seed(0))
        for name, parameter in ours.named_parameters():
            if parameter.numel() > 1000:
                bound = theirs.get_parameter(name).abs().max()
                torch.testing.assert_close(parameter.abs().max(), bound, rtol=0.05, atol=1e-12)
