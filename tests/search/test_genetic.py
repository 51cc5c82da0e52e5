"""Rezaei et al., 2024, section 3.1: selection by hand, then the algorithm as a whole."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autofgl.federation.payload import decode, encode
from autofgl.search.genes import Categorical, Float, Integer, LogFloat
from autofgl.search.genetic import Breeding, Genetic, select_parents
from autofgl.search.searcher import SearchError
from autofgl.search.space import Chromosome, SearchSpace

MIXED = SearchSpace(
    (
        Categorical("conv", ("sgc", "gcn", "gat", "sage")),
        Categorical("optimiser", ("adam", "sgd")),
        Integer("layers", 1, 4),
        Integer("hidden", 8, 128),
        Float("dropout", 0.0, 0.8),
        LogFloat("inner_lr", 1e-4, 1.0),
    )
)
TINY = SearchSpace((Categorical("a", ("x", "y", "z")), Integer("b", 0, 1)))

Loss = Callable[[Chromosome], float]


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def generation(search: Genetic, loss: Loss) -> list[Chromosome]:
    """Have one population measured; what was asked."""
    asked = search.ask()
    search.tell(asked, [loss(one) for one in asked])
    return asked


def by_layers(one: Chromosome) -> float:
    return float(one["layers"]) + float(one["dropout"])


def landscape(seed: int) -> Loss:
    """Distance from a random chromosome, the only one with loss 0.

    The right rate depends on the optimiser and counts double with the right convolution.
    """
    best: Any = MIXED.draw(rng(1, seed))

    def loss(one: Any) -> float:
        right = one["conv"] == best["conv"]
        shift = 0 if one["optimiser"] == best["optimiser"] else 1.5
        rate = abs(math.log10(one["inner_lr"] / best["inner_lr"]) + shift) / 4
        sizes = abs(one["layers"] - best["layers"]) / 3 + abs(one["hidden"] - best["hidden"]) / 120
        distance = rate * (1 + right) + sizes + abs(one["dropout"] - best["dropout"])
        return float(distance + (not right) + 0.3 * (shift > 0))

    assert loss(best) == 0
    return loss


def test_the_best_live_on_and_of_equals_the_earlier() -> None:
    losses = np.array([0.3, 0.1, 0.2, 0.1, 0.9])
    assert select_parents(losses, 0.4, 0.0, rng(0)) == [1, 3]
    assert select_parents(losses, 0.6, 0.0, rng(0)) == [1, 3, 2]
    assert select_parents(losses, 0.0, 0.0, rng(0)) == [1], "at least one"
    assert select_parents(losses, 1.0, 0.0, rng(0)) == [1, 3, 2, 0], "one place for a child"
    assert select_parents(losses, 0.4, 1.0, rng(0)) == [1, 3, 2, 0], "even if all are lucky"


def test_each_of_the_others_lives_on_with_the_given_probability() -> None:
    losses, source = np.arange(20.0), rng(0)
    counts = Counter(
        index for _ in range(4000) for index in select_parents(losses, 0.4, 0.1, source)
    )
    for index in range(8):
        assert counts[index] == 4000
    for index in range(8, 20):
        assert counts[index] / 4000 == pytest.approx(0.1, abs=0.02)


def test_children_are_mutated_with_the_given_probability() -> None:
    """A mutant is told by a value that no parent has; one in six genes changes, and values of the
    three genes below are hardly ever drawn twice."""
    mutants = total = 0
    for seed in range(60):
        search = Genetic(MIXED, rng(seed), breeding=Breeding(random_selection=0.0))
        generation(search, by_layers)
        parents = [*search.population]
        parents.sort(key=by_layers)
        parents = parents[:8]
        for child in search.ask():
            total += 1
            mutants += any(
                child[name] not in {parent[name] for parent in parents}
                for name in ("hidden", "dropout", "inner_lr")
            )
    assert total == 60 * 12
    assert mutants / total == pytest.approx(0.2 * 3 / 6, abs=0.035)


def test_one_generation_by_hand() -> None:
    search = Genetic(MIXED, rng(0), size=10)
    first = search.ask()
    assert first == search.population
    assert len(first) == 10
    losses = [float(index) for index in range(10)]
    search.tell(first, losses)
    second = search.ask()
    assert search.generation == 1
    kept = search.population[: 10 - len(second)]
    assert kept[:4] == first[:4], "retention 0.4"
    assert all(one in first[4:] for one in kept[4:]), "random selection"
    assert search.population[len(kept) :] == second
    assert not any(one in first for one in second), "what lives on is not asked again"
    pool = {name: {one[name] for one in kept} for name in kept[0]}
    for child in second:
        strange = [name for name in child if child[name] not in pool[name]]
        assert len(strange) <= 1, "crossover, and at most one mutated gene"


def test_the_rates_of_the_paper_are_the_defaults() -> None:
    search = Genetic(MIXED, rng(0))
    assert search.size == 20
    assert search.breeding == Breeding(0.4, 0.1, 0.5, 0.2)


def test_lower_is_better_and_the_best_stays() -> None:
    search = Genetic(MIXED, rng(0))
    lowest = math.inf
    for _ in range(6):
        asked = generation(search, by_layers)
        lowest = min(lowest, *map(by_layers, asked))
        best, loss = search.best
        assert loss == lowest == by_layers(best)
        assert best in search.population
    assert lowest < 1.2


def test_a_diverged_chromosome_counts_as_worst() -> None:
    search = Genetic(MIXED, rng(0), size=5, breeding=Breeding(0.4, 0.0))
    asked = search.ask()
    search.tell(asked, [math.nan, -math.inf, 3.0, math.inf, 2.0])
    assert search.best == (asked[4], 2.0)
    search.ask()
    assert search.population[:2] == [asked[4], asked[2]]


def test_what_is_asked_in_parts_is_one_population() -> None:
    search, whole = Genetic(MIXED, rng(0), size=5), Genetic(MIXED, rng(0), size=5)
    asked: list[Chromosome] = []
    assert search.ask(0) == []
    for count in (2, 2, 4):
        part = search.ask(count)
        assert part == search.ask(count), "not told, so asked again"
        search.tell(part, [by_layers(one) for one in part])
        asked += part
    assert len(part) == 1, "no more were left"
    assert asked == generation(whole, by_layers)
    assert search.ask() == whole.ask()


def test_no_chromosome_is_asked_twice_in_a_population() -> None:
    for seed in range(5):
        search = Genetic(MIXED, rng(seed), breeding=Breeding(mutation=0.0))
        known: set[str] = set()
        for _ in range(8):
            asked = [MIXED.key(one) for one in generation(search, by_layers)]
            members = [MIXED.key(one) for one in search.population]
            assert len(set(members)) == 20
            assert not known & set(asked), "losses are remembered"
            known |= set(asked)


def test_a_space_that_is_used_up_is_asked_again() -> None:
    """Six chromosomes: the first populations of 4 leave some, and then repeats have to do."""
    for seed in range(20):
        search = Genetic(TINY, rng(seed), size=4)
        first = generation(search, lambda one: float(one["b"]))
        assert len({TINY.key(one) for one in first}) == 4
        second = search.ask()
        fresh = {TINY.key(one) for one in second} - {TINY.key(one) for one in first}
        assert len(fresh) == min(2, len(second)), "all that are left come first"
        for _ in range(4):
            asked = generation(search, lambda one: float(one["b"]))
            assert 1 <= len(asked) <= 3
    larger = Genetic(TINY, rng(0), size=9)
    assert len({TINY.key(one) for one in larger.ask()}) == 6


def test_chromosomes_that_mean_the_same_are_one() -> None:
    def no_b_with_x(chromosome: Chromosome) -> Chromosome:
        return {**chromosome, "b": 0} if chromosome["a"] == "x" else chromosome

    space = SearchSpace(TINY.genes, no_b_with_x)
    search = Genetic(space, rng(0), size=5)
    assert len({space.key(one) for one in search.ask()}) == 5


def test_a_warm_start_from_the_environments_settings() -> None:
    own = {**MIXED.draw(rng(9)), "layers": 1, "dropout": 0.0}
    search = Genetic(MIXED, rng(0), initial=[own])
    assert search.population[0] == own
    assert len({MIXED.key(one) for one in search.population}) == 20
    generation(search, by_layers)
    assert search.best == (own, 1.0)
    search.ask()
    assert own in search.population, "the best state is preserved"
    bad = {**own, "layers": 4, "dropout": 0.8}
    other = Genetic(MIXED, rng(0), initial=[bad], breeding=Breeding(random_selection=0.0))
    generation(other, by_layers)
    other.ask()
    assert bad not in other.population, "if they are of no value they go"


def test_a_warm_start_from_the_last_population() -> None:
    first = Genetic(MIXED, rng(0))
    for _ in range(3):
        generation(first, by_layers)
    second = Genetic(MIXED, rng(1), initial=first.population)
    assert second.ask() == first.population, "all are measured again"
    doubled = [first.population[0], *first.population, *first.population]
    assert Genetic(MIXED, rng(1), initial=doubled).population == first.population
    with pytest.raises(SearchError, match="'layers' is 9"):
        Genetic(MIXED, rng(0), initial=[{**first.population[0], "layers": 9}])


def test_renewed_losses_are_all_asked_again() -> None:
    search = Genetic(MIXED, rng(0))
    for _ in range(3):
        generation(search, by_layers)
    last = search.population
    search.renew()
    assert search.ask() == last
    with pytest.raises(SearchError, match="no candidate has a loss"):
        _ = search.best
    generation(search, lambda one: -by_layers(one))
    assert search.best[1] == min(-by_layers(one) for one in last)


def test_guests_take_the_last_places() -> None:
    search = Genetic(MIXED, rng(0), size=4)
    generation(search, by_layers)
    last, guest = list(search.population), MIXED.draw(rng(9))
    search.renew([guest, last[0]])
    assert search.ask() == [*last[:3], guest]
    search.renew([guest])
    assert search.population == [*last[:3], guest], "there already"


@pytest.mark.parametrize("generations", [0, 1, 5])
@pytest.mark.parametrize("space", [MIXED, TINY])
def test_a_loaded_state_goes_on_exactly(space: SearchSpace, generations: int) -> None:
    def loss(one: Chromosome) -> float:
        return float(len(repr(one)) % 7)

    first = Genetic(space, rng(3), size=6)
    for _ in range(generations):
        generation(first, loss)
    part = first.ask(2)
    first.tell(part, [loss(one) for one in part])
    state = first.state()
    data = encode(state)
    ahead = [generation(first, loss) for _ in range(6)]
    assert encode(state) == data, "a state does not change afterwards"
    second = Genetic(space, rng(4), size=6)
    second.load_state(decode(data))
    assert encode(second.state()) == data
    assert [generation(second, loss) for _ in range(6)] == ahead
    assert encode(second.state()) == encode(first.state())
    assert second.best == first.best


def test_a_foreign_or_broken_state_is_refused_and_nothing_changes() -> None:
    search = Genetic(MIXED, rng(0), size=6)
    data = encode(search.state())
    larger, other = Genetic(MIXED, rng(0), size=7), Genetic(TINY, rng(0), size=6)
    lost = {**search.state(), "pending": []}
    philox = Genetic(MIXED, np.random.Generator(np.random.Philox(0)), size=6)
    for state in (larger.state(), other.state(), lost, philox.state()):
        with pytest.raises(SearchError):
            search.load_state(state)
        assert encode(search.state()) == data


def test_what_does_not_fit_is_refused() -> None:
    search = Genetic(MIXED, rng(0), size=4)
    asked, data = search.ask(), encode(search.state())
    with pytest.raises(SearchError, match="losses have shape"):
        search.tell(asked, [1.0])
    with pytest.raises(SearchError):
        search.tell([{"conv": "sgc"}], [1.0])
    assert encode(search.state()) == data
    with pytest.raises(SearchError, match="at least two"):
        Genetic(MIXED, rng(0), size=1)
    with pytest.raises(SearchError, match="between 0 and 1"):
        Breeding(mutation=1.5)


def test_a_caller_cannot_change_the_population() -> None:
    search = Genetic(MIXED, rng(0))
    before = encode(search.state())
    search.ask()[0]["layers"] = 99
    assert encode(search.state()) == before


def test_it_beats_random_search_at_equal_evaluations() -> None:
    """The paper's ten generations of twenty, on ten landscapes whose optimum is known."""
    ours, theirs = [], []
    for seed in range(10):
        loss = landscape(seed)
        search = Genetic(MIXED, rng(2, seed))
        evaluations = sum(len(generation(search, loss)) for _ in range(11))
        source = rng(3, seed)
        ours.append(search.best[1])
        theirs.append(min(loss(MIXED.draw(source)) for _ in range(evaluations)))
    print(f"genetic {np.mean(ours):.3f}, random {np.mean(theirs):.3f}")
    assert np.sum(np.array(ours) < theirs) >= 8
    assert np.mean(ours) < 0.75 * np.mean(theirs)
