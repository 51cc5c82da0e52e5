"""Every convolution equals PyG's of the same name, with the same state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from autofgl.errors import UserError
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.conv.agnn import AGNNConv
from autofgl.nn.conv.appnp import APPNPConv
from autofgl.nn.conv.arma import ARMAConv
from autofgl.nn.conv.feast import FeaStConv
from autofgl.nn.conv.gat import GATConv
from autofgl.nn.conv.gated_graph import GatedGraphConv
from autofgl.nn.conv.gcn import GCNConv
from autofgl.nn.conv.gen import GENConv
from autofgl.nn.conv.gin import GINConv
from autofgl.nn.conv.gmm import GMMConv, pseudo_coordinates
from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.conv.sgc import SGConv
from autofgl.nn.features import InputFeatures
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.space import LAYER_TYPES
from autofgl.nn.structure import Structure

DOUBLE = torch.float64
Graph = tuple[Tensor, int]


def _pyg_gin(width: int, out: int, hidden: int, **options: Any) -> nn.Module:
    perceptron = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))
    return pyg.GINConv(perceptron, **options)


def _pyg_arma(*sizes: int, **options: Any) -> nn.Module:
    return pyg.ARMAConv(*sizes, shared_weights=True, **options)


def _pyg_gen(width: int) -> nn.Module:
    return pyg.GENConv(width, width, norm=None)


class _PygGMM(pyg.GMMConv):
    """PyG's, with the coordinates of MoNet's experiment on Cora."""

    def __init__(self, width: int, out: int, kernel_size: int, **options: Any) -> None:
        super().__init__(width, out, dim=2, kernel_size=kernel_size, **options)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        degree = torch.bincount(edge_index[1], minlength=len(x)).double()
        return super().forward(x, edge_index, (1 + degree[edge_index]).rsqrt().T)


@dataclass(frozen=True)
class Case:
    """One of our convolutions, PyG's, the width of their input and what both are made with."""

    ours: Callable[..., nn.Module]
    theirs: Callable[..., nn.Module]
    width: int
    sizes: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "gcn narrowing": Case(GCNConv, pyg.GCNConv, 6, (6, 3)),
    "gcn widening": Case(GCNConv, pyg.GCNConv, 3, (3, 5)),
    "gat one head": Case(GATConv, pyg.GATConv, 5, (5, 4)),
    "gat concat": Case(GATConv, pyg.GATConv, 5, (5, 2), {"heads": 3}),
    "gat mean": Case(GATConv, pyg.GATConv, 5, (5, 2), {"heads": 3, "concat": False}),
    "sage narrowing": Case(SAGEConv, pyg.SAGEConv, 6, (6, 3)),
    "sage widening": Case(SAGEConv, pyg.SAGEConv, 3, (3, 5)),
    "sgc narrowing": Case(SGConv, pyg.SGConv, 6, (6, 3), {"K": 2}),
    "sgc widening": Case(SGConv, pyg.SGConv, 3, (3, 5), {"K": 3}),
    "appnp": Case(APPNPConv, pyg.APPNP, 4, (), {"K": 4, "alpha": 0.3}),
    "agnn": Case(AGNNConv, pyg.AGNNConv, 4),
    "agnn fixed": Case(AGNNConv, pyg.AGNNConv, 4, (), {"requires_grad": False}),
    "arma": Case(ARMAConv, pyg.ARMAConv, 5, (5, 3)),
    "arma stacks": Case(ARMAConv, _pyg_arma, 5, (5, 3), {"num_stacks": 3, "num_layers": 3}),
    "arma tanh": Case(
        ARMAConv, _pyg_arma, 3, (3, 4), {"num_stacks": 2, "num_layers": 3, "act": torch.tanh}
    ),
    "gated graph": Case(GatedGraphConv, pyg.GatedGraphConv, 4, (4, 2)),
    "gated graph padded": Case(GatedGraphConv, pyg.GatedGraphConv, 3, (5, 3)),
    "gin narrowing": Case(GINConv, _pyg_gin, 6, (6, 3, 4)),
    "gin widening": Case(GINConv, _pyg_gin, 2, (2, 3, 4), {"train_eps": True}),
    "feast": Case(FeaStConv, pyg.FeaStConv, 5, (5, 4)),
    "feast heads": Case(FeaStConv, pyg.FeaStConv, 3, (3, 4), {"heads": 3}),
    "gen": Case(GENConv, _pyg_gen, 4, (4,)),
    "gmm": Case(GMMConv, _PygGMM, 5, (5, 4, 3)),
    "gmm widening": Case(GMMConv, _PygGMM, 3, (3, 4, 2)),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def both(case: Case, generator: torch.Generator) -> tuple[nn.Module, nn.Module]:
    """Our convolution and PyG's in double precision with the same weights, biases not zero."""
    ours = case.ours(*case.sizes, **case.options)
    ours.reset_parameters(generator)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.7, generator=generator)
    theirs = case.theirs(*case.sizes, **case.options)
    theirs.load_state_dict(as_pyg(ours, ours.state_dict()))
    return ours.double(), theirs.double()


