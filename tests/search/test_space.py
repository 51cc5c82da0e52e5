import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.federation.payload import decode, encode
from autofgl.search.genes import Categorical, Float, Integer, LogFloat, Ordinal
from autofgl.search.searcher import SearchError
from autofgl.search.space import Codes, SearchSpace

CONV = Categorical("conv", ("sgc", "gcn"))
LAYERS = Integer("layers", 1, 3)
DROPOUT = Float("dropout", 0.0, 0.8)
RATE = LogFloat("rate", 1e-4, 1.0)
MIXED = SearchSpace((CONV, LAYERS, DROPOUT, RATE))
GOOD = {"conv": "gcn", "layers": 2, "dropout": 0.5, "rate": 0.01}
SPACES = st.lists(st.integers(1, 6), min_size=1, max_size=8).map(lambda c: Codes(tuple(c)))
RNGS = st.integers(0, 2**32).map(np.random.default_rng)
RATES = st.floats(0, 1)


@given(st.integers(0, 999))
@settings(max_examples=50, deadline=None)
def test_draws_are_of_the_space_and_fit_for_a_payload(seed: int) -> None:
    drawn = MIXED.draw(np.random.default_rng(seed))
    assert MIXED.check(drawn) == drawn
    assert [*drawn] == ["conv", "layers", "dropout", "rate"]
    assert {name: type(value) for name, value in drawn.items()} == {
        "conv": str, "layers": int, "dropout": float, "rate": float,
    }  # fmt: skip
    assert decode(encode(drawn)) == drawn
    assert MIXED.key(json.loads(json.dumps(drawn))) == MIXED.key(drawn)


def test_draws_are_spread_as_the_genes_say() -> None:
    rng = np.random.default_rng(0)
    drawn = [MIXED.draw(rng) for _ in range(6000)]

    def share(condition: Any) -> float:
        return float(np.mean([condition(one) for one in drawn]))

    assert share(lambda one: one["conv"] == "sgc") == pytest.approx(1 / 2, abs=0.03)
    for layers in (1, 2, 3):
        assert share(lambda one, n=layers: one["layers"] == n) == pytest.approx(1 / 3, abs=0.03)
    assert share(lambda one: one["dropout"] < 0.2) == pytest.approx(1 / 4, abs=0.03)
    assert share(lambda one: one["rate"] < 1e-3) == pytest.approx(1 / 4, abs=0.03)


def test_one_seed_gives_one_chromosome() -> None:
    assert MIXED.draw(np.random.default_rng(5)) == MIXED.draw(np.random.default_rng(5))
    assert MIXED.draw(np.random.default_rng(5)) != MIXED.draw(np.random.default_rng(6))


def test_a_checked_chromosome_is_plain_ordered_and_a_copy() -> None:
    given = {"rate": 1, "dropout": np.float32(0.5), "layers": np.int64(3), "conv": np.str_("sgc")}
    checked = MIXED.check(given)
    assert [*checked.items()] == [("conv", "sgc"), ("layers", 3), ("dropout", 0.5), ("rate", 1.0)]
    assert [type(value) for value in checked.values()] == [str, int, float, float]
    assert checked is not given


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv": "gat"}, "'conv' is 'gat'; it must be one of 'sgc', 'gcn'"),
        ({"layers": 4}, "'layers' is 4; it must be a whole number from 1 to 3"),
        ({"layers": 2.0}, "whole number"),
        ({"layers": True}, "whole number"),
        ({"dropout": -0.1}, "'dropout' is -0.1; it must be a number from 0.0 to 0.8"),
        ({"dropout": math.nan}, "'dropout' is nan"),
        ({"dropout": "0.5"}, "'dropout' is '0.5'"),
        ({"rate": 0.0}, "'rate' is 0.0"),
        ({"width": 4}, "exactly its genes; see width"),
    ],
)
def test_what_is_not_of_the_space_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SearchError, match=message):
        MIXED.check({**GOOD, **change})


def test_a_missing_gene_is_named() -> None:
    with pytest.raises(SearchError, match="see rate"):
        MIXED.check({key: value for key, value in GOOD.items() if key != "rate"})
    with pytest.raises(SearchError, match="a dict, not list"):
        MIXED.check([1, 2])  # type: ignore[arg-type]


def test_names_must_differ() -> None:
    with pytest.raises(SearchError, match="names that differ"):
        SearchSpace((Integer("a", 0, 1), Float("a", 0.0, 1.0)))
    with pytest.raises(SearchError):
        SearchSpace(())


