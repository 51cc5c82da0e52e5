"""The contract of searchers: each of them passes this suite, over codes and over chromosomes.

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

from families import family

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))
from landscapes import chain, lowest_loss

from autofgl.federation.payload import decode, encode
from autofgl.search.baselines import GridSearch, RandomSearch
from autofgl.search.bayes import Bayes
from autofgl.search.evolution import Evolution
from autofgl.search.genes import Categorical, Integer, Ordinal
from autofgl.search.genetic import Genetic
from autofgl.search.q_learning import QLearning, scaled_schedule
from autofgl.search.searcher import Searcher, SearchError
from autofgl.search.space import Codes, SearchSpace

BUDGET = 600
Make = Callable[[SearchSpace, np.random.Generator], Searcher]

SEARCHERS: dict[str, Make] = {
    "random": RandomSearch,
    "random by seed": lambda space, rng: RandomSearch(space, int(rng.integers(1 << 32))),
    "grid": lambda space, rng: GridSearch(space),
    "evolution": lambda space, rng: Evolution(space, 40, rng),
    "genetic": lambda space, rng: Genetic(space, rng, 20),
    "q-learning": lambda space, rng: QLearning(space, rng, scaled_schedule(BUDGET)),
    "bayes": lambda space, rng: Bayes(space, int(rng.integers(1 << 32)), startup=60),
}
#: Those that depend on chance, those that hold its generator, and those that learn fast.
RANDOM = [name for name in SEARCHERS if name != "grid"]
WITH_GENERATOR = ["random", "evolution", "genetic", "q-learning"]
LEARNERS = ["evolution", "q-learning"]

SMALL = Codes((3, 2, 4, 3, 3, 2))
MIXED = SearchSpace(
    (
        Categorical("kind", ("gcn", "sage", "gat")),
        Categorical("bias", (True, False)),
        Integer("layers", 1, 4),
        Ordinal("width", (8, 16, 32)),
        Ordinal("rate", (0.001, 0.01, 0.1)),
        Categorical("bits", (1, 1.0)),
    )
)
FORMS = {"codes": SMALL, "chromosomes": MIXED}


@pytest.fixture(params=FORMS)
def space(request: pytest.FixtureRequest) -> SearchSpace:
    return FORMS[request.param]


@pytest.fixture(params=SEARCHERS)
def make(request: pytest.FixtureRequest) -> Make:
    return SEARCHERS[request.param]


def vectors(space: SearchSpace, candidates: Any) -> Any:
    return space.encode(space.checked(candidates))


def loss(space: SearchSpace, candidates: Any) -> Any:
    """Any deterministic function of the candidates."""
    codes = vectors(space, candidates)
    return np.sin(codes @ np.arange(1, codes.shape[1] + 1)) + 1


def drive(searcher: Searcher, space: SearchSpace, rounds: int, batch: int = 7) -> list[Any]:
    """All that the searcher asks in some rounds, in vector form."""
    asked = vectors(space, searcher.ask(0)).tolist()
    for _ in range(rounds):
        candidates = searcher.ask(batch)
        asked += vectors(space, candidates).tolist()
        searcher.tell(candidates, loss(space, candidates))
    return asked


def halved(code: Any) -> Any:
    """A canonical form: the last gene has no effect if the first is 0."""
    return np.append(code[:-1], 0) if code[0] == 0 else code


def without_bits(one: Any) -> Any:
    """The same of chromosomes."""
    return {**one, "bits": 1} if one["kind"] == "gcn" else one


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
    codes = Codes(cardinalities, halved if canonical else None)
    searcher = SEARCHERS[name](codes, np.random.default_rng(seed))
    for _ in range(12):
        asked = searcher.ask(batch)
        assert asked.dtype == np.int64
        assert np.array_equal(codes.checked(asked), asked)
        assert name in ("grid", "genetic") or len(asked) == batch
        assert len(asked) <= batch
        assert name == "grid" or bool(len(asked)) == bool(batch)
        searcher.tell(asked, loss(codes, asked))


def test_chromosomes_are_plain_and_ordered(make: Make) -> None:
    searcher = make(MIXED, np.random.default_rng(0))
    for _ in range(3):
        asked = searcher.ask(6)
        assert [*map(MIXED.check, asked)] == asked
        assert all([*one] == MIXED.labels for one in asked)
        assert decode(encode({"asked": asked})) == {"asked": asked}
        asked[0]["layers"] = 99  # the caller's own
        searcher.tell(asked[1:], loss(MIXED, asked[1:]))


@pytest.mark.parametrize(
    "canonical", [Codes(SMALL.cardinalities, halved), SearchSpace(MIXED.genes, without_bits)]
)
@pytest.mark.parametrize("name", [name for name in SEARCHERS if name != "bayes"])
def test_a_batch_holds_no_network_twice(name: str, canonical: SearchSpace) -> None:
    """Bayes' space-filling design may hold a network twice where the space is coarse."""
    searcher = SEARCHERS[name](canonical, np.random.default_rng(0))
    for _ in range(5):
        asked = searcher.ask(10)
        assert len(set(canonical.keys(canonical.checked(asked)))) == len(asked)
        searcher.tell(asked, loss(canonical, asked))


