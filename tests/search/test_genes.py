import math
from typing import Any

import numpy as np
import pytest

from autofgl.search.genes import Categorical, Float, Integer, LogFloat, Ordinal
from autofgl.search.searcher import SearchError
from autofgl.search.space import SearchSpace


def test_choices_of_different_types_are_different() -> None:
    gene = Categorical("mixed", (1, 1.0, True, "1"))
    for choice in gene.choices:
        assert type(gene.check(choice)) is type(choice)
    keys = {SearchSpace((gene,)).key({"mixed": choice}) for choice in gene.choices}
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


def test_ordinals_are_numbers_in_order() -> None:
    with pytest.raises(SearchError, match="ascending"):
        Ordinal("x", (2, 1))
    with pytest.raises(SearchError, match="numbers"):
        Ordinal("x", ("a", "b"))


@pytest.mark.parametrize(
    "gene",
    [
        Categorical("a", (1, 1.0, True)),
        Ordinal("a", (0.1, 0.2)),
        Integer("a", 3, 4),
        Float("a", 0.0, 1.0),
        LogFloat("a", 0.1, 1.0),
    ],
)
def test_another_value_is_another(gene: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        value = gene.draw(rng)
        other = gene.other(value, rng)
        assert (type(other), other) != (type(value), value)
        assert gene.check(other) == other


def test_without_a_choice_the_value_stays() -> None:
    rng = np.random.default_rng(0)
    assert Categorical("a", ("x",)).other("x", rng) == "x"
    assert Integer("a", 3, 3).other(np.int64(3), rng) == 3