def test_the_key_depends_on_the_meaning_only() -> None:
    assert MIXED.key(GOOD) == MIXED.key(dict(reversed(GOOD.items())))
    assert MIXED.key(GOOD) != MIXED.key({**GOOD, "rate": math.nextafter(0.01, 1)})

    def no_layers_in_sgc(chromosome: dict[str, Any]) -> dict[str, Any]:
        return {**chromosome, "layers": 1} if chromosome["conv"] == "sgc" else chromosome

    space = SearchSpace(MIXED.genes, no_layers_in_sgc)
    one, other = {**GOOD, "conv": "sgc"}, {**GOOD, "conv": "sgc", "layers": 3}
    assert space.key(one) == space.key(other)
    assert space.key(GOOD) != space.key({**GOOD, "layers": 3})
    assert space.check(other)["layers"] == 3, "kept as it is"


def test_a_countable_space_can_be_listed() -> None:
    space = SearchSpace((CONV, LAYERS, Float("one", 2.0, 2.0)))
    listed = [*space.listed()]
    assert space.size == len(listed) == 6
    assert len({space.key(one) for one in listed}) == 6
    assert all(space.check(one) == one for one in listed)
    assert MIXED.size == math.inf
    with pytest.raises(SearchError, match="continuum"):
        [*MIXED.listed()]


def shortened(code: np.ndarray) -> np.ndarray:
    """Genes behind the first 0 have no effect."""
    return code * np.cumprod(code > 0)


def test_size_and_genes() -> None:
    codes = Codes((5, 12, 2, 5))
    assert len(codes.genes) == 4
    assert codes.size == 600


def test_the_size_of_large_spaces_is_exact() -> None:
    assert Codes((10,) * 40).size == 10**40


@pytest.mark.parametrize("cardinalities", [(), (3, 0), (-1,)])
def test_a_gene_needs_a_choice(cardinalities: tuple[int, ...]) -> None:
    with pytest.raises(SearchError, match="at least one choice"):
        Codes(cardinalities)


def test_draws_are_uniform() -> None:
    drawn = Codes((2, 4)).population(4000, np.random.default_rng(0))
    assert np.abs(np.bincount(drawn[:, 0]) / 4000 - 1 / 2).max() < 0.03
    assert np.abs(np.bincount(drawn[:, 1]) / 4000 - 1 / 4).max() < 0.03


def test_a_space_may_draw_its_own_way() -> None:
    codes = Codes((3, 9), sample=lambda rng: np.array([2, rng.integers(4, 9)]))
    drawn = codes.population(50, np.random.default_rng(0))
    assert set(drawn[:, 0]) == {2}
    assert drawn[:, 1].min() == 4
    with pytest.raises(SearchError, match="outside"):
        Codes((2, 2), sample=lambda _: np.array([0, 2])).population(1, np.random.default_rng(0))


def test_codes_are_compared_by_their_canonical_form() -> None:
    codes = Codes((3, 3, 3), shortened)
    population = np.array([[1, 0, 2], [1, 0, 1], [1, 2, 0], [0, 1, 1], [0, 0, 0], [1, 2, 0]])
    assert codes.key(population[0]) == codes.key(population[1]) != codes.key(population[2])
    assert codes.unique(population).tolist() == [0, 2, 3]


def test_keys_do_not_depend_on_the_memory_layout() -> None:
    codes = Codes((4, 4))
    wide = np.array([[1, 9, 2, 9], [3, 9, 0, 9]])
    assert codes.keys(wide[:, ::2]) == codes.keys(np.array([[1, 2], [3, 0]], np.int32))


def inside(codes: Codes, population: Any) -> bool:
    return bool(np.all((population >= 0) & (population < np.array(codes.cardinalities))))


@given(SPACES, RNGS, RATES)
@settings(deadline=None)
def test_crossover_takes_each_gene_from_a_parent(
    codes: Codes, rng: np.random.Generator, rate: float
) -> None:
    mothers, fathers = codes.population(9, rng), codes.population(9, rng)
    children = codes.crossover(mothers, fathers, rate, rng)
    assert np.all((children == mothers) | (children == fathers))


def test_crossover_takes_the_fathers_gene_at_the_rate() -> None:
    zeros, ones = np.zeros((2000, 10), np.int64), np.ones((2000, 10), np.int64)
    for rate in (0.0, 0.2, 0.5, 1.0):
        children = Codes((2,) * 10).crossover(zeros, ones, rate, np.random.default_rng(0))
        assert abs(children.mean() - rate) < 0.015
        assert np.abs(children.mean(axis=0) - rate).max() < 0.04


@given(SPACES, RNGS, RATES)
@settings(deadline=None)
def test_mutation_stays_inside_the_space(
    codes: Codes, rng: np.random.Generator, rate: float
) -> None:
    assert inside(codes, codes.mutate(codes.population(9, rng), rate, rng))


def test_mutation_changes_one_gene_in_eight() -> None:
    """20,000 genes a column: 0.01 is more than four standard deviations."""
    codes = Codes((2, 3, 12, 5, 1))
    rng = np.random.default_rng(0)
    parents = codes.population(20_000, rng)
    changed = np.mean(codes.mutate(parents, 1 / 8, rng) != parents, axis=0)
    assert np.abs(changed[:4] - 1 / 8).max() < 0.01
    assert changed[4] == 0


