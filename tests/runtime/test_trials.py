"""The choice among trained networks."""

from autofgl.runtime.trials import (
    Score,
    Trial,
    distinct,
    most_accurate_first,
    smallest_of_the_best_first,
)


def test_most_accurate_first_and_of_equals_the_lower_loss() -> None:
    networks = [Score(0.7, 0.1), Score(0.8, 0.9), Score(0.8, 0.5)]
    assert most_accurate_first(networks) == [2, 1, 0]


def test_within_one_standard_error_the_smallest_comes_first() -> None:
    # The best is right on 80 of 100 nodes: its standard error is sqrt(.8 * .2 / 100) = 0.04.
    networks = [
        Score(0.80, 0.5, parameters=900),
        Score(0.761, 0.5, parameters=100),
        Score(0.77, 0.5, parameters=100),
        Score(0.759, 0.5, parameters=1),
        Score(0.78, 0.5, parameters=500),
    ]
    assert smallest_of_the_best_first(networks, nodes=100) == [2, 1, 4, 0, 3]


def test_with_many_nodes_only_the_best_is_the_best() -> None:
    networks = [Score(0.80, 0.5, parameters=900), Score(0.77, 0.5, parameters=100)]
    assert smallest_of_the_best_first(networks, nodes=10_000) == [0, 1]


def test_nothing_to_choose_from() -> None:
    assert most_accurate_first([]) == []
    assert smallest_of_the_best_first([], nodes=10) == []


def test_without_validation_nodes_all_are_alike() -> None:
    networks = [Score(0.0, 2.0, parameters=9), Score(0.0, 1.0, parameters=3)]
    assert smallest_of_the_best_first(networks, nodes=0) == [1, 0]


def test_of_equal_figures_one_network_is_enough() -> None:
    losses = {"a": 0.5, "b": 0.5 + 1e-8, "c": 0.6}
    one, same, other = (Trial(name, 0.2, 0.8, loss, 5, "done") for name, loss in losses.items())
    assert distinct([one, same, other]) == [one, other]
