import numpy as np
import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.graphs.datasets import DataSettings
from autofgl.graphs.smoothing import smoothed


@pytest.mark.parametrize("hops", [1, 2])
def test_features_are_averaged_as_in_sgc(small_graph: ClientGraph, hops: int) -> None:
    n = small_graph.num_nodes
    a = np.eye(n)
    a[small_graph.edge_index[1], small_graph.edge_index[0]] = 1
    scale = a.sum(1) ** -0.5
    expected = to_dense(small_graph.x).astype("f8")
    for _ in range(hops):
        expected = (scale[:, None] * a * scale) @ expected
    np.testing.assert_allclose(to_dense(smoothed(small_graph, hops)), expected, atol=1e-6)


def test_it_is_a_setting_of_the_data() -> None:
    plain = autofgl.load("cora", seed=0)
    ours = autofgl.load("cora", seed=0, settings=DataSettings(whole_graph_hops=1))
    np.testing.assert_allclose(to_dense(ours.x), to_dense(smoothed(plain, 1)), atol=1e-6)
    assert np.array_equal(ours.train_mask, plain.train_mask)
    assert np.array_equal(ours.edge_index, plain.edge_index)
    with pytest.raises((UserError, ValueError)):
        DataSettings(whole_graph_hops=-1)