def test_mutation_reaches_every_other_value_alike() -> None:
    codes = Codes((5,))
    mutants = codes.mutate(np.full((8000, 1), 3), 1.0, np.random.default_rng(0))
    shares = np.bincount(mutants[:, 0], minlength=5) / 8000
    assert shares[3] == 0
    assert np.abs(shares[[0, 1, 2, 4]] - 1 / 4).max() < 0.02


def test_a_space_that_is_used_up_gives_repeats() -> None:
    codes, rng = Codes((1, 1)), np.random.default_rng(0)
    taken = {codes.key(np.array([0, 0]))}
    assert codes.fresh(taken, rng).tolist() == [0, 0]
    assert codes.left(taken) == []


def test_uniform_crossover_takes_each_gene_from_one_parent() -> None:
    space = SearchSpace((Categorical("a", ("x", "y")), Integer("b", 0, 1), Float("c", 0.0, 1.0)))
    mother, father = {"a": "x", "b": 0, "c": 0.25}, {"a": "y", "b": 1, "c": 0.75}
    mothers, fathers = (space.stack([one] * 3000) for one in (mother, father))
    rng = np.random.default_rng(1)
    assert all(child == mother for child in space.crossover(mothers, fathers, 0.0, rng))
    assert all(child == father for child in space.crossover(mothers, fathers, 1.0, rng))
    children = space.crossover(mothers, fathers, 0.3, rng)
    for name in mother:
        assert all(child[name] in (mother[name], father[name]) for child in children)
        share = np.mean([child[name] == father[name] for child in children])
        assert share == pytest.approx(0.3, abs=0.03)
    assert len({tuple(child.values()) for child in children}) == 8, "genes go their own ways"


def test_both_forms_cross_over_alike() -> None:
    space = SearchSpace((Integer("a", 0, 8), Integer("b", 0, 8), Integer("c", 0, 8)))
    codes, rng = Codes(space.cardinalities), np.random.default_rng(0)
    mothers, fathers = codes.population(20, rng), codes.population(20, rng)
    children = codes.crossover(mothers, fathers, 0.4, np.random.default_rng(5))
    mixed = space.crossover(
        space.decode(mothers), space.decode(fathers), 0.4, np.random.default_rng(5)
    )
    assert np.array_equal(space.encode(mixed), children)


def test_a_mutant_differs_in_exactly_one_gene_within_its_range() -> None:
    start, rng = MIXED.draw(np.random.default_rng(2)), np.random.default_rng(3)
    before = dict(start)
    changed: Counter[str] = Counter()
    for _ in range(3000):
        mutant = MIXED.mutant(start, rng)
        assert MIXED.check(mutant) == mutant
        different = [name for name in start if mutant[name] != start[name]]
        assert len(different) == 1
        changed.update(different)
    assert start == before
    for gene in MIXED.genes:
        assert changed[gene.name] / 3000 == pytest.approx(1 / 4, abs=0.03)
    code = np.array([1, 1, 1])
    assert np.sum(Codes((3, 3, 3)).mutant(code, rng) != code) == 1


def test_mutated_chromosomes_change_at_the_rate_and_stay_inside() -> None:
    rng = np.random.default_rng(0)
    parents = MIXED.population(2000, rng)
    mutants = MIXED.checked(MIXED.mutate(parents, 1 / 8, rng))
    for name in MIXED.labels:
        pairs = zip(parents, mutants, strict=True)
        share = np.mean([parent[name] != mutant[name] for parent, mutant in pairs])
        assert share == pytest.approx(1 / 8, abs=0.03)


def test_a_gene_without_a_choice_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    space = SearchSpace((Categorical("only", ("x",)), Integer("b", 0, 1)))
    assert space.mutant({"only": "x", "b": 0}, rng) == {"only": "x", "b": 1}
    fixed = SearchSpace((Categorical("only", ("x",)),))
    assert fixed.mutant({"only": "x"}, rng) == {"only": "x"}
    assert fixed.mutate(fixed.stack([{"only": "x"}]), 1.0, rng).tolist() == [{"only": "x"}]


def test_choices_have_a_vector_form() -> None:
    space = SearchSpace((Categorical("any", (1, 1.0, True)), LAYERS, Ordinal("lr", (0.1, 0.2))))
    listed = space.stack(space.listed())
    codes = space.encode(listed)
    assert np.array_equal(codes, np.indices(space.cardinalities).reshape(3, -1).T)
    again = space.decode(codes)
    assert [space.key(one) for one in again] == [space.key(one) for one in listed]


def test_a_caller_s_candidates_are_copies() -> None:
    population = MIXED.population(2, np.random.default_rng(0))
    before = dict(population[0])
    MIXED.candidates(population)[0]["layers"] = 99
    assert population[0] == before
