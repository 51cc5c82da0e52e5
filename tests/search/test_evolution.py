import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.search import Codes, Evolution, SearchError, Variation, offspring

CODES = Codes((3, 4, 5, 3, 4))


def told(size: int, seed: int = 0) -> Evolution:
    searcher = Evolution(CODES, size, np.random.default_rng(seed))
    codes = searcher.ask(size)
    searcher.tell(codes, codes.sum(axis=1))
    return searcher


def test_the_population_is_full_and_sorted() -> None:
    searcher = told(12)
    for _ in range(9):
        codes = searcher.ask(12)
        assert not set(CODES.keys(codes)) & set(CODES.keys(searcher.population))
        searcher.tell(codes, codes.sum(axis=1))
        assert len(set(CODES.keys(searcher.population))) == 12
        assert np.array_equal(searcher.losses, searcher.population.sum(axis=1))
        assert np.all(np.diff(searcher.losses) >= 0)


def test_survivors_are_the_best_of_parents_and_children() -> None:
    searcher = told(12)
    parents, children = searcher.population, searcher.ask(12)
    searcher.tell(children, children.sum(axis=1))
    everyone = np.concatenate([parents, children]).sum(axis=1)
    assert searcher.losses.tolist() == sorted(everyone)[:12]


def test_a_code_told_again_takes_its_new_loss() -> None:
    searcher = told(4)
    best = searcher.population[:1]
    searcher.tell(best, [99.0])
    assert len(searcher.population) == 4
    assert np.array_equal(searcher.population[-1:], best)
    searcher.tell(best, [np.nan])
    assert searcher.losses[-1] == np.inf


def test_initial_codes_are_asked_first() -> None:
    initial = CODES.draw(5, np.random.default_rng(1))
    searcher = Evolution(CODES, 8, np.random.default_rng(0), initial=initial)
    assert np.array_equal(searcher.ask(3), initial[:3])
    assert np.array_equal(searcher.ask(4)[:2], initial[3:])


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 2**32))
@settings(deadline=None)
def test_offspring_are_new(parents: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    population = CODES.draw(parents, rng)
    children = offspring(CODES, population, rng.random(parents), n, rng)
    keys = CODES.keys(CODES.check(children))
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
