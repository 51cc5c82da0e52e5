"""The contract of searchers: each of them passes this suite.

A searcher joins by a line in ``SEARCHERS``. States pass the real codec.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))
from landscapes import best_found, chain

from autofgl.federation.payload import decode, encode
from autofgl.search import (
    Codes,
    Evolution,
    QLearning,
    RandomSearch,
    Searcher,
    SearchError,
    scaled_schedule,
)

BUDGET = 600
Make = Callable[[Codes, np.random.Generator], Searcher]

SEARCHERS: dict[str, Make] = {
    "random": RandomSearch,
    "evolution": lambda codes, rng: Evolution(codes, 40, rng),
    "q-learning": lambda codes, rng: QLearning(codes, rng, scaled_schedule(BUDGET)),
}
LEARNERS = [name for name in SEARCHERS if name != "random"]

SMALL = Codes((3, 2, 4, 3, 3, 2))


@pytest.fixture(params=SEARCHERS)
def make(request: pytest.FixtureRequest) -> Make:
    return SEARCHERS[request.param]


def loss(codes: Any) -> Any:
    """Any deterministic function of the codes."""
    return np.sin(codes @ np.arange(1, codes.shape[1] + 1)) + 1


def drive(searcher: Searcher, rounds: int, batch: int = 7) -> Any:
    """All codes that the searcher asks in some rounds."""
    asked = [searcher.ask(0)]
    for _ in range(rounds):
        asked.append(searcher.ask(batch))
        searcher.tell(asked[-1], loss(asked[-1]))
    return np.concatenate(asked)


def halved(code: Any) -> Any:
    """A canonical form: the last gene has no effect if the first is 0."""
    return np.append(code[:-1], 0) if code[0] == 0 else code


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(0, 5),
    st.integers(0, 99),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("name", SEARCHERS)
def test_asks_stay_inside_the_space(
    name: str, cardinalities: list[int], batch: int, seed: int, canonical: bool
) -> None:
    codes = Codes(tuple(cardinalities), halved) if canonical else Codes(tuple(cardinalities))
    searcher = SEARCHERS[name](codes, np.random.default_rng(seed))
    for _ in range(12):
        asked = searcher.ask(batch)
        assert asked.shape == (batch, codes.genes)
        assert asked.dtype == np.int64
        assert np.all(asked >= 0)
        assert np.all(asked < cardinalities)
        searcher.tell(asked, loss(asked))


def test_a_batch_holds_no_network_twice(make: Make) -> None:
    codes = Codes(SMALL.cardinalities, halved)
    searcher = make(codes, np.random.default_rng(0))
    for _ in range(6):
        asked = searcher.ask(10)
        assert len(set(codes.keys(asked))) == 10
        searcher.tell(asked, loss(asked))


def test_the_seed_decides(make: Make) -> None:
    one, same, other = (make(SMALL, np.random.default_rng(seed)) for seed in (1, 1, 2))
    asked = drive(one, 9)
    assert np.array_equal(asked, drive(same, 9))
    assert not np.array_equal(asked, drive(other, 9))


def test_the_global_generator_is_left_alone(make: Make) -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    drive(make(SMALL, np.random.default_rng(0)), 9)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("rounds", [0, 1, 4, 12])
def test_a_loaded_state_goes_on_exactly(make: Make, rounds: int) -> None:
    first = make(SMALL, np.random.default_rng(3))
    drive(first, rounds)
    first.ask(3)  # asked and never told
    data = encode(first.state())
    ahead = drive(first, 9)
    second = make(SMALL, np.random.default_rng(4))
    drive(second, 2)
    second.load_state(decode(data))
    assert encode(second.state()) == data
    assert np.array_equal(drive(second, 9), ahead)
    assert encode(second.state()) == encode(first.state())


def test_a_state_does_not_change_afterwards(make: Make) -> None:
    searcher = make(SMALL, np.random.default_rng(3))
    drive(searcher, 7)
    state = searcher.state()
    data = encode(state)
    drive(searcher, 7)
    assert encode(state) == data


def test_a_foreign_state_is_refused_and_nothing_changes(make: Make) -> None:
    searcher, other = (make(codes, np.random.default_rng(0)) for codes in (SMALL, Codes((2, 2, 2))))
    drive(other, 8, batch=5)
    data = encode(searcher.state())
    with pytest.raises(SearchError):
        searcher.load_state(other.state())
    assert encode(searcher.state()) == data


def test_the_state_of_another_generator_is_refused(make: Make) -> None:
    other = make(SMALL, np.random.Generator(np.random.Philox(0)))
    with pytest.raises(SearchError, match="PCG64"):
        make(SMALL, np.random.default_rng(0)).load_state(other.state())


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_every_generator_of_numpy_will_do(make: Make, kind: Any) -> None:
    first, second = (make(SMALL, np.random.Generator(kind(seed))) for seed in (0, 1))
    drive(first, 2)
    second.load_state(decode(encode(first.state())))
    assert np.array_equal(drive(second, 3), drive(first, 3))


def test_what_was_never_asked_may_be_told(make: Make) -> None:
    searcher = make(SMALL, np.random.default_rng(0))
    told = SMALL.draw(50, np.random.default_rng(1))
    before = told.copy()
    told.flags.writeable = False
    searcher.tell(told, loss(told))
    searcher.tell(told[:0], [])
    drive(searcher, 3)
    assert np.array_equal(told, before)


@pytest.mark.parametrize(
    ("codes", "losses"),
    [
        ([[0] * 6], [0.1, 0.2]),
        ([[0] * 6], [[0.1]]),
        ([[0] * 5], [0.1]),
        ([0] * 6, [0.1]),
        ([[0] * 5 + [2]], [0.1]),
        ([[0] * 5 + [-1]], [0.1]),
        ([[0.0] * 6], [0.1]),
    ],
)
def test_what_does_not_fit_is_refused(make: Make, codes: Any, losses: Any) -> None:
    searcher = make(SMALL, np.random.default_rng(0))
    data = encode(searcher.state())
    with pytest.raises(SearchError):
        searcher.tell(codes, losses)
    assert encode(searcher.state()) == data


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_diverged_code_counts_as_worst(make: Make, bad: float) -> None:
    """Codes with gene 0 at 0 diverge; a searcher that took them for good would be drawn there."""
    searcher = make(SMALL, np.random.default_rng(0))
    for _ in range(30):
        asked = searcher.ask(10)
        searcher.tell(asked, np.where(asked[:, 0] == 0, bad, loss(asked)))
    if not isinstance(searcher, RandomSearch):
        assert np.mean(searcher.ask(10)[:, 0] == 0) < 0.34
    again = make(SMALL, np.random.default_rng(1))
    again.load_state(decode(encode(searcher.state())))
    assert np.array_equal(again.ask(5), searcher.ask(5))


def test_nothing_but_diverged_codes(make: Make) -> None:
    searcher = make(SMALL, np.random.default_rng(0))
    for _ in range(10):
        asked = searcher.ask(10)
        searcher.tell(asked, [np.nan] * 10)
    assert searcher.ask(10).shape == (10, 6)


def regrets(name: str) -> Any:
    """Distance from the optimum of 20 tables of 102,400 codes after 600 evaluations."""
    found = []
    for seed in range(20):
        landscape = chain(seed)
        searcher = SEARCHERS[name](landscape.codes, np.random.default_rng([5, seed]))
        found.append(best_found(searcher, landscape, BUDGET) - landscape.optimum)
    return np.array(found)


@pytest.fixture(scope="module")
def random_regrets() -> Any:
    return regrets("random")


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_beat_random_search(name: str, random_regrets: Any) -> None:
    found = regrets(name)
    print(f"{name}: regret {found.mean():.4f}, optimum in {np.sum(found < 1e-9)} of 20 seeds")
    print(f"random: regret {random_regrets.mean():.4f}, in {np.sum(random_regrets < 1e-9)}")
    assert np.sum(random_regrets < 1e-9) == 0
    assert np.sum(found < 1e-9) >= 4
    assert np.sum(found < random_regrets) >= 19
    assert found.mean() < 0.3 * random_regrets.mean()


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_improve(name: str) -> None:
    landscape = chain(0)
    searcher = SEARCHERS[name](landscape.codes, np.random.default_rng(0))
    means = []
    for _ in range(BUDGET // 20):
        codes = searcher.ask(20)
        searcher.tell(codes, landscape(codes))
        means.append(landscape(codes).mean())
    assert np.mean(means[-5:]) < np.mean(means[:5]) - landscape.table.std()
