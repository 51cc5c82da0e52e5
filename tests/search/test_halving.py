"""Successive halving by hand."""

import pytest

from autofgl.search.halving import bracket_rounds, rungs_of


@pytest.mark.parametrize(
    ("rounds", "rungs"),
    [
        (100, [25, 50, 100]),
        (50, [12, 25, 50]),
        (8, [2, 4, 8]),
        (3, [1, 2, 3]),
        (2, [1, 2]),
        (1, [1]),
    ],
)
def test_half_end_after_a_quarter_and_half_of_the_others_after_half(
    rounds: int, rungs: list[int]
) -> None:
    assert rungs_of(rounds) == rungs


@pytest.mark.parametrize(
    ("candidates", "rounds", "total"),
    [
        (8, 100, 8 * 25 + 4 * 25 + 2 * 50),
        (9, 100, 9 * 25 + 5 * 25 + 3 * 50),
        (1, 100, 100),
        (3, 2, 3 + 2),
        (5, 1, 5),
        (0, 100, 0),
    ],
)
def test_what_a_bracket_costs(candidates: int, rounds: int, total: int) -> None:
    assert bracket_rounds(candidates, rounds) == total
