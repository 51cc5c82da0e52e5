"""Searches in parts: each owner its own genes, and votes for the common one."""

import numpy as np
import pytest

from autofgl.federation.payload import decode, encode
from autofgl.search.genes import Float, Ordinal
from autofgl.search.own_part import OwnPart, elected, explores
from autofgl.search.searcher import SearchError
from autofgl.search.space import SearchSpace

SPACE = SearchSpace((Float("x", 0.0, 1.0), Ordinal("width", (8, 16, 32))))
#: Where each of two owners has its optimum, and the width that all like.
OPTIMA, LIKED = (0.1, 0.9), 16


def loss(one: dict[str, float], optimum: float) -> float:
    return (one["x"] - optimum) ** 2 + (0 if one["width"] == LIKED else 0.2)


def tune(parts: list[OwnPart], first: int, last: int, trials: int) -> list[float]:
    means = []
    for number in range(first, last + 1):
        explore = explores(number, trials, 4)
        votes = np.sum([part.votes(explore) for part in parts], axis=0)
        width = parts[0].values[elected(votes, np.random.default_rng(number))]
        tried = [part.candidate(explore, width) for part in parts]
        losses = [loss(one, at) for one, at in zip(tried, OPTIMA, strict=True)]
        for part, one, value in zip(parts, tried, losses, strict=True):
            part.tell(one, value)
        means.append(float(np.mean(losses)))
    return means


def owners() -> list[OwnPart]:
    return [OwnPart(SPACE, "width", seed, startup=4) for seed in range(len(OPTIMA))]


def test_owners_come_to_their_own_optima_at_the_width_that_all_like() -> None:
    parts = owners()
    tune(parts, 1, 6, 10)
    state = decode(encode({str(at): part.state() for at, part in enumerate(parts)}))
    rest = tune(parts, 7, 10, 10)
    assert rest[-1] == min(rest)
    assert rest[-1] < 0.02
    again = owners()
    for at, part in enumerate(again):
        part.load_state(state[str(at)])
    assert tune(again, 7, 10, 10) == rest


def test_votes_are_for_what_was_proposed_or_for_the_best_of_each_width() -> None:
    part = OwnPart(SPACE, "width", 0, startup=4)
    for width, value in ((8, 0.3), (8, 0.2), (32, 0.9)):
        part.tell({"x": value, "width": width}, value)
    np.testing.assert_allclose(part.votes(explore=False), [0.8, 1e-3, 0.1])
    assert part.candidate(False, 8) == {"x": 0.2, "width": 8}
    assert part.candidate(False, 16)["width"] == 16  # nothing is known of it: explored
    assert sorted(part.votes(explore=True)) == pytest.approx([1e-3, 1e-3, 1.001])


def test_of_equal_votes_any_wins() -> None:
    rng = np.random.default_rng(0)
    assert {elected(np.array([1.0, 3.0, 3.0]), rng) for _ in range(20)} == {1, 2}


def test_every_fourth_trial_and_the_last_repeat_the_best() -> None:
    repeats = [at for at in range(1, 15) if not explores(at, 14, 5)]
    assert repeats == [8, 12, 14]
    assert explores(1, 1, 5)


def test_common_values_have_to_be_listed() -> None:
    with pytest.raises(SearchError, match="have to be listed"):
        OwnPart(SearchSpace((Float("x", 0.0, 1.0),)), "x", 0)
