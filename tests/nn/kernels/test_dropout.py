import pytest
import torch

from autofgl.nn.kernels.dropout import dropout, dropout_mask


@pytest.mark.parametrize("p", [0.5, 0.25, 0.1, 0.6, 0.999])
def test_share_and_scale(p: float, generator: torch.Generator) -> None:
    mask = dropout_mask(torch.Size([1000, 201]), p, generator, dtype=torch.float64)
    kept = mask > 0
    # Four standard deviations of a binomial share.
    assert abs(kept.double().mean() - (1 - p)) < 4 * (p * (1 - p) / mask.numel()) ** 0.5
    torch.testing.assert_close(
        mask[kept], torch.full_like(mask[kept], 1 / (1 - p)), rtol=1e-2, atol=0
    )
    assert abs(mask[kept][0] * (1 - p) - 1) < 2**-17 / (1 - p) + 1e-12


def test_entries_are_independent(generator: torch.Generator) -> None:
    kept = (dropout_mask(torch.Size([4000, 16]), 0.5, generator) > 0).double()
    correlation = torch.corrcoef(kept.T) - torch.eye(16, dtype=torch.float64)
    assert correlation.abs().max() < 5 / 4000**0.5


def test_extremes(generator: torch.Generator) -> None:
    x = torch.ones(3, 5)
    assert dropout(x, 0.0, True, generator) is x
    assert dropout(x, 0.9, False, generator) is x
    assert torch.equal(dropout(x, 1.0, True, generator), torch.zeros(3, 5))
    assert dropout(x[:0], 0.5, True, generator).shape == (0, 5)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        dropout(x, 1.5, True, generator)


def test_same_seed_same_mask() -> None:
    x = torch.ones(50, 50)
    first, second = (dropout(x, 0.3, True, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)


def test_gradient_and_default_generator() -> None:
    x = torch.ones(40, 40, requires_grad=True)
    out = dropout(x, 0.5, True)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
