"""The pieces of Algorithms 1 and 2 by hand, and where the clients' own optimizers pay.

On :func:`landscapes.disagreeing_clients` the controller's population soon agrees on every client's
decoy, and no single mutation leads out. A client does not care about the others' decisive genes, so
these drift freely in its population: what it sends keeps values alive that the controller has
already discarded, and once the right combination is among them, crossover and FLL put the clients'
parts together. Where there is nothing to be led astray by, the clients' evaluations buy less.
"""

import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from landscapes import SimulatedSearch, disagreeing_clients

from autofgl.search.feo import (
    Memo,
    Quotas,
    client_step,
    evolve,
    gamma,
    next_population,
    quotas,
)
from autofgl.search.searcher import Losses, SearchError
from autofgl.search.space import Codes, Population

CODES = Codes((4,) * 6)
SEEDS = range(20)
BUDGET = 9000
COUNTS = st.lists(st.integers(0, 5000), max_size=12)
GAMMAS = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


def local_loss(population: Population) -> Losses:
    """A client that likes small genes, the first ones most."""
    return np.asarray(population @ np.array([32.0, 16, 8, 4, 2, 1]))


def federated_loss(population: Population) -> Losses:
    """The opposite."""
    return -local_loss(population)


def distinct(n: int, seed: int = 0) -> Population:
    drawn = CODES.population(20 * n, np.random.default_rng(seed))
    return drawn[CODES.unique(drawn)][:n]


def test_gamma_by_hand() -> None:
    assert gamma(1) == 0.5 * 0.99
    assert gamma(2) == pytest.approx(0.49005)
    assert gamma(250) == pytest.approx(0.5 * 0.99**250)


def test_quotas_by_hand() -> None:
    """0.495 of 60 are 29.7: 14.85 + 9.9 + 4.95 for the clients, 30.3 for the controller."""
    assert quotas(60, 0.495, [150, 100, 50]) == Quotas((15, 10, 5), 30)
    assert quotas(60, 0.0, [1, 2]) == Quotas((0, 0), 60)
    assert quotas(60, 1.0, [1, 2]) == Quotas((20, 40), 0)
    assert quotas(60, 0.5, [0, 0]) == Quotas((0, 0), 60)
    assert quotas(60, 0.5, []) == Quotas((), 60)
    assert quotas(3, 0.5, [1]) == Quotas((1,), 2)


@given(st.integers(0, 500), GAMMAS, COUNTS)
@settings(deadline=None)
def test_quotas_always_add_up(population: int, share: float, counts: list[int]) -> None:
    places = quotas(population, share, counts)
    assert sum(places.clients) + places.controller == population
    assert len(places.clients) == len(counts)
    total = sum(counts)
    if not total:
        assert places.controller == population
        return
    assert abs(places.controller - population * (1 - share)) < 1 + 1e-9
    for got, count in zip(places.clients, counts, strict=True):
        exact = population * share * count / total
        assert math.floor(exact - 1e-6) <= got <= math.ceil(exact + 1e-6)
        assert count or not got


@given(st.integers(1, 5000), st.integers(0, 200), GAMMAS)
@settings(deadline=None)
def test_one_client_shares_with_the_controller(nodes: int, population: int, share: float) -> None:
    (client,) = quotas(population, share, [nodes]).clients
    assert abs(client - population * share) <= 0.5 + 1e-9


@given(COUNTS)
@settings(deadline=None)
def test_larger_clients_never_have_fewer_places(counts: list[int]) -> None:
    places = quotas(60, 0.45, counts).clients
    order = sorted(range(len(counts)), key=lambda i: (counts[i], places[i]))
    assert all(places[a] <= places[b] for a, b in pairwise(order))


@pytest.mark.parametrize("bad", [(60, 1.1, [1]), (60, -0.1, [1]), (60, 0.5, [-1]), (-1, 0.5, [1])])
def test_quotas_refuse_nonsense(bad: tuple[int, float, list[int]]) -> None:
    with pytest.raises(SearchError, match="quotas"):
        quotas(*bad)


def test_the_controller_keeps_all_parents_and_adds_as_many_children() -> None:
    population = distinct(20)
    shared = evolve(CODES, population, federated_loss(population), np.random.default_rng(0))
    assert np.array_equal(shared[:20], population)
    assert len(set(CODES.keys(shared))) == 40


def test_children_resemble_the_better_parents() -> None:
    population = distinct(60)
    losses = federated_loss(population)
    shared = evolve(CODES, population, losses, np.random.default_rng(0))
    assert federated_loss(shared[60:]).mean() < losses.mean()


def test_a_client_step_line_by_line() -> None:
    own, shared = distinct(10, 1), distinct(20, 2)
    seen: list[Population] = []

    def evaluate(population: Population) -> Losses:
        seen.append(population)
        return local_loss(population)

    step = client_step(CODES, own, shared, evaluate, 4, np.random.default_rng(0))
    pool, children = seen
    assert set(CODES.keys(pool)) == {*CODES.keys(own), *CODES.keys(shared)}  # line 3
    assert len(children) == 10  # line 4
    everyone = np.concatenate([pool, children])
    assert step.losses.tolist() == sorted(local_loss(everyone))[:10]
    assert np.array_equal(local_loss(step.population), step.losses)
    assert np.array_equal(step.best, step.population[:4])  # line 5
    assert len(set(CODES.keys(step.population))) == 10


