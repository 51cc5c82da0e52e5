import numpy as np
import pytest

from autofgl.federation.payload import decode, encode
from autofgl.search import SearchError
from autofgl.search.normaliser import LIMIT, Normaliser


def fed(states: np.ndarray) -> Normaliser:
    normaliser = Normaliser(states.shape[1])
    for state in states:
        normaliser.add(state)
    return normaliser


def test_states_get_mean_0_and_deviation_1() -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (200, 3)) * [1e3, 1, 1e-3] + [5e3, 0, 1]
    scaled = fed(states)(states)
    by_hand = (states - states.mean(axis=0)) / states.std(axis=0)
    assert scaled == pytest.approx(by_hand, abs=1e-5)
    assert scaled.dtype == np.float32


def test_nothing_is_known_at_first() -> None:
    assert Normaliser(2)(np.array([3.0, -0.5])).tolist() == [3, -0.5]


def test_a_constant_component_is_only_shifted() -> None:
    assert fed(np.full((50, 1), 0.1))(np.array([[0.1], [2.1]])).ravel() == pytest.approx([0, 2])


def test_far_off_components_are_cut() -> None:
    normaliser = fed(np.array([[-1.0], [1.0]]))
    assert normaliser(np.array([[99.0], [-99.0], [0.5]]))[:, 0].tolist() == [LIMIT, -LIMIT, 0.5]


def test_a_loaded_normaliser_goes_on_the_same() -> None:
    states = np.random.default_rng(0).normal(size=(9, 2))
    first, second = fed(states), fed(states[:4])
    second.load_state(decode(encode(first.state())))
    for normaliser in (first, second):
        normaliser.add(np.array([1.0, 2.0]))
    assert encode(first.state()) == encode(second.state())
    with pytest.raises(SearchError, match="shape"):
        second.load_state(Normaliser(3).state())