def as_pyg(ours: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by parameter name in PyG's layout: weights of linear maps are transposed."""
    linear = {f"{name}.weight" for name, m in ours.named_modules() if isinstance(m, Linear)}
    return {name: value.T if name in linear else value for name, value in tensors.items()}


def features(case: Case, nodes: int, generator: torch.Generator) -> Tensor:
    x = torch.randn(nodes, case.width, dtype=DOUBLE, generator=generator)
    return x * (torch.rand(x.shape, generator=generator) < 0.6)


def gradients(out: Tensor, *inputs: Tensor, upstream: Tensor) -> list[Tensor]:
    if not inputs:
        return []
    grads = torch.autograd.grad(out, inputs, upstream, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, grads, strict=True)]


def compare(
    ours: nn.Module, theirs: nn.Module, x: Tensor, graph: Graph, generator: torch.Generator
) -> None:
    """Outputs and the gradients of input and parameters agree."""
    edge_index, n = graph
    x = x.requires_grad_()
    out = ours(x, Structure(edge_index, n, DOUBLE))
    expected = theirs(x, edge_index)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    upstream = torch.randn(out.shape, dtype=DOUBLE, generator=generator)
    names = [name for name, _ in ours.named_parameters()]
    got, *weights = gradients(out, x, *ours.parameters(), upstream=upstream)
    want = gradients(expected, x, *map(theirs.get_parameter, names), upstream=upstream)
    got_weights = as_pyg(ours, dict(zip(names, weights, strict=True)))
    torch.testing.assert_close([got, *got_weights.values()], want, rtol=1e-9, atol=1e-9)


def test_output_and_gradients_equal_pyg(
    case: Case, graph: Graph, generator: torch.Generator
) -> None:
    ours, theirs = both(case, generator)
    compare(ours, theirs, features(case, graph[1], generator), graph, generator)


#: The convolutions that take weights in PyG; docs/graph-files.md lists them.
WEIGHTED = ("gcn", "sgc", "appnp", "arma", "gated")


def weights_of(graph: Graph, generator: torch.Generator) -> Tensor:
    weights = torch.rand(graph[0].shape[1], dtype=DOUBLE, generator=generator)
    return weights.where(weights > 0.2, 0.0)  # some edges weigh nothing


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(WEIGHTED)])
def test_weighted_edges_equal_pyg(name: str, graph: Graph, generator: torch.Generator) -> None:
    ours, theirs = both(CASES[name], generator)
    (edge_index, n), weights = graph, weights_of(graph, generator)
    x = features(CASES[name], n, generator).requires_grad_()
    out = ours(x, Structure(edge_index, n, DOUBLE, weights))
    expected = theirs(x, edge_index, weights)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    upstream = torch.randn(out.shape, dtype=DOUBLE, generator=generator)
    got, want = (gradients(result, x, upstream=upstream) for result in (out, expected))
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(WEIGHTED)])
def test_other_convolutions_count_edges(
    name: str, graph: Graph, generator: torch.Generator
) -> None:
    ours, _ = both(CASES[name], generator)
    (edge_index, n), weights = graph, weights_of(graph, generator)
    x = features(CASES[name], n, generator)
    out = ours(x, Structure(edge_index, n, DOUBLE, weights))
    assert torch.equal(out, ours(x, Structure(edge_index, n, DOUBLE)))


