import pytest
import torch
from torch import Tensor

from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern, sampled_product, spmm

DOUBLE = torch.float64


@pytest.fixture
def pattern(generator: torch.Generator) -> SparsePattern:
    row = torch.randint(5, (14,), generator=generator)
    col = torch.randint(7, (14,), generator=generator)
    return SparsePattern.from_coo(row, col, (6, 7))[0]


def dense(pattern: SparsePattern, values: Tensor) -> Tensor:
    matrix = values.new_zeros(pattern.shape)
    return matrix.index_put((pattern.row.long(), pattern.col.long()), values, accumulate=True)


def rand(*shape: int, generator: torch.Generator, grad: bool = False) -> Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=generator).requires_grad_(grad)


def test_from_coo_keeps_repeated_entries_and_tells_their_order(generator: torch.Generator) -> None:
    row, col = torch.tensor([2, 0, 2, 0]), torch.tensor([1, 1, 1, 0])
    values = torch.tensor([1.0, 2.0, 4.0, 8.0])
    pattern, order = SparsePattern.from_coo(row, col, (3, 2))
    expected = torch.tensor([[8.0, 2.0], [0.0, 0.0], [0.0, 5.0]])
    assert torch.equal(SparseOperator(pattern, values[order]).to_dense(), expected)
    assert pattern.crow.dtype == torch.int32


def test_transpose(pattern: SparsePattern, generator: torch.Generator) -> None:
    values = rand(pattern.nnz, generator=generator)
    operator = SparseOperator(pattern, values)
    assert torch.equal(operator.T.to_dense(), operator.to_dense().T)
    assert torch.equal(operator.T.T.to_dense(), operator.to_dense())
    assert torch.equal(pattern.T.T.row, pattern.row)


def test_symmetric_operator_is_its_own_transpose() -> None:
    row, col = torch.tensor([0, 1, 1, 2, 2]), torch.tensor([1, 0, 2, 1, 2])
    pattern, _ = SparsePattern.from_coo(row, col, (3, 3))
    same = SparseOperator(pattern, torch.tensor([1.0, 1.0, 2.0, 2.0, 3.0]))
    assert pattern.symmetric
    assert same.T is same
    other = SparseOperator(pattern, torch.tensor([1.0, 4.0, 2.0, 2.0, 3.0]))
    assert torch.equal(other.T.to_dense(), other.to_dense().T)


def test_products_equal_dense_ones(pattern: SparsePattern, generator: torch.Generator) -> None:
    values = rand(pattern.nnz, generator=generator)
    x = rand(7, 3, generator=generator)
    expected = dense(pattern, values) @ x
    torch.testing.assert_close(spmm(pattern, values, x), expected)
    torch.testing.assert_close(SparseOperator(pattern, values) @ x, expected)
    strided = x.T.contiguous().T
    torch.testing.assert_close(SparseOperator(pattern, values) @ strided, expected)
    left, right = rand(6, 3, generator=generator), rand(7, 3, generator=generator)
    entries = (left @ right.T)[pattern.row.long(), pattern.col.long()]
    torch.testing.assert_close(sampled_product(pattern, left, right), entries)


@pytest.mark.parametrize("width", [1, 7, 16, 100])
def test_products_in_single_precision(
    width: int, pattern: SparsePattern, generator: torch.Generator
) -> None:
    """Another kernel than that of doubles; what it is given may be a view, and be recorded."""
    values = rand(2 * pattern.nnz, generator=generator).float()[::2].requires_grad_()
    x = rand(width, 7, generator=generator).float().T.requires_grad_()
    expected = dense(pattern, values) @ x
    got = spmm(pattern, values, x)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(SparseOperator(pattern, values.detach()) @ x.detach(), expected)
    upstream = rand(6, width, generator=generator).float()
    torch.testing.assert_close(
        torch.autograd.grad(got, (values, x), upstream),
        torch.autograd.grad(expected, (values, x), upstream),
    )


def test_without_fbgemm_the_same(
    pattern: SparsePattern, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = SparseOperator(pattern, rand(pattern.nnz, generator=generator).float())
    x = rand(7, 5, generator=generator).float()
    with_it = operator @ x
    monkeypatch.setattr("autofgl.nn.kernels.sparse._HAS_FBGEMM", False)
    torch.testing.assert_close(operator @ x, with_it)


def test_gradients_of_any_order(pattern: SparsePattern, generator: torch.Generator) -> None:
    values = rand(pattern.nnz, generator=generator, grad=True)
    x = rand(7, 2, generator=generator, grad=True)
    left = rand(6, 2, generator=generator, grad=True)
    constant = SparseOperator(pattern, values.detach())
    cases = [
        (lambda v, d: spmm(pattern, v, d), (values, x)),
        (lambda a, b: sampled_product(pattern, a, b), (left, x)),
        (lambda d: constant @ d, (x,)),
    ]
    for function, inputs in cases:
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_works_with_torch_func(pattern: SparsePattern, generator: torch.Generator) -> None:
    values = rand(pattern.nnz, generator=generator, grad=True)
    x = rand(7, 2, generator=generator, grad=True)

    def loss(v: Tensor, d: Tensor) -> Tensor:
        return (spmm(pattern, v, d) ** 3).sum()

    def second_order(v: Tensor, d: Tensor) -> Tensor:
        grad = torch.func.grad(loss, argnums=1)(v, d)
        return loss(v, d - 0.1 * grad)

    adapted = x - 0.1 * torch.autograd.grad(loss(values, x), x, create_graph=True)[0]
    expected = torch.autograd.grad(loss(values, adapted), (values, x))
    got = torch.func.grad(second_order, argnums=(0, 1))(values.detach(), x.detach())
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("mode", ["inference", "func"])
def test_an_operator_first_used_in_another_mode_stays_usable(
    mode: str, pattern: SparsePattern, generator: torch.Generator
) -> None:
    operator = SparseOperator(pattern, rand(pattern.nnz, generator=generator))
    x = rand(7, 2, generator=generator)
    if mode == "inference":
        with torch.inference_mode():
            _ = operator @ x
    else:
        torch.func.grad(lambda d: (operator @ d).sum())(x)
    x.requires_grad_()
    (operator @ x).sum().backward()
    expected = dense(pattern, operator.values).sum(0).unsqueeze(1).expand(7, 2)
    torch.testing.assert_close(x.grad, expected)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 2)])
@pytest.mark.parametrize("width", [0, 1, 4])
def test_empty_matrices(shape: tuple[int, int], width: int) -> None:
    none = torch.empty(0, dtype=torch.int64)
    pattern, _ = SparsePattern.from_coo(none, none, shape)
    values = torch.empty(0, requires_grad=True)
    x = torch.randn(shape[1], width, generator=torch.Generator(), requires_grad=True)
    out = spmm(pattern, values, x) + SparseOperator(pattern, values.detach()) @ x
    assert torch.equal(out, torch.zeros(shape[0], width))
    out.sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))
    left = torch.zeros(shape[0], width)
    assert sampled_product(pattern, left, x).shape == (0,)


def test_rows_without_entries_are_zero_whatever_memory_held() -> None:
    pattern, _ = SparsePattern.from_coo(torch.tensor([3]), torch.tensor([1]), (64, 5))
    operator = SparseOperator(pattern, torch.ones(1))
    for _ in range(20):
        garbage = torch.full((64, 8), float("nan"))
        del garbage
        out = operator @ torch.ones(5, 8)
        assert out.sum() == 8
