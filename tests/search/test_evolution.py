import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.search.evolution import (
    Evolution,
    Variation,
    crowding,
    fresh_mutant,
    fronts,
    offspring,
    ranks,
    survivors,
    tournament,
    without_repeats,
)
from autofgl.search.feo import Memo, client_step
from autofgl.search.genes import Categorical, Float
from autofgl.search.searcher import SearchError
from autofgl.search.space import Codes, SearchSpace

CODES = Codes((3, 4, 5, 3, 4))
RNGS = st.integers(0, 2**32).map(np.random.default_rng)


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


@given(RNGS, st.integers(0, 40))
@settings(deadline=None)
def test_repeats_become_mutants(rng: np.random.Generator, taken: int) -> None:
    codes = Codes((3, 3, 3, 3))
    population = np.repeat(codes.population(6, rng), 4, axis=0)
    known = set(codes.keys(codes.population(taken, rng)))
    before = known.copy()
    fresh = without_repeats(codes, population, known, 1 / 8, rng)
    keys = codes.keys(fresh)
    assert len(set(keys)) == 24
    assert not known & set(keys)
    assert known == before
    assert np.array_equal(codes.checked(fresh), fresh)
    for row in codes.unique(population):
        if codes.key(population[row]) not in known and codes.key(population[row]) not in keys[:row]:
            assert np.array_equal(fresh[row], population[row])


def test_fronts_by_hand() -> None:
    values = np.array([[1.0, 4], [2, 2], [4, 1], [3, 3], [5, 5], [2, 2]])
    found = [front.tolist() for front in fronts(values)]
    assert found == [[0, 1, 2, 5], [3], [4]]


def test_crowding_by_hand() -> None:
    """Inner points: the sides of the box around them over the front's ranges (3 and 8)."""
    room = crowding(np.array([[1.0, 9], [2, 4], [4, 1]]))
    assert room.tolist() == [np.inf, pytest.approx(3 / 3 + 8 / 8), np.inf]


def test_a_single_objective_is_its_own_rank() -> None:
    values = np.array([3.0, 1.0, np.inf])
    assert ranks(values).tolist() == ranks(values[:, None]).tolist() == [3.0, 1.0, np.inf]


def test_ranks_order_fronts_first_and_room_second() -> None:
    values = np.array([[1.0, 9], [2, 4], [2.1, 3.9], [4, 1], [5, 5], [np.inf, 10]])
    order = np.argsort(ranks(values), kind="stable").tolist()
    assert set(order[:2]) == {0, 3}
    assert set(order[2:4]) == {1, 2}
    assert order[4:] == [4, 5]


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=30))
def test_no_row_of_a_front_dominates_another_and_every_later_row_is_dominated(
    rows: list[tuple[int, int, int]],
) -> None:
    values = np.array(rows, np.float64)

    def dominated(row: int, by: np.ndarray) -> bool:
        return any((values[b] <= values[row]).all() and (values[b] < values[row]).any() for b in by)

    found = fronts(values)
    assert sorted(np.concatenate(found)) == list(range(len(values)))
    for before, front in zip([np.array([], int), *found], found, strict=False):
        assert not any(dominated(row, front) for row in front)
        assert all(dominated(row, before) for row in front) or not len(before)


def test_a_client_keeps_a_front_of_two_objectives() -> None:
    """The first gene is good for one objective and bad for the other; the second only harms."""
    codes = Codes((10, 10))

    def evaluate(population: np.ndarray) -> np.ndarray:
        first, second = population.T
        return np.column_stack([first + second, 9 - first + second]).astype(np.float64)

    rng = np.random.default_rng(0)
    own = codes.population(12, rng)
    for _ in range(10):
        step = client_step(codes, own, own, Memo(codes, evaluate), 4, rng)
        own = step.population
    best = own[:10]
    assert (best[:, 1] == 0).all()
    assert len(set(best[:, 0].tolist())) == 10


def measured(size: int, seed: int = 0) -> Evolution:
    searcher = Evolution(CODES, size, np.random.default_rng(seed))
    codes = searcher.ask(size)
    searcher.tell(codes, codes.sum(axis=1))
    return searcher


def test_the_population_is_full_and_sorted() -> None:
    searcher = measured(12)
    for _ in range(9):
        codes = searcher.ask(12)
        assert not set(CODES.keys(codes)) & set(CODES.keys(searcher.population))
        searcher.tell(codes, codes.sum(axis=1))
        assert len(set(CODES.keys(searcher.population))) == 12
        assert np.array_equal(searcher.losses, searcher.population.sum(axis=1))
        assert np.all(np.diff(searcher.losses) >= 0)


def test_survivors_are_the_best_of_parents_and_children() -> None:
    searcher = measured(12)
    parents, children = searcher.population, searcher.ask(12)
    searcher.tell(children, children.sum(axis=1))
    everyone = np.concatenate([parents, children]).sum(axis=1)
    assert searcher.losses.tolist() == sorted(everyone)[:12]


def test_a_code_told_again_takes_its_new_loss() -> None:
    searcher = measured(4)
    best = searcher.population[:1]
    searcher.tell(best, [99.0])
    assert len(searcher.population) == 4
    assert np.array_equal(searcher.population[-1:], best)
    searcher.tell(best, [np.nan])
    assert searcher.losses[-1] == np.inf


def test_initial_codes_are_asked_first() -> None:
    initial = CODES.population(5, np.random.default_rng(1))
    searcher = Evolution(CODES, 8, np.random.default_rng(0), initial=initial)
    assert np.array_equal(searcher.ask(3), initial[:3])
    assert np.array_equal(searcher.ask(4)[:2], initial[3:])


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 2**32))
@settings(deadline=None)
def test_offspring_are_new(parents: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    population = CODES.population(parents, rng)
    children = offspring(CODES, population, rng.random(parents), n, rng)
    keys = CODES.keys(CODES.checked(children))
    assert len(set(keys)) == n
    assert not set(keys) & set(CODES.keys(population))


def test_children_of_one_parent_differ_from_it_in_one_gene_of_eight() -> None:
    """Without mutation there would be none, so the rate is that of codes that changed at all."""
    codes = Codes((100,) * 40)
    parent = np.zeros((1, 40), np.int64)
    children = offspring(codes, parent, np.zeros(1), 500, np.random.default_rng(0))
    assert abs(np.mean(children != 0) - 1 / 8) < 0.01


@pytest.mark.parametrize("options", [{"entrants": 0}, {"crossover": 1.5}, {"mutation": 0.0}])
def test_variation_is_checked(options: dict[str, float]) -> None:
    with pytest.raises(SearchError, match="children"):
        Variation(**options)  # type: ignore[arg-type]


def test_an_empty_population_is_refused() -> None:
    with pytest.raises(SearchError, match="at least one"):
        Evolution(CODES, 0, np.random.default_rng(0))


def test_it_evolves_chromosomes_as_well() -> None:
    """A number and a kind: the best of 300 candidates comes close to the only optimum."""
    space = SearchSpace((Float("x", 0.0, 1.0), Categorical("kind", ("a", "b", "c", "d"))))
    searcher = Evolution(space, 12, np.random.default_rng(0), initial=[{"x": 1.0, "kind": "a"}])
    for _ in range(25):
        asked = searcher.ask(12)
        searcher.tell(asked, [abs(one["x"] - 0.3) + (one["kind"] != "c") for one in asked])
    assert searcher.losses[0] < 0.03
    assert searcher.population[0]["kind"] == "c"
