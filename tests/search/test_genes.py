import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.federation.payload import decode, encode
from autofgl.search.codes import SearchError
from autofgl.search.genes import Categorical, Float, Genes, Integer, LogFloat

CONV = Categorical("conv", ("sgc", "gcn"))
LAYERS = Integer("layers", 1, 3)
DROPOUT = Float("dropout", 0.0, 0.8)
RATE = LogFloat("rate", 1e-4, 1.0)
MIXED = Genes((CONV, LAYERS, DROPOUT, RATE))
GOOD = {"conv": "gcn", "layers": 2, "dropout": 0.5, "rate": 0.01}


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


def test_choices_of_different_types_are_different() -> None:
    gene = Categorical("mixed", (1, 1.0, True, "1"))
    for choice in gene.choices:
        assert type(gene.check(choice)) is type(choice)
    keys = {Genes((gene,)).key({"mixed": choice}) for choice in gene.choices}
    assert len(keys) == 4
    with pytest.raises(SearchError):
        gene.check(False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categorical("a", ()),
        lambda: Categorical("a", ("x", "x")),
        lambda: Categorical("a", (None,)),  # type: ignore[arg-type]
        lambda: Integer("a", 3, 2),
        lambda: Integer("a", 0.5, 2),  # type: ignore[arg-type]
        lambda: Float("a", 1.0, 0.0),
        lambda: Float("a", 0.0, math.inf),
        lambda: LogFloat("a", 0.0, 1.0),
    ],
)
def test_a_gene_that_makes_no_sense_names_itself(make: Any) -> None:
    with pytest.raises(SearchError, match="gene 'a'"):
        make()


def test_names_must_differ() -> None:
    with pytest.raises(SearchError, match="names that differ"):
        Genes((Integer("a", 0, 1), Float("a", 0.0, 1.0)))
    with pytest.raises(SearchError):
        Genes(())


def test_the_key_depends_on_the_meaning_only() -> None:
    assert MIXED.key(GOOD) == MIXED.key(dict(reversed(GOOD.items())))
    assert MIXED.key(GOOD) != MIXED.key({**GOOD, "rate": math.nextafter(0.01, 1)})

    def no_layers_in_sgc(chromosome: dict[str, Any]) -> dict[str, Any]:
        return {**chromosome, "layers": 1} if chromosome["conv"] == "sgc" else chromosome

    space = Genes(MIXED.genes, no_layers_in_sgc)
    one, other = {**GOOD, "conv": "sgc"}, {**GOOD, "conv": "sgc", "layers": 3}
    assert space.key(one) == space.key(other)
    assert space.key(GOOD) != space.key({**GOOD, "layers": 3})
    assert space.check(other)["layers"] == 3, "kept as it is"


def test_a_countable_space_can_be_listed() -> None:
    space = Genes((CONV, LAYERS, Float("one", 2.0, 2.0)))
    listed = [*space.listed()]
    assert space.size == len(listed) == 6
    assert len({space.key(one) for one in listed}) == 6
    assert all(space.check(one) == one for one in listed)
    assert MIXED.size == math.inf
    with pytest.raises(SearchError, match="continuum"):
        [*MIXED.listed()]
