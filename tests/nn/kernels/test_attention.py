import torch

from autofgl.nn.kernels.attention import AttentionPattern, mixed_mean, mixed_sums
from autofgl.nn.kernels.sparse import SparsePattern

DOUBLE = torch.float64


def edges() -> AttentionPattern:
    row, col = torch.tensor([0, 0, 0, 1, 3, 3]), torch.tensor([0, 1, 3, 2, 3, 0])
    return AttentionPattern(SparsePattern.from_coo(row, col, (4, 4))[0], DOUBLE)


def scores(heads: int = 2, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return scale * torch.randn(6, heads, dtype=DOUBLE, generator=generator)


def test_softmax_equals_torch_row_by_row() -> None:
    pattern, given = edges(), scores()
    got = pattern.softmax(given)
    for row in range(4):
        members = pattern.pattern.row == row
        torch.testing.assert_close(got[members], given[members].softmax(0))


def test_softmax_survives_large_scores() -> None:
    pattern = edges()
    got = pattern.softmax(scores(scale=1e6))
    assert got.isfinite().all()
    torch.testing.assert_close(
        pattern.over_targets @ got, torch.tensor([[1.0], [1.0], [0.0], [1.0]]).double().expand(4, 2)
    )
    shifted = scores() + 1e4 * pattern.pattern.row.unsqueeze(1)
    torch.testing.assert_close(pattern.softmax(shifted), pattern.softmax(scores()))


def test_sums_that_are_mapped_later_come_to_the_same() -> None:
    pattern, weights = edges().pattern, scores(heads=3)
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(4, 5, dtype=DOUBLE, generator=generator)
    maps = torch.randn(3, 5, 2, dtype=DOUBLE, generator=generator)
    sums = mixed_sums(pattern, weights, x)
    assert sums.shape == (3, 4, 5)
    degree = pattern.crow.diff().clamp(min=1).unsqueeze(1)
    messages = (x @ maps).transpose(0, 1).reshape(4, -1)
    got = torch.bmm(sums, maps).sum(0) / degree
    torch.testing.assert_close(got, mixed_mean(pattern, weights, messages))


def test_gradients_of_any_order() -> None:
    pattern, given = edges(), scores().requires_grad_()
    x = torch.randn(2, 4, 3, dtype=DOUBLE, generator=torch.Generator()).requires_grad_()
    assert torch.autograd.gradcheck(pattern.softmax, given)
    assert torch.autograd.gradgradcheck(pattern.softmax, given)
    assert torch.autograd.gradcheck(pattern.weighted_sum, (given, x))
    assert torch.autograd.gradgradcheck(pattern.weighted_sum, (given, x))


def test_incidence_hands_out_and_adds_up() -> None:
    pattern = edges()
    node = torch.arange(4, dtype=DOUBLE).unsqueeze(1)
    assert torch.equal((pattern.over_targets.T @ node)[:, 0].int(), pattern.pattern.row)
    assert torch.equal((pattern.over_sources.T @ node)[:, 0].int(), pattern.pattern.col)
    ones = torch.ones(6, 1, dtype=DOUBLE)
    assert (pattern.over_targets @ ones)[:, 0].tolist() == [3, 1, 0, 2]
    assert (pattern.over_sources @ ones)[:, 0].tolist() == [2, 1, 1, 2]
