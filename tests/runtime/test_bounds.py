"""Bounds of sums: what a sum over clients can be, and who spoiled one that cannot be."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.runtime.bounds import (
    FAR,
    FAR_FROM_OTHERS,
    SumOutOfBounds,
    Suspects,
    UsualDistance,
    counts_form,
    far_from_others,
    metrics_form,
    model_distance,
    plausible_gradient,
    scale_vote,
    share_form,
    sum_fault,
)
from autofgl.runtime.metrics import SIZE
from autofgl.runtime.summing import weighted


def test_sums_within_their_bounds() -> None:
    metrics = np.array([0.7, 0.5, 1.0, 0.2, 0.0, 0.3, 0, 0, 0])
    forms = {"share": share_form(), "metrics": metrics_form(SIZE), "counts": counts_form()}
    good = {"share": np.array(1.0), "metrics": metrics, "counts": np.ones(3)}
    assert sum_fault(good, forms) == ""
    assert sum_fault({**good, "more": np.ones(2)}, forms) == ""


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("share", np.array(1000.1), "out of bounds"),
        ("share", np.array(1.9), "out of bounds"),
        ("share", np.array(-0.5), "out of bounds"),
        ("share", np.array([1.0]), "shape"),
        ("metrics", np.array([0.7, 1.1, 1.0, 0, 0, 0, 0, 0, 0]), "out of bounds"),
        ("metrics", np.array([-98451064.0, 0, 1, 0, 0, 0, 0, 0, 0]), "out of bounds"),
        ("metrics", np.array([0.7, 0.5, 1.5, 0, 0, 0, 0, 0, 0]), "out of bounds"),
        ("metrics", np.full(SIZE, np.nan), "NaN"),
        ("metrics", np.zeros(SIZE - 1), "shape"),
        ("counts", np.array([-1.0, 0, 0]), "out of bounds"),
        ("counts", np.array([1e15, 0, 0]), "out of bounds"),
        ("more", np.array([np.inf]), "not finite"),
    ],
)
def test_sums_out_of_bounds(name: str, value: Any, why: str) -> None:
    good: dict[str, Any] = {"share": np.array(0.9), "metrics": np.zeros(SIZE), "counts": np.ones(3)}
    forms = {"share": share_form(), "metrics": metrics_form(SIZE), "counts": counts_form()}
    assert why in sum_fault({**good, name: value}, forms)
    assert "'share' is missing" in sum_fault({}, forms)


def test_a_name_that_a_client_made_up_is_told_in_one_line() -> None:
    reason = sum_fault({}, {"\x1b[31mname\n" * 90: share_form()})
    assert str(SumOutOfBounds("update", reason, [])).isprintable()


def test_an_uncertain_verdict_is_confirmed() -> None:
    """One wrong one, after a right one, convicts nobody."""
    names = [f"client-{number}" for number in range(10)]
    for certain, convicted in ((True, True), (False, False)):
        suspects = Suspects()
        suspects.spoiled(names, names, 8, certain)
        suspects.cleared(names[1:-1], names, 8)  # one of two it is
        found = suspects.spoiled(names[:-1], names, 8, certain)
        assert bool(found) == convicted
        if not certain:
            assert names[0] in suspects.aside
            assert suspects.cleared(names[1:], names, 8) == names[0]


def test_who_came_late_may_add_more_than_all() -> None:
    metrics = np.array([0.7, 0.5, 1.5, 0, 0, 0, 0, 0, 0])
    assert metrics_form(SIZE, np.inf).fault(metrics) == ""
    assert share_form(np.inf).fault(np.array(1.5)) == ""


def test_the_usual_distance() -> None:
    """At first by the size of the weights; then by the median, but no less than that size."""
    usual = UsualDistance()
    assert not usual.accepts(10.1 * 3.0, size=3.0)
    assert all(usual.accepts(length, size=3.0) for length in (9.0, 1.0, 2.0))
    assert usual.limit(3.0) == FAR * 2.0
    assert usual.limit(50.0) == 50.0
    assert not usual.accepts(20.1, size=3.0)
    assert not usual.accepts(float("nan"), size=3.0)
    again = UsualDistance()
    again.load_state(usual.state())
    assert again.limit(3.0) == usual.limit(3.0)


def test_clients_far_from_the_others() -> None:
    near = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert far_from_others({**near, "d": 3.0 * FAR_FROM_OTHERS}) == ["d"]
    assert far_from_others({**near, "d": 2.0 * FAR_FROM_OTHERS}) == []
    assert far_from_others({"a": 1.0, "b": 1e9}) == []  # one against one
    assert far_from_others({"a": 0.0, "b": 0.0, "c": 1.0}) == []  # nobody else moved


def summed(gradients: list[float], weights: list[float], factor: float = 1.0) -> dict[str, Any]:
    """The sum of gradients of one number each; the last one's vector is multiplied."""
    total: dict[str, Any] = {}
    for index, (value, share) in enumerate(zip(gradients, weights, strict=True)):
        gradient = {"w": np.array([value], np.float32)}
        part = weighted(gradient, share) | scale_vote(gradient)
        if index == len(gradients) - 1:
            part["w"] = part["w"] * factor
        for name, array in part.items():
            total[name] = np.asarray(total.get(name, 0.0) + np.asarray(array, np.float64))
    return total