@pytest.mark.parametrize("name", RANDOM)
def test_the_seed_decides(name: str, space: SearchSpace) -> None:
    make = SEARCHERS[name]
    one, same, other = (make(space, np.random.default_rng(seed)) for seed in (1, 1, 2))
    asked = drive(one, space, 8)
    assert asked == drive(same, space, 8)
    assert asked != drive(other, space, 8)


def test_the_global_generator_is_left_alone(make: Make, space: SearchSpace) -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    drive(make(space, np.random.default_rng(0)), space, 9)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("rounds", [0, 1, 4, 8])
def test_a_loaded_state_goes_on_exactly(make: Make, space: SearchSpace, rounds: int) -> None:
    first = make(space, np.random.default_rng(3))
    drive(first, space, rounds)
    first.ask(3)  # asked and never told
    data = encode(first.state())
    ahead = drive(first, space, 1, batch=4)
    second = make(space, np.random.default_rng(3))
    drive(second, space, 2)
    second.load_state(decode(data))
    assert encode(second.state()) == data
    assert drive(second, space, 1, batch=4) == ahead
    assert encode(second.state()) == encode(first.state())


def test_a_state_does_not_change_afterwards(make: Make, space: SearchSpace) -> None:
    searcher = make(space, np.random.default_rng(3))
    drive(searcher, space, 5)
    state = searcher.state()
    data = encode(state)
    drive(searcher, space, 3)
    assert encode(state) == data


@pytest.mark.parametrize("other_space", [Codes((2, 2, 2)), SearchSpace(MIXED.genes[1:])])
def test_a_foreign_state_is_refused_and_nothing_changes(
    make: Make, space: SearchSpace, other_space: SearchSpace
) -> None:
    searcher, other = (
        make(space, np.random.default_rng(0)),
        make(other_space, np.random.default_rng(0)),
    )
    drive(other, other_space, 8, batch=5)
    data = encode(searcher.state())
    with pytest.raises(SearchError):
        searcher.load_state(other.state())
    assert encode(searcher.state()) == data


@pytest.mark.parametrize("name", WITH_GENERATOR)
def test_the_state_of_another_generator_is_refused(name: str) -> None:
    make = SEARCHERS[name]
    other = make(SMALL, np.random.Generator(np.random.Philox(0)))
    with pytest.raises(SearchError, match="PCG64"):
        make(SMALL, np.random.default_rng(0)).load_state(other.state())


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox, np.random.SFC64])
@pytest.mark.parametrize("name", WITH_GENERATOR)
def test_every_generator_of_numpy_will_do(name: str, kind: Any) -> None:
    make = SEARCHERS[name]
    first, second = (make(SMALL, np.random.Generator(kind(seed))) for seed in (0, 1))
    drive(first, SMALL, 2)
    second.load_state(decode(encode(first.state())))
    assert drive(second, SMALL, 3) == drive(first, SMALL, 3)


def test_what_was_never_asked_may_be_told(make: Make, space: SearchSpace) -> None:
    searcher = make(space, np.random.default_rng(0))
    strangers = space.candidates(space.population(50, np.random.default_rng(1)))
    before = encode({"codes": vectors(space, strangers)})
    searcher.tell(strangers, loss(space, strangers))
    searcher.tell(strangers[:0], [])
    drive(searcher, space, 1)
    assert encode({"codes": vectors(space, strangers)}) == before


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
def test_codes_that_do_not_fit_are_refused(make: Make, codes: Any, losses: Any) -> None:
    searcher = make(SMALL, np.random.default_rng(0))
    data = encode(searcher.state())
    with pytest.raises(SearchError):
        searcher.tell(codes, losses)
    assert encode(searcher.state()) == data