def test_sparse_features_equal_dense_ones(
    case: Case, graph: Graph, generator: torch.Generator
) -> None:
    edge_index, n = graph
    ours, _ = both(case, generator)
    x = features(case, n, generator)
    structure = Structure(edge_index, n, DOUBLE)
    expected = ours(x, structure)
    upstream = torch.randn(expected.shape, dtype=DOUBLE, generator=generator)
    want = gradients(expected, *ours.parameters(), upstream=upstream)
    for matrix in (x.numpy(), sp.csr_array(x.numpy())):
        out = ours(InputFeatures.from_client(matrix, DOUBLE), structure)
        torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
        got = gradients(out, *ours.parameters(), upstream=upstream)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_a_second_derivative_exists(case: Case, generator: torch.Generator) -> None:
    n, edge_index = 5, torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 1]])
    ours, theirs = both(case, generator)
    x = features(case, n, generator).requires_grad_()

    def penalty(out: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad((out**3).sum(), x, create_graph=True)
        return torch.autograd.grad((grad**2).sum(), x)[0]

    got, want = penalty(ours(x, Structure(edge_index, n, DOUBLE))), penalty(theirs(x, edge_index))
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


def test_gat_drops_coefficients_by_its_generator(generator: torch.Generator) -> None:
    structure = Structure(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    conv = GATConv(4, 3, heads=2, dropout=0.5)
    conv.reset_parameters(generator)
    x = torch.randn(3, 4, generator=generator)
    first, again, other = (
        conv(x, structure, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    conv.eval()
    assert torch.equal(conv(x, structure), conv(x, structure))


def test_arma_drops_each_skip_connection_anew(generator: torch.Generator) -> None:
    conv = ARMAConv(30, 2, num_layers=2, dropout=0.5, act=None)
    conv.reset_parameters(generator)
    nn.init.zeros_(conv.init_weight)
    x, structure = torch.ones(2, 30), Structure(torch.tensor([[0, 1], [1, 0]]), 2)
    once = conv(x, structure, torch.Generator().manual_seed(1))
    conv.eval()
    kept = conv(x, structure)
    assert not torch.allclose(once, kept)
    torch.testing.assert_close(kept[0], kept[1])


def test_gated_graph_refuses_wide_input() -> None:
    conv = GatedGraphConv(3, num_layers=1)
    with pytest.raises(UserError, match="cannot take 4 channels"):
        conv(torch.zeros(2, 4), Structure(torch.empty(2, 0, dtype=torch.int64), 2))


def test_gen_is_exact_however_far_apart_its_messages_are(generator: torch.Generator) -> None:
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 0, 1, 2, 2, 3]])
    x = torch.randn(6, 4, dtype=DOUBLE, generator=generator) * 400
    ours, theirs = GENConv(4).double(), _pyg_gen(4).double()
    ours.reset_parameters(generator)
    theirs.load_state_dict(as_pyg(ours, ours.state_dict()))
    compare(ours, theirs, x, (edge_index, 6), generator)
    single = ours.float()(x.detach().float(), Structure(edge_index, 6))
    assert torch.isfinite(single).all()


def test_pseudo_coordinates_are_inverse_roots_of_degrees() -> None:
    structure = Structure(torch.tensor([[0, 1, 2, 3], [1, 0, 1, 1]]), 4, DOUBLE)
    # Edges by target: 1 -> 0; 0, 2, 3 -> 1. Nodes 2 and 3 have no incoming edge.
    degrees = torch.tensor([[3.0, 1], [1, 3], [0, 3], [0, 3]], dtype=DOUBLE)
    torch.testing.assert_close(pseudo_coordinates(structure), (1 + degrees).rsqrt())


def test_constructors_and_resets_leave_the_global_random_state_alone(
    case: Case, generator: torch.Generator
) -> None:
    before = torch.get_rng_state()
    conv = case.ours(*case.sizes, **case.options)
    conv.reset_parameters(generator)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_weights_have_pyg_s_distribution() -> None:
    pairs = [
        (GCNConv(300, 200), pyg.GCNConv(300, 200)),
        (SAGEConv(300, 200), pyg.SAGEConv(300, 200)),
        (GATConv(300, 200), pyg.GATConv(300, 200)),
        (SGConv(300, 200), pyg.SGConv(300, 200)),
        (ARMAConv(300, 200), pyg.ARMAConv(300, 200)),
        (FeaStConv(300, 200, heads=2), pyg.FeaStConv(300, 200, heads=2)),
        (GENConv(200), _pyg_gen(200)),
        (GMMConv(300, 200, 4), _PygGMM(300, 200, 4)),
    ]
    generator = torch.Generator().manual_seed(0)
    for ours, theirs in pairs:
        ours.reset_parameters(generator)
        for name, parameter in ours.named_parameters():
            few_draws = isinstance(ours, FeaStConv | GMMConv) and parameter.numel() <= 1000
            if not few_draws:
                bound = theirs.get_parameter(name).abs().max()
                torch.testing.assert_close(parameter.abs().max(), bound, rtol=0.05, atol=1e-12)


def test_sgc_with_teleport_is_personalized_pagerank(generator: torch.Generator) -> None:
    """As APPNP of what the linear map gives, whatever comes first; the bias stays where it is."""
    structure = Structure(torch.tensor([[0, 1, 2, 3], [1, 0, 1, 1]]), 4)
    x = torch.rand(4, 5, generator=generator)
    for classes in (3, 8):
        conv = SGConv(5, classes, K=4, alpha=0.2)
        conv.reset_parameters(generator)
        expected = APPNPConv(4, 0.2)(x @ conv.lin.weight, structure) + conv.lin.bias
        torch.testing.assert_close(conv(x, structure), expected)


def test_every_layer_type_of_the_search_space_has_a_convolution() -> None:
    assert tuple(CONVOLUTIONS) == LAYER_TYPES
    x, structure = torch.ones(3, 8), Structure(torch.tensor([[0, 1], [1, 2]]), 3)
    for kind in CONVOLUTIONS.values():
        conv = kind.make(8)
        conv.reset_parameters(torch.Generator().manual_seed(0))
        assert conv(x, structure).shape == (3, 8)
