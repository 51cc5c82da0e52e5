"""Products by oneDNN equal torch's, whatever the layout, and so do their gradients."""

import pytest
import torch
from torch import Tensor

from autofgl.nn.kernels import dense
from autofgl.nn.kernels.dense import multiply, product

LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "part": lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
    "one for all": lambda x: x[:, :1].expand(x.shape),
}


@pytest.fixture(autouse=True)
def _even_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_WORTH", 0)


def given(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_any_layout(left: str, right: str) -> None:
    a, b, bias = LAYOUTS[left](given(9, 4)), LAYOUTS[right](given(4, 6)), given(6)
    torch.testing.assert_close(multiply(a, b), a @ b)
    torch.testing.assert_close(multiply(a, b, bias), a @ b + bias)


@pytest.mark.parametrize("biased", [True, False])
def test_gradients_of_two_orders(biased: bool) -> None:
    tensors = [given(9, 4), given(4, 6), given(6)][: 3 if biased else 2]
    tensors = [tensor.requires_grad_() for tensor in tensors]

    def slopes(result: Tensor) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(result.pow(3).sum(), tensors, create_graph=True)
        return (*first, *torch.autograd.grad(sum(g.square().sum() for g in first), tensors))

    bias = tensors[2] if biased else 0.0
    ours = slopes(product(*tensors))
    torch.testing.assert_close(ours, slopes(tensors[0] @ tensors[1] + bias), rtol=1e-4, atol=1e-3)


def test_inside_of_torch_func() -> None:
    a, b = given(9, 4), given(4, 6)
    got = torch.func.grad(lambda x: product(a, x).square().sum())(b)
    torch.testing.assert_close(got, 2 * a.t() @ (a @ b))


@pytest.mark.parametrize("change", ["double", "missing"])
def test_otherwise_torch_computes(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, bias = given(9, 4), given(4, 6), given(6)
    if change == "double":
        a, b, bias = a.double(), b.double(), bias.double()
    else:
        monkeypatch.setattr(dense, "_linear", None)
    assert torch.equal(product(a, b), a @ b)
    assert torch.equal(multiply(a, b, bias), torch.addmm(bias, a, b))
