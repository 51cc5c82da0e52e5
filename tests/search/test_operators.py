from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.search import Codes
from autofgl.search.operators import (
    crossover,
    fresh_code,
    fresh_mutant,
    mutate,
    survivors,
    tournament,
    without_repeats,
)

SPACES = st.lists(st.integers(1, 6), min_size=1, max_size=8).map(lambda c: Codes(tuple(c)))
RNGS = st.integers(0, 2**32).map(np.random.default_rng)
RATES = st.floats(0, 1)


def inside(codes: Codes, population: Any) -> bool:
    return bool(np.all((population >= 0) & (population < np.array(codes.cardinalities))))


@given(SPACES, RNGS, RATES)
@settings(deadline=None)
def test_crossover_takes_each_gene_from_a_parent(
    codes: Codes, rng: np.random.Generator, rate: float
) -> None:
    mothers, fathers = codes.draw(9, rng), codes.draw(9, rng)
    children = crossover(mothers, fathers, rate, rng)
    assert np.all((children == mothers) | (children == fathers))


def test_crossover_takes_the_fathers_gene_at_the_rate() -> None:
    zeros, ones = np.zeros((2000, 10), np.int64), np.ones((2000, 10), np.int64)
    for rate in (0.0, 0.2, 0.5, 1.0):
        children = crossover(zeros, ones, rate, np.random.default_rng(0))
        assert abs(children.mean() - rate) < 0.015
        assert np.abs(children.mean(axis=0) - rate).max() < 0.04


@given(SPACES, RNGS, RATES)
@settings(deadline=None)
def test_mutation_stays_inside_the_space(
    codes: Codes, rng: np.random.Generator, rate: float
) -> None:
    assert inside(codes, mutate(codes, codes.draw(9, rng), rate, rng))


def test_mutation_changes_one_gene_in_eight() -> None:
    """20,000 genes a column: 0.01 is more than four standard deviations."""
    codes = Codes((2, 3, 12, 5, 1))
    rng = np.random.default_rng(0)
    parents = codes.draw(20_000, rng)
    changed = np.mean(mutate(codes, parents, 1 / 8, rng) != parents, axis=0)
    assert np.abs(changed[:4] - 1 / 8).max() < 0.01
    assert changed[4] == 0


def test_mutation_reaches_every_other_value_alike() -> None:
    codes = Codes((5,))
    mutants = mutate(codes, np.full((8000, 1), 3), 1.0, np.random.default_rng(0))
    shares = np.bincount(mutants[:, 0], minlength=5) / 8000
    assert shares[3] == 0
    assert np.abs(shares[[0, 1, 2, 4]] - 1 / 4).max() < 0.02


def test_tournament_prefers_low_losses() -> None:
    """Of two entrants the best of four wins in 7/16 of the cases, the worst in 1/16."""
    losses = np.array([0.3, np.inf, 0.1, 0.2])
    winners = tournament(losses, 16_000, 2, np.random.default_rng(0))
    shares = np.bincount(winners, minlength=4) / 16_000
    assert np.abs(shares - np.array([3, 1, 7, 5]) / 16).max() < 0.015


def test_a_tournament_of_one_is_a_random_draw() -> None:
    winners = tournament(np.arange(4.0), 8000, 1, np.random.default_rng(0))
    assert np.abs(np.bincount(winners) / 8000 - 1 / 4).max() < 0.02


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 25))
@settings(deadline=None)
def test_survivors_are_the_best_different_codes(values: list[int], n: int) -> None:
    codes = Codes((6,))
    population = np.array(values)[:, None]
    losses = np.array([[2.0, 0.5, 0.5, np.inf, 1.0, 0.0][value] for value in values])
    kept = survivors(codes, population, losses, n)
    assert len({values[row] for row in kept}) == len(kept) == min(n, len(set(values)))
    assert np.all(np.diff(losses[kept]) >= 0) or np.isinf(losses[kept[-1]])
    left = set(values) - {values[row] for row in kept}
    assert not len(kept) or all(losses[values.index(value)] >= losses[kept[-1]] for value in left)


def test_earlier_codes_survive_a_tie() -> None:
    population = np.array([[3], [1], [3], [2]])
    assert survivors(Codes((4,)), population, np.ones(4), 2).tolist() == [0, 1]


def test_a_code_that_is_free_stays_as_it_is() -> None:
    codes, code = Codes((4, 4)), np.array([1, 2])
    rng = np.random.default_rng(0)
    assert fresh_mutant(codes, code, set(), 1 / 8, rng) is code
    other = fresh_mutant(codes, code, {codes.key(code)}, 1 / 8, rng)
    assert not np.array_equal(other, code)


def test_a_space_that_is_used_up_gives_repeats() -> None:
    codes, rng = Codes((1, 1)), np.random.default_rng(0)
    taken = {codes.key(np.array([0, 0]))}
    assert fresh_code(codes, taken, rng).tolist() == [0, 0]
    assert fresh_mutant(codes, np.array([0, 0]), taken, 1 / 8, rng).tolist() == [0, 0]


@given(RNGS, st.integers(0, 40))
@settings(deadline=None)
def test_repeats_become_mutants(rng: np.random.Generator, taken: int) -> None:
    codes = Codes((3, 3, 3, 3))
    population = np.repeat(codes.draw(6, rng), 4, axis=0)
    known = set(codes.keys(codes.draw(taken, rng)))
    before = known.copy()
    fresh = without_repeats(codes, population, known, 1 / 8, rng)
    keys = codes.keys(fresh)
    assert len(set(keys)) == 24
    assert not known & set(keys)
    assert known == before
    assert inside(codes, fresh)
    for row in codes.unique(population):
        if codes.key(population[row]) not in known and codes.key(population[row]) not in keys[:row]:
            assert np.array_equal(fresh[row], population[row])
