"""The state that FedGraph's sampling policy sees."""

import numpy as np

from autofgl.federation.payload import decode, encode
from autofgl.sharing.across.weight_state import Axes, state_of, weight_vector


def some_weights(count: int = 12, size: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(count, 3)) @ rng.normal(size=(3, size)) + 5).astype(np.float32)


def test_axes_are_the_principal_axes_with_unit_variance() -> None:
    rows = some_weights()
    axes = Axes.fit(list(rows), 3)
    scores = np.stack([axes.project({"w": row}) for row in rows])
    np.testing.assert_allclose(scores.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(scores.T @ scores / len(rows), np.eye(3), atol=1e-3)
    _, spread, right = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    expected = (rows - rows.mean(0)) @ right[:3].T / (spread[:3] / np.sqrt(len(rows)))
    np.testing.assert_allclose(np.abs(scores), np.abs(expected), atol=1e-3)


def test_axes_that_do_not_exist_are_zero() -> None:
    axes = Axes.fit(list(some_weights()), 6)
    assert axes.directions[:3].any(axis=1).all()
    assert not axes.directions[3:].any()
    alike = Axes.fit([np.ones(5, np.float32)] * 3, 2)
    assert not alike.directions.any()


def test_the_state_is_the_mean_and_the_spread_of_the_clients() -> None:
    axes = Axes.fit(list(some_weights()), 2)
    clients = [{"w": row} for row in some_weights()[:4]]
    mean = {"w": np.mean([client["w"] for client in clients], axis=0)}
    total = np.sum([axes.moments(client) for client in clients], axis=0)
    state = state_of(axes, mean, total, 4)
    scores = np.stack([axes.project(client) for client in clients])
    np.testing.assert_allclose(state, [*axes.project(mean), *scores.std(0)], atol=1e-5)


def test_what_a_client_tells_is_limited() -> None:
    axes = Axes.fit(list(some_weights()), 2)
    moments = axes.moments({"w": some_weights()[0] * 1e6})
    assert np.abs(moments).max() <= 900


def test_axes_survive_a_message() -> None:
    axes = Axes.fit(list(some_weights()), 2)
    again = Axes.from_payload(decode(encode(axes.to_payload())))
    weights = {"w": some_weights()[3]}
    assert np.array_equal(again.project(weights), axes.project(weights))


def test_weights_are_put_together_by_name() -> None:
    weights = {"b": np.array([3.0]), "a": np.array([[1.0], [2.0]])}
    assert weight_vector(weights).tolist() == [1, 2, 3]