def test_chromosomes_that_do_not_fit_are_refused(make: Make) -> None:
    searcher, good = make(MIXED, np.random.default_rng(0)), next(MIXED.listed())
    data = encode(searcher.state())
    for bad in ({**good, "layers": 9}, {"kind": "gcn"}, {**good, "more": 1}, [1, 2]):
        with pytest.raises(SearchError):
            searcher.tell([good, bad], [0.1, 0.2])
        with pytest.raises(SearchError):
            searcher.fail(bad)
    with pytest.raises(SearchError):
        searcher.tell([good], [0.1, 0.2])
    assert encode(searcher.state()) == data


@pytest.mark.parametrize("name", SEARCHERS)
def test_what_failed_may_be_asked_again_and_the_search_goes_on(
    name: str, space: SearchSpace
) -> None:
    searcher = SEARCHERS[name](space, np.random.default_rng(0))
    for _ in range(3):
        asked = searcher.ask(4)
        searcher.fail(asked[0])
        searcher.tell(asked[1:], loss(space, asked[1:]))
    if name in ("random", "random by seed", "grid", "bayes"):
        with pytest.raises(SearchError, match="asked"):
            searcher.fail(asked[0])
    again = SEARCHERS[name](space, np.random.default_rng(0))
    again.load_state(decode(encode(searcher.state())))
    assert drive(again, space, 2) == drive(searcher, space, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", WITH_GENERATOR)
def test_a_diverged_candidate_counts_as_worst(name: str, bad: float, space: SearchSpace) -> None:
    """Those with gene 0 at 0 diverge; a searcher that took them for good would be drawn there."""
    make = SEARCHERS[name]
    searcher = make(space, np.random.default_rng(0))
    for _ in range(30):
        asked = searcher.ask(10)
        worst = vectors(space, asked)[:, 0] == 0
        searcher.tell(asked, np.where(worst, bad, loss(space, asked)))
    if name in LEARNERS:
        assert np.mean(vectors(space, searcher.ask(10))[:, 0] == 0) < 0.34
    again = make(space, np.random.default_rng(1))
    again.load_state(decode(encode(searcher.state())))
    assert drive(again, space, 1) == drive(searcher, space, 1)


def test_nothing_but_diverged_candidates(make: Make, space: SearchSpace) -> None:
    searcher = make(space, np.random.default_rng(0))
    for _ in range(6):
        asked = searcher.ask(10)
        searcher.tell(asked, [np.nan] * len(asked))
    assert 0 < len(searcher.ask(2)) <= 2


def regrets(name: str) -> Any:
    """Distance from the optimum of 20 tables of 102,400 codes after 600 evaluations."""
    distances = []
    for seed in range(20):
        landscape = chain(seed)
        searcher = SEARCHERS[name](landscape.codes, np.random.default_rng([5, seed]))
        distances.append(lowest_loss(searcher, landscape, BUDGET) - landscape.optimum)
    return np.array(distances)


@pytest.fixture(scope="module")
def random_regrets() -> Any:
    return regrets("random")


@pytest.mark.parametrize("name", family(LEARNERS, ["evolution"]))
def test_learners_beat_random_search(name: str, random_regrets: Any) -> None:
    ours = regrets(name)
    print(f"{name}: regret {ours.mean():.4f}, optimum in {np.sum(ours < 1e-9)} of 20 seeds")
    print(f"random: regret {random_regrets.mean():.4f}, in {np.sum(random_regrets < 1e-9)}")
    assert np.sum(random_regrets < 1e-9) == 0
    assert np.sum(ours < 1e-9) >= 4
    assert np.sum(ours < random_regrets) >= 19
    assert ours.mean() < 0.3 * random_regrets.mean()


def test_generations_beat_random_search(random_regrets: Any) -> None:
    """Slower, since it asks for no more than a generation at once and mutates few children."""
    ours = regrets("genetic")
    assert np.sum(ours < random_regrets) >= 16
    assert ours.mean() < 0.5 * random_regrets.mean()


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