def test_a_client_without_validation_nodes_returns_nothing() -> None:
    """Its losses mean nothing: they are all NaN."""
    step = client_step(
        CODES,
        distinct(10),
        distinct(20),
        lambda population: np.full(len(population), np.nan),
        0,
        np.random.default_rng(0),
    )
    assert step.best.shape == (0, 6)
    assert step.population.shape == (10, 6)


def test_merge_by_hand() -> None:
    shared, client = distinct(20, 1), distinct(6, 2)
    client = client[[CODES.key(code) not in CODES.keys(shared) for code in client]]
    losses = federated_loss(shared)
    population = next_population(
        CODES, [client[:2], client[2:5]], shared, losses, 10, np.random.default_rng()
    )
    best = shared[np.argsort(losses, kind="stable")[:5]]
    assert np.array_equal(population, np.concatenate([best, client[:5]]))


@given(st.integers(1, 30), st.integers(0, 2**32), st.floats(0, 1), st.integers(1, 4))
@settings(deadline=None)
def test_merge_keeps_the_size_and_no_repeats(
    size: int, seed: int, share: float, clients: int
) -> None:
    """Clients that all send the controller's best codes."""
    rng = np.random.default_rng(seed)
    shared = CODES.population(2 * size, rng)
    losses = federated_loss(shared)
    places = quotas(size, share, [1] * clients)
    best = shared[np.argsort(losses)]
    population = next_population(
        CODES, [best[:n] for n in places.clients], shared, losses, size, rng
    )
    assert population.shape == (size, 6)
    assert len(set(CODES.keys(CODES.checked(population)))) == size
    if places.controller:
        assert np.array_equal(population[0], shared[np.argmin(losses)])


def test_the_places_of_a_lost_client_are_filled() -> None:
    shared = distinct(20)
    losses = federated_loss(shared)
    population = next_population(CODES, [], shared, losses, 10, np.random.default_rng(0))
    assert federated_loss(population).tolist() == sorted(losses)[:10]


def test_clients_may_not_send_too_much_or_nonsense() -> None:
    shared, rng = distinct(20), np.random.default_rng(0)
    losses = federated_loss(shared)
    with pytest.raises(SearchError, match="11 codes for 10 places"):
        next_population(CODES, [shared[:5], shared[:6]], shared, losses, 10, rng)
    with pytest.raises(SearchError, match="outside"):
        next_population(CODES, [shared[:5] + 4], shared, losses, 10, rng)


def test_a_space_smaller_than_the_population() -> None:
    codes = Codes((2, 2))
    everything = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    rng = np.random.default_rng(0)
    shared = evolve(codes, everything, np.arange(4.0), rng)
    population = next_population(codes, [], shared, np.arange(8.0), 6, rng)
    assert population.shape == (6, 2)
    assert len(set(codes.keys(population))) == 4


def test_every_network_is_evaluated_once() -> None:
    calls: list[int] = []

    def evaluate(population: Population) -> Losses:
        calls.append(len(population))
        return np.where(population[:, 0] == 2, np.nan, population[:, 0])

    memo = Memo(Codes((3, 9), lambda code: code[:1]), evaluate)
    population = np.array([[0, 1], [2, 2], [0, 7], [1, 1]])
    assert memo(population).tolist() == [0, np.inf, 0, 1]
    assert memo(population[::-1]).tolist() == [1, 0, np.inf, 0]
    assert memo(population[:0]).shape == (0,)
    assert calls == [3]
    memo.clear()
    memo(population[:1])
    assert calls == [3, 1]
    assert memo.evaluated == 4


def controller_only(generation: int) -> float:
    return 0.0


def regrets(size: int, share: Any) -> Any:
    """Distance from the optimum after equally many losses, all clients' together."""
    return np.array(
        [
            SimulatedSearch(disagreeing_clients(seed), size, seed).run(BUDGET, share)
            for seed in SEEDS
        ]
    )


@pytest.mark.slow
def test_feo_beats_the_controller_alone_where_clients_disagree() -> None:
    feo, alone = regrets(60, gamma), regrets(60, controller_only)
    better, worse = np.sum(feo < alone - 1e-9), np.sum(feo > alone + 1e-9)
    print(f"regret: FEO {feo.mean():.4f}, controller alone {alone.mean():.4f}")
    print(f"FEO better in {better}, worse in {worse} of {len(SEEDS)} seeds")
    assert feo.mean() < 0.6 * alone.mean()
    assert better > 2 * worse


def test_the_optimum_is_known_and_not_what_each_client_wants() -> None:
    """In a smaller copy of the problem, by looking at every code."""
    federation = disagreeing_clients(0, choices=3)
    everything = np.indices((3,) * 12).reshape(12, -1).T
    losses = np.stack([loss(everything) for loss in federation.losses])
    mean = np.array(federation.val_counts) @ losses / sum(federation.val_counts)
    assert mean.min() == pytest.approx(federation.optimum)
    assert np.sum(losses[:, np.argmin(mean)] > losses.min(axis=1)) >= 2