@given(
    st.lists(st.floats(1e-6, 1e6) | st.just(0.0), min_size=1, max_size=8),
    st.lists(st.floats(0.01, 1.0), min_size=8, max_size=8),
)
def test_an_honest_gradient_within_a_factor_of_its_kind_is_plausible(
    sizes: list[float], weights: list[float]
) -> None:
    """By the triangle inequality, if no client's gradient is much larger than that of half."""
    shares = np.array(weights[: len(sizes)]) / sum(weights[: len(sizes)])
    some = sorted(size for size in sizes if size > 0)
    if some and some[-1] > FAR * some[(len(some) - 1) // 2]:
        return
    assert plausible_gradient(summed(sizes, shares.tolist()))


def test_nonsense_is_no_gradient() -> None:
    sizes, shares = [0.1, 0.2, 0.3, 0.2, 0.1], [0.2] * 5
    assert plausible_gradient(summed(sizes, shares))
    assert plausible_gradient(summed([1e-9] * 5, shares))
    assert plausible_gradient({**summed([0.0] * 5, shares)})
    assert not plausible_gradient(summed(sizes, shares, factor=1e3))
    assert not plausible_gradient(summed(sizes, [0.2] * 4 + [1.0]))
    good = summed(sizes, shares)
    assert not plausible_gradient({**good, "scale": good["scale"] + 0.3})
    assert not plausible_gradient({**good, "scale": good["scale"] - 1})
    assert not plausible_gradient({**good, "w": np.array([np.nan])})
    del good["scale"]
    assert not plausible_gradient(good)


@given(st.integers(4, 30), st.integers(0, 2**31), st.data())
def test_one_spoiler_is_found(count: int, seed: int, data: st.DataObject) -> None:
    """In a few rounds, and nobody else is blamed; rounds always have enough clients."""
    names = [f"client-{number}" for number in range(count)]
    most = data.draw(st.integers(1, max(1, count // 3)))
    bad = data.draw(st.sampled_from(names))
    suspects = Suspects(seed)
    spoiled = 0
    for _ in range(4 * count):
        there = [name for name in names if name not in suspects.aside]
        assert len(there) >= count - most
        if bad in there:
            spoiled += 1
            found = suspects.spoiled(there, names, most)
        else:
            found = suspects.cleared(there, names, most)
        if found:
            assert found == bad
            assert spoiled <= 2 + count // most + most
            return
    raise AssertionError("not found")


def test_one_that_behaves_again_is_let_be() -> None:
    names = ["a", "b", "c", "d"]
    suspects = Suspects()
    assert suspects.spoiled(names, names, 1) == ""
    assert suspects.aside
    for _ in range(8):
        there = [name for name in names if name not in suspects.aside]
        if found := suspects.cleared(there, names, 1):
            break
    assert found
    assert not suspects.aside
    assert suspects.cleared(names, names, 1) == ""


def test_two_at_a_time_are_left_aside() -> None:
    """So that no two sums differ by one client alone, where the threshold leaves that room."""
    names = [f"client-{number}" for number in range(10)]
    suspects = Suspects()
    bad, found = names[7], ""
    while not found:
        there = [name for name in names if name not in suspects.aside]
        act = suspects.spoiled if bad in there else suspects.cleared
        found = act(there, names, 3)
        assert found or len(suspects.aside) >= 2


def test_the_distance_of_models() -> None:
    one, other = {"a": np.array([3.0]), "b": np.array([4.0])}, {"a": np.array([3.0])}
    assert model_distance(one, {}) == 5.0
    assert model_distance(one, other) == 4.0
