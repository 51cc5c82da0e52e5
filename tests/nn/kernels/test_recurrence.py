"""A step of the gated recurrent unit equals torch's cell, and so does its gradient."""

import pytest
import torch
from torch import Tensor, nn

from autofgl.nn.kernels.recurrence import gated_update


def given(dtype: torch.dtype, scale: float = 1.0) -> tuple[nn.GRUCell, list[Tensor]]:
    """A cell of width 5, and inputs, their weight and a state."""
    cell = nn.GRUCell(5, 5, dtype=dtype)
    generator = torch.Generator().manual_seed(2)
    for parameter in cell.parameters():
        nn.init.uniform_(parameter, -0.7, 0.7, generator=generator)
    shapes = ((7, 3), (3, 5), (7, 5))
    tensors = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
    return cell, [(scale * tensor).requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_equals_torchs_cell(scale: float) -> None:
    cell, (inputs, weight, state) = given(torch.float64, scale)
    wanted = [inputs, weight, state, *cell.parameters()]
    upstream = torch.arange(35, dtype=torch.float64).view(7, 5).sin()
    ours, torchs = gated_update(cell, inputs, weight, state), cell(inputs @ weight, state)
    torch.testing.assert_close(ours, torchs)
    got = torch.autograd.grad(ours, wanted, upstream)
    want = torch.autograd.grad(torchs, wanted, upstream)
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(mine, other)


def test_gradient_is_that_of_differences() -> None:
    cell, tensors = given(torch.float64)
    assert torch.autograd.gradcheck(lambda *args: gated_update(cell, *args), tensors)


def test_rounds_like_single_precision() -> None:
    cell, tensors = given(torch.float32)
    got = gated_update(cell, *tensors).double()
    inputs, weight, state = (tensor.double() for tensor in tensors)
    torch.testing.assert_close(got, cell.double()(inputs @ weight, state), atol=5e-7, rtol=1e-6)


def test_without_gradients_the_same() -> None:
    cell, tensors = given(torch.float32)
    with torch.no_grad():
        plain = gated_update(cell, *tensors)
    assert not plain.requires_grad
    assert torch.equal(plain, gated_update(cell, *tensors))
