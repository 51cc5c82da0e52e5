"""McNemar's test, the bootstrap from counts, and the sentence."""

from math import comb

import numpy as np
import pytest

from autofgl.methods.auto.proof import compared, comparison, interval, mcnemar, sentence


@pytest.mark.parametrize(("b", "c"), [(0, 0), (3, 1), (10, 2), (5, 5), (0, 6)])
def test_mcnemar_by_hand(b: int, c: int) -> None:
    tail = sum(comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)
    assert mcnemar(b, c) == pytest.approx(min(1.0, 2 * tail))


def test_the_bootstrap_from_counts_is_that_over_nodes() -> None:
    differences = np.repeat([1, -1, 0], [30, 12, 158])
    rng = np.random.default_rng(0)
    means = [rng.choice(differences, len(differences)).mean() for _ in range(4000)]
    low, high = interval(30, 12, 200, np.random.default_rng(1))
    assert [low, high] == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist(), abs=0.01)
    assert low > 0


def test_sums_of_clients_make_the_comparison() -> None:
    ours = [np.array([True] * 12 + [False] * 8), np.array([True, False]), np.zeros(0, np.bool_)]
    theirs = [np.array([False] * 12 + [False] * 8), np.array([False, True]), np.zeros(0, np.bool_)]
    pair = np.sum([compared(a, b) for a, b in zip(ours, theirs, strict=True)], axis=0)
    found = comparison(pair, 22, np.random.default_rng(0))
    assert (found["only_ours"], found["only_theirs"]) == (13, 1)
    assert found["test_accuracy"] == pytest.approx(1 / 22)
    assert found["difference"] == pytest.approx(12 / 22)
    sites = {"better": 1, "same": 1, "worse": 0, "surely_better": 1, "surely_worse": 0}
    assert found["sites"] == sites  # who has no test nodes is no site


def test_the_sentence() -> None:
    sites = {"better": 6, "same": 0, "worse": 1, "surely_better": 4, "surely_worse": 0}
    one = {"sites": sites, "p": 0.004, "difference": 0.021, "only_ours": 40, "only_theirs": 15}
    said = sentence({"alone": one})
    assert said == (
        "better than training alone at 6 of 7 sites (+2.1 points, p < 0.01), "
        "no worse at the other beyond chance."
    )
    assert "worse at 1" in sentence({"fixed": {**one, "sites": {**sites, "surely_worse": 1}}})
    assert "the same as training alone" in sentence(
        {"alone": {**one, "only_ours": 0, "only_theirs": 0}}
    )
    short = sentence({"alone": {**one, "cut_short": True}})
    assert "than training alone (which the budget cut short) at 6" in short
    unlucky = {**one, "difference": -0.01, "p": 0.4}
    assert "no better and no worse than training alone beyond" in sentence({"alone": unlucky})
    assert "worse than training alone over all" in sentence({"alone": {**unlucky, "p": 0.01}})
