"""MAML's gradient, against derivatives by hand and finite differences."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure
from autofgl.sharing.meta.model import Loss, Parameters, adapt, mean_gradient, meta_gradient

ALPHA = 0.1
START = {"a": 0.5, "b": -1.2}


def parameters(**values: float) -> Parameters:
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def support(p: Parameters) -> Tensor:
    """a² b: gradient (2ab, a²), second derivatives ((2b, 2a), (2a, 0))."""
    return p["a"] ** 2 * p["b"]


def query(p: Parameters) -> Tensor:
    """a² + 3b: gradient (2a, 3)."""
    return p["a"] ** 2 + 3 * p["b"]


def by_hand(steps: int) -> tuple[Any, Any]:
    """θ' and the gradient Π_k (I - α H(θ_k)) ∇L_Q(θ'), H symmetric."""
    theta, jacobian = np.array([START["a"], START["b"]]), np.eye(2)
    for _ in range(steps):
        a, b = theta
        jacobian = (np.eye(2) - ALPHA * np.array([[2 * b, 2 * a], [2 * a, 0.0]])) @ jacobian
        theta = theta - ALPHA * np.array([2 * a * b, a**2])
    return theta, jacobian.T @ np.array([2 * theta[0], 3.0])


def as_array(p: Parameters) -> Any:
    return np.array([float(value) for value in p.values()])


def test_one_inner_step_by_hand() -> None:
    adapted = adapt(support, parameters(**START), 1, ALPHA)
    # a' = 0.5 - 0.1 · 2 · 0.5 · (-1.2) = 0.62, b' = -1.2 - 0.1 · 0.25 = -1.225
    np.testing.assert_allclose(as_array(adapted), [0.62, -1.225], rtol=1e-12)
    slope, loss = meta_gradient(support, query, parameters(**START), steps=1, rate=ALPHA)
    assert float(loss) == pytest.approx(0.62**2 - 3 * 1.225, rel=1e-12)
    # dL/da = 2a'(1 - 2αb) - 3 · 2αa, dL/db = -2a' · 2αa + 3
    expected = [2 * 0.62 * (1 + 0.2 * 1.2) - 3 * 0.2 * 0.5, -2 * 0.62 * 0.2 * 0.5 + 3]
    np.testing.assert_allclose(as_array(slope), expected, rtol=1e-12)
    np.testing.assert_allclose(by_hand(1)[1], expected, rtol=1e-12)


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_second_order_follows_the_chain_rule(steps: int) -> None:
    theta, expected = by_hand(steps)
    start = parameters(**START)
    np.testing.assert_allclose(as_array(adapt(support, start, steps, ALPHA)), theta, rtol=1e-12)
    slope, _ = meta_gradient(support, query, start, steps=steps, rate=ALPHA)
    np.testing.assert_allclose(as_array(slope), expected, rtol=1e-12)
    assert as_array(start).tolist() == [0.5, -1.2], "the start is left alone"


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_first_order_is_the_query_gradient_at_the_adapted_weights(steps: int) -> None:
    theta, second = by_hand(steps)
    slope, loss = meta_gradient(
        support, query, parameters(**START), steps=steps, rate=ALPHA, first_order=True
    )
    np.testing.assert_allclose(as_array(slope), [2 * theta[0], 3.0], rtol=1e-12)
    assert float(loss) == pytest.approx(theta[0] ** 2 + 3 * theta[1], rel=1e-12)
    assert (steps == 0) == np.allclose(as_array(slope), second)


@pytest.mark.parametrize("first_order", [False, True])
def test_parameters_that_a_loss_does_not_use_have_a_slope_of_zero(first_order: bool) -> None:
    slope, _ = meta_gradient(
        lambda p: p["a"] ** 2, lambda p: p["a"] ** 3, parameters(**START),
        steps=2, rate=ALPHA, first_order=first_order,
    )  # fmt: skip
    assert slope["a"] != 0
    assert slope["b"] == 0


def test_it_works_where_gradients_are_switched_off() -> None:
    with torch.no_grad():
        slope, loss = meta_gradient(support, query, parameters(**START), steps=2, rate=ALPHA)
    np.testing.assert_allclose(as_array(slope), by_hand(2)[1], rtol=1e-12)
    assert not loss.requires_grad
    assert not any(value.requires_grad for value in slope.values())


def test_tasks_are_averaged() -> None:
    one = (parameters(a=1.0, b=2.0), torch.tensor(4.0))
    other = (parameters(a=3.0, b=-2.0), torch.tensor(1.0))
    slope, loss = mean_gradient([one, other])
    assert as_array(slope).tolist() == [2.0, 0.0]
    assert float(loss) == 2.5
    assert as_array(mean_gradient([one])[0]).tolist() == [1.0, 2.0]


def network_losses(family: str, graph: ClientGraph) -> tuple[Parameters, Loss, Loss]:
    """A small network in float64, and losses of its first and of its next six training nodes."""
    spec = ModelSpec(family, graph.num_features, graph.classes, hidden=4, dropout=0.0)
    model = build_network(spec, torch.Generator().manual_seed(0)).double()
    structure = Structure(torch.from_numpy(graph.edge_index), graph.num_nodes, torch.float64)
    features = InputFeatures.from_client(graph.x, torch.float64).row_normalized()
    nodes = torch.from_numpy(np.flatnonzero(graph.train_mask))
    labels = torch.from_numpy(graph.y)

    def loss_of(chosen: Tensor) -> Loss:
        def loss(p: Parameters) -> Tensor:
            return F.cross_entropy(
                functional_call(model, p, (features, structure))[chosen], labels[chosen]
            )

        return loss

    generator = torch.Generator().manual_seed(1)
    start = {
        name: torch.randn(value.shape, dtype=torch.float64, generator=generator)
        for name, value in model.named_parameters()
    }
    return start, loss_of(nodes[:6]), loss_of(nodes[6:12])


@pytest.mark.parametrize("family", ["sgc", "gcn"])
def test_networks_agree_with_central_differences(family: str, small_graph: ClientGraph) -> None:
    """All entries of the bias, and every ninth of the weights, with three inner steps of 0.5."""
    start, s, q = network_losses(family, small_graph)
    slope, _ = meta_gradient(s, q, start, steps=3, rate=0.5)
    plain, _ = meta_gradient(s, q, start, steps=3, rate=0.5, first_order=True)
    step, apart = 1e-5, 0.0
    for name, value in start.items():
        for entry in range(0, value.numel(), 9 if value.dim() > 1 else 1):
            ends = []
            for sign in (1, -1):
                moved = value.clone()
                moved.view(-1)[entry] += sign * step
                ends.append(float(q(adapt(s, {**start, name: moved}, 3, 0.5))))
            expected = (ends[0] - ends[1]) / (2 * step)
            assert float(slope[name].reshape(-1)[entry]) == pytest.approx(expected, abs=1e-8)
            apart = max(apart, abs(float(plain[name].reshape(-1)[entry]) - expected))
    assert apart > 1e-3, "the second derivatives matter, and so the test can fail"


@pytest.mark.parametrize("family", ["sgc", "gcn"])
def test_networks_agree_with_torch_func(family: str, small_graph: ClientGraph) -> None:
    start, s, q = network_losses(family, small_graph)

    def after(p: Parameters) -> Tensor:
        for _ in range(2):
            slope = torch.func.grad(s)(p)
            p = {name: value - 0.5 * slope[name] for name, value in p.items()}
        return q(p)

    slope, loss = meta_gradient(s, q, start, steps=2, rate=0.5)
    expected, value = torch.func.grad_and_value(after)(start)
    assert float(loss) == float(value)
    for name in start:
        torch.testing.assert_close(slope[name], expected[name], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("family", ["sgc", "gcn"])
def test_first_order_on_networks_equals_plain_autograd(
    family: str, small_graph: ClientGraph
) -> None:
    start, s, q = network_losses(family, small_graph)
    slope, loss = meta_gradient(s, q, start, steps=3, rate=0.5, first_order=True)
    there = {
        name: value.requires_grad_() for name, value in adapt(s, start, steps=3, rate=0.5).items()
    }
    expected = q(there)
    expected.backward()  # type: ignore[no-untyped-call]
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-12)
    for name, value in there.items():
        assert value.grad is not None
        torch.testing.assert_close(slope[name], value.grad, rtol=1e-10, atol=1e-14)
