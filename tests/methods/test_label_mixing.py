"""Jensen-Shannon divergence and mixing, by hand."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from autofgl.sharing.own_encoder import distribution, divergence, mix


def test_counts_become_shares() -> None:
    np.testing.assert_allclose(distribution([1, 3, 0]), [0.25, 0.75, 0])
    np.testing.assert_array_equal(distribution([0, 0]), [0, 0])


def test_extremes() -> None:
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert divergence(one, one) == 0
    assert divergence(one, other) == 1  # base 2: the largest value there is


def test_half_of_the_labels_by_hand() -> None:
    # P = (1, 0), Q = (1/2, 1/2), middle (3/4, 1/4):
    # KL(P|M) = log2(4/3); KL(Q|M) = 1/2 log2(2/3) + 1/2 log2(2)
    expected = (math.log2(4 / 3) + 0.5 * math.log2(2 / 3) + 0.5) / 2
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(expected)
    assert expected == pytest.approx(0.3112781)


def test_as_scipy_has_it() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = (distribution(rng.integers(0, 6, 7) + (rng.random(7) < 0.2)) for _ in range(2))
        if p.any() and q.any():
            assert divergence(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)


def test_without_labels_nothing_is_kept() -> None:
    assert divergence(np.zeros(2), np.array([0.5, 0.5])) == 0


def test_mixing_by_hand() -> None:
    own, mean = {"w": np.array([4.0, 0.0]), "h": np.ones(2)}, {"w": np.array([0.0, 8.0])}
    found = mix(own, mean, 0.25)
    assert list(found) == ["w"]  # what is not shared is not mix
    np.testing.assert_allclose(found["w"], [1.0, 6.0])
