import math

import numpy as np
import pytest

from autofgl.search.genes import Categorical, Float, Ordinal
from autofgl.search.q_learning import BLOCKQNN, QLearning, likelihood, scaled_schedule
from autofgl.search.searcher import SearchError
from autofgl.search.space import Codes, SearchSpace


def test_schedules_scale_to_a_budget() -> None:
    assert scaled_schedule(178) == BLOCKQNN
    scaled = scaled_schedule(1000)
    assert [epsilon for epsilon, _ in scaled] == [epsilon for epsilon, _ in BLOCKQNN]
    assert sum(count for _, count in scaled) == 1000
    assert scaled[0] == (1.0, 534)
    assert sum(count for _, count in scaled_schedule(3)) == 3


def test_epsilon_follows_the_schedule() -> None:
    searcher = QLearning(Codes((9,) * 9), np.random.default_rng(0), [(1.0, 2), (0.5, 0), (0.1, 1)])
    seen = []
    for _ in range(5):
        seen.append(searcher.epsilon)
        searcher.ask()
    assert seen == [1.0, 1.0, 0.1, 0.1, 0.1]


def test_bellman_updates_by_hand() -> None:
    """Two genes, reward 1 in halves, rate 1/2, from the last gene to the first.

    Q(s1, 1): 0 + (0.5 - 0) / 2 = 0.25; then Q(s0, 1): 0 + (0.5 + 0.25 - 0) / 2 = 0.375. Told again:
    0.25 + (0.5 - 0.25) / 2 = 0.375, and 0.375 + (0.5 + 0.375 - 0.375) / 2 = 0.625.
    """
    codes = Codes((2, 3))
    searcher = QLearning(codes, np.random.default_rng(0), rate=0.5, replay=0, initial=0.0)
    searcher.tell([[1, 1]], [0.0])
    first, second = searcher.state()["values"]
    assert first.tolist() == [0, 0.375]
    assert second.tolist() == [[0, 0, 0], [0, 0.25, 0]]
    searcher.tell([[1, 1]], [0.0])
    first, second = searcher.state()["values"]
    assert first.tolist() == [0, 0.625]
    assert second[1].tolist() == [0, 0.375, 0]


def test_replay_converges_to_the_best_continuation() -> None:
    """The first choice is worth its share of the mean reward, and the best that can follow."""
    codes = Codes((2, 2))
    searcher = QLearning(codes, np.random.default_rng(0), rate=0.2, replay=2000)
    searcher.tell([[0, 0], [0, 1], [1, 0], [1, 1]], [0.1, 2.0, 0.5, 0.7])
    first, second = searcher.state()["values"]
    halves = np.exp([[-0.1, -2.0], [-0.5, -0.7]]) / 2
    assert second == pytest.approx(halves, abs=1e-6)
    assert first == pytest.approx(halves.mean(axis=1) + halves.max(axis=1), abs=0.1)


def test_the_greedy_policy_makes_the_best_code() -> None:
    codes = Codes((3, 3, 3))
    searcher = QLearning(codes, np.random.default_rng(0), [(0.0, 1)], replay=500, memory=2)
    everything = np.indices((3, 3, 3)).reshape(3, -1).T
    losses = np.random.default_rng(1).random(27)
    searcher.tell(everything, losses)
    assert np.array_equal(searcher.ask()[0], everything[np.argmin(losses)])


def test_a_state_holds_as_many_genes_as_it_is_told() -> None:
    for memory, shapes in [
        (0, [(2,), (3,), (4,)]),
        (1, [(2,), (2, 3), (3, 4)]),
        (9, [(2,), (2, 3), (2, 3, 4)]),
    ]:
        searcher = QLearning(Codes((2, 3, 4)), np.random.default_rng(0), memory=memory)
        assert [values.shape for values in searcher.state()["values"]] == shapes


def test_a_diverged_code_has_the_lowest_reward_so_far() -> None:
    searcher = QLearning(Codes((5,)), np.random.default_rng(0), replay=0, reward=lambda loss: -loss)
    searcher.tell([[0], [1], [2]], [3.0, np.nan, 1.0])
    searcher.tell([[3], [4]], [np.inf, 9.0])
    assert searcher.state()["rewards"].tolist() == [-3, -3, -1, -9, -9]


def test_rewards_are_likelihoods() -> None:
    assert likelihood(0.0) == 1.0
    assert likelihood(-math.log(0.25)) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": -1},
        {"rate": 0.0},
        {"rate": 1.5},
        {"replay": -1},
        {"schedule": []},
        {"schedule": [(1.5, 3)]},
        {"schedule": [(0.5, -3)]},
    ],
)
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(SearchError):
        QLearning(Codes((2,)), np.random.default_rng(0), **options)  # type: ignore[arg-type]


def test_a_space_of_choices_is_played_by_its_codes() -> None:
    space = SearchSpace((Categorical("kind", ("a", "b")), Ordinal("size", (8, 16, 32))))
    codes = QLearning(Codes((2, 3)), np.random.default_rng(0))
    mixed = QLearning(space, np.random.default_rng(0))
    asked = mixed.ask(5)
    assert np.array_equal(space.encode(space.checked(asked)), codes.ask(5))
    with pytest.raises(SearchError):
        QLearning(SearchSpace((Float("x", 0.0, 1.0),)), np.random.default_rng(0))
