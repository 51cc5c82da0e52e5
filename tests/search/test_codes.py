import numpy as np
import pytest

from autofgl.search import Codes, SearchError
from autofgl.search.codes import worst_if_diverged


def shortened(code: np.ndarray) -> np.ndarray:
    """Genes behind the first 0 have no effect."""
    return code * np.cumprod(code > 0)


def test_size_and_genes() -> None:
    codes = Codes((5, 12, 2, 5))
    assert codes.genes == 4
    assert codes.size == 600


def test_the_size_of_large_spaces_is_exact() -> None:
    assert Codes((10,) * 40).size == 10**40


@pytest.mark.parametrize("cardinalities", [(), (3, 0), (-1,)])
def test_a_gene_needs_a_choice(cardinalities: tuple[int, ...]) -> None:
    with pytest.raises(SearchError, match="at least one choice"):
        Codes(cardinalities)


def test_draws_are_uniform() -> None:
    drawn = Codes((2, 4)).draw(4000, np.random.default_rng(0))
    assert np.abs(np.bincount(drawn[:, 0]) / 4000 - 1 / 2).max() < 0.03
    assert np.abs(np.bincount(drawn[:, 1]) / 4000 - 1 / 4).max() < 0.03


def test_a_space_may_draw_its_own_way() -> None:
    codes = Codes((3, 9), sample=lambda rng: np.array([2, rng.integers(4, 9)]))
    drawn = codes.draw(50, np.random.default_rng(0))
    assert set(drawn[:, 0]) == {2}
    assert drawn[:, 1].min() == 4
    with pytest.raises(SearchError, match="outside"):
        Codes((2, 2), sample=lambda _: np.array([0, 2])).draw(1, np.random.default_rng(0))


def test_codes_are_compared_by_their_canonical_form() -> None:
    codes = Codes((3, 3, 3), shortened)
    population = np.array([[1, 0, 2], [1, 0, 1], [1, 2, 0], [0, 1, 1], [0, 0, 0], [1, 2, 0]])
    assert codes.key(population[0]) == codes.key(population[1]) != codes.key(population[2])
    assert codes.unique(population).tolist() == [0, 2, 3]


def test_keys_do_not_depend_on_the_memory_layout() -> None:
    codes = Codes((4, 4))
    wide = np.array([[1, 9, 2, 9], [3, 9, 0, 9]])
    assert codes.keys(wide[:, ::2]) == codes.keys(np.array([[1, 2], [3, 0]], np.int32))


def test_losses_that_are_not_finite_are_worst() -> None:
    given = np.array([1.0, np.nan, np.inf, -np.inf, -2.0])
    assert worst_if_diverged(given, 5).tolist() == [1.0, np.inf, np.inf, np.inf, -2.0]
    assert np.isnan(given[1])
    with pytest.raises(SearchError, match="expected"):
        worst_if_diverged(given, 4)
