import numpy as np
import pytest

from autofgl.search.baselines import GridSearch, RandomSearch
from autofgl.search.genes import Categorical, Float, Integer, Ordinal
from autofgl.search.searcher import SearchError
from autofgl.search.space import Codes, SearchSpace

FINITE = SearchSpace(
    (Integer("k", 1, 3), Ordinal("lr", (0.001, 0.01)), Categorical("on", (True, False)))
)


def test_a_small_space_is_listed_without_repeats() -> None:
    codes = Codes((4, 3, 5))
    searcher = RandomSearch(codes, np.random.default_rng(0))
    assert len(set(codes.keys(searcher.ask(60)))) == 60
    assert len(set(codes.keys(searcher.ask(60)))) == 60


def test_equal_networks_count_once() -> None:
    codes = Codes((4, 100), lambda code: code * [1, code[0] == 0])
    searcher = RandomSearch(codes, np.random.default_rng(0))
    assert len(set(codes.keys(searcher.ask(103)))) == 103


def test_told_codes_are_not_asked() -> None:
    codes = Codes((3, 3))
    searcher = RandomSearch(codes, np.random.default_rng(0))
    told = np.array([[0, 0], [1, 1], [2, 2]])
    searcher.tell(told, [1.0, np.nan, 2.0])
    assert not set(codes.keys(told)) & set(codes.keys(searcher.ask(6)))


def test_a_large_space_with_few_networks_gives_repeats() -> None:
    codes = Codes((2,) * 40, lambda code: code[:1])
    assert RandomSearch(codes, np.random.default_rng(0)).ask(5).shape == (5, 40)


def test_the_grid_has_every_candidate_once_and_ends() -> None:
    search = GridSearch(FINITE)
    assert search.ask(20) == list(FINITE.listed())
    assert search.ask() == []
    with pytest.raises(SearchError, match="list"):
        GridSearch(SearchSpace((Float("x", 0.0, 1.0),)))
    codes = Codes((2, 3))
    assert GridSearch(codes).ask(9).tolist() == np.indices((2, 3)).reshape(2, -1).T.tolist()


def test_what_failed_is_asked_again() -> None:
    search = GridSearch(FINITE)
    first, second = search.ask(2)
    search.fail(first)
    assert search.ask() == [first]
    search.tell([second], [0.5])
    assert len(search.ask(20)) == 10


def test_a_seed_gives_every_candidate_a_generator_of_its_own() -> None:
    space = SearchSpace((Float("x", 0.0, 1.0),))
    whole = RandomSearch(space, 7).ask(6)
    halves = RandomSearch(space, 7)
    assert halves.ask(3) == whole[:3]
    again = RandomSearch(space, 7)
    again.load_state(halves.state())
    assert again.ask(3) == whole[3:]
