import numpy as np

from autofgl.search import Codes, RandomSearch


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
