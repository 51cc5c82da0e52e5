import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from autofgl.nn.features import InputFeatures, SelectedRows
from autofgl.nn.kernels.dropout import dropout

ARRAY = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0], [1, 1, 1, 1]], np.float32)


@pytest.fixture(params=["dense", "sparse"])
def features(request: pytest.FixtureRequest) -> InputFeatures:
    x = ARRAY.copy() if request.param == "dense" else sp.csr_array(ARRAY)
    (x if request.param == "dense" else x.data).setflags(write=False)
    return InputFeatures.from_client(x)


def test_from_client_keeps_shape_values_and_layout(features: InputFeatures) -> None:
    assert features.shape == (4, 4)
    assert features.dtype == torch.float32
    assert torch.equal(features.to_dense(), torch.from_numpy(ARRAY))


def test_product_and_gradient_of_the_weight(
    features: InputFeatures, generator: torch.Generator
) -> None:
    weight = torch.randn(4, 3, generator=generator, requires_grad=True)
    upstream = torch.randn(4, 3, generator=generator)
    out = features @ weight
    torch.testing.assert_close(out, torch.from_numpy(ARRAY) @ weight)
    (grad,) = torch.autograd.grad(out, weight, upstream)
    torch.testing.assert_close(grad, torch.from_numpy(ARRAY).T @ upstream)


def test_gradient_uses_the_dropped_values(
    features: InputFeatures, generator: torch.Generator
) -> None:
    weight = torch.randn(4, 3, generator=generator, requires_grad=True)
    dropped = features.dropout(0.5, generator)
    upstream = torch.randn(4, 3, generator=generator)
    (grad,) = torch.autograd.grad(dropped @ weight, weight, upstream)
    torch.testing.assert_close(grad, dropped.to_dense().T @ upstream)


def test_dropped_zeroes_or_doubles(features: InputFeatures, generator: torch.Generator) -> None:
    dense = dropout(features, 0.5, True, generator).to_dense()
    assert torch.isin(dense, torch.from_numpy(np.unique([ARRAY, 2 * ARRAY]))).all()
    assert ((dense == 0) | (dense == 2 * torch.from_numpy(ARRAY))).all()
    assert dropout(features, 0.5, False) is features


def test_nodes_are_dropped_as_a_whole(features: InputFeatures, generator: torch.Generator) -> None:
    whole = torch.from_numpy(ARRAY)
    for given in (features, SelectedRows(InputFeatures(whole), torch.arange(4))):
        rows = [given.drop_nodes(0.5, generator).to_dense() for _ in range(20)]
        kept = torch.stack([row[2, 0] / 3 for row in rows])
        assert set(kept.tolist()) == {0.0, 2.0}
        for row in rows:
            scale = row.sum(1) / whole.sum(1)
            torch.testing.assert_close(row, whole * scale.nan_to_num()[:, None])


def test_row_normalized(features: InputFeatures) -> None:
    dense = features.row_normalized().to_dense()
    assert dense.sum(1).tolist() == [1, 0, 1, 1]
    torch.testing.assert_close(dense[0], torch.tensor([0, 2 / 3, 0, 1 / 3]))


def test_rows_of_length_one(features: InputFeatures) -> None:
    dense = features.scaled("unit").to_dense()
    torch.testing.assert_close(dense, torch.nn.functional.normalize(torch.from_numpy(ARRAY)))
    torch.testing.assert_close(
        features.scaled(True).to_dense(), features.row_normalized().to_dense()
    )
    assert features.scaled(False) is features


def test_signs_do_not_change_the_size_of_a_row() -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0]], np.float32)
    for given in (x, sp.csr_array(x)):
        features = InputFeatures.from_client(given)
        torch.testing.assert_close(
            features.scaled("unit").to_dense(), torch.tensor([[0.6, -0.8], [0.0, 0.0]])
        )
        torch.testing.assert_close(
            features.scaled(True).to_dense(), torch.tensor([[3 / 7, -4 / 7], [0.0, 0.0]])
        )


def test_no_rows_and_no_columns() -> None:
    for shape in ((0, 3), (3, 0)):
        for x in (np.zeros(shape, np.float32), sp.csr_array(shape, dtype=np.float32)):
            features = InputFeatures.from_client(x).row_normalized().dropout(0.5)
            out: Tensor = features @ torch.ones(shape[1], 2)
            assert torch.equal(out, torch.zeros(shape[0], 2))


def test_unsorted_and_repeated_entries() -> None:
    x = sp.csr_array((np.ones(3, np.float32), [2, 0, 2], [0, 3, 3]), shape=(2, 3))
    assert InputFeatures.from_client(x).to_dense().tolist() == [[1, 0, 2], [0, 0, 0]]


def test_selected_rows_are_those_rows_without_a_copy() -> None:
    generator = torch.Generator().manual_seed(0)
    whole = InputFeatures(torch.randn(6, 4, generator=generator))
    index = torch.tensor([4, 0, 5])
    selected, copied = SelectedRows(whole, index), whole.rows(index)
    assert selected.matrix is whole.matrix
    assert selected.shape == copied.shape
    weight = torch.randn(4, 3, generator=generator, requires_grad=True)
    torch.testing.assert_close(selected @ weight, copied @ weight)
    gradients = [torch.autograd.grad((x @ weight).sum(), weight)[0] for x in (selected, copied)]
    torch.testing.assert_close(*gradients)
    again = torch.tensor([2, 1])
    torch.testing.assert_close(selected.rows(again).to_dense(), copied.rows(again).to_dense())
    torch.testing.assert_close(selected.to_dense(), copied.to_dense())
    dropped = selected.dropout(0.5, torch.Generator().manual_seed(1)).to_dense()
    assert torch.equal(dropped[dropped != 0], 2 * copied.to_dense()[dropped != 0])
