import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.search import Codes, Memo, client_step, fronts, ranks
from autofgl.search.pareto import crowding


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
    own = codes.draw(12, rng)
    for _ in range(10):
        step = client_step(codes, own, own, Memo(codes, evaluate), 4, rng)
        own = step.population
    best = own[:10]
    assert (best[:, 1] == 0).all()
    assert len(set(best[:, 0].tolist())) == 10
