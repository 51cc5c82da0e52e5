"""Shrinkage towards the federation's choice, by hand."""

from typing import Any

import numpy as np
import pytest

from autofgl.methods.auto.candidates import Candidate, means, worth_keeping
from autofgl.methods.auto.choice import Spread, best_of, loss_moments, posterior, preferred
from autofgl.methods.auto.settings import AutoSettings
from autofgl.methods.auto.verdicts import Choosing
from autofgl.runtime.summing import COUNT_UNIT

RNG = np.random.default_rng(0)


def total_of(every: list[Any], lead: int = 0) -> dict[str, Any]:
    parts = [loss_moments(one, lead) for one in every]
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


def test_spread_by_hand() -> None:
    """σ² pooled within clients, τ² by DerSimonian and Laird, μ over all nodes."""
    differences = [
        np.array([0.5, 0.7, 0.9]),
        np.array([-0.4, -0.6]),
        np.array([0.1, 0.3, 0.1, 0.3]),
    ]
    losses = [np.stack([np.zeros(len(d)), d]) for d in differences]
    spread = Spread.of(total_of(losses))
    sizes = np.array([3, 2, 4])
    means = np.array([d.mean() for d in differences])
    every = np.concatenate(differences)
    assert spread.mean[1] == pytest.approx(every.mean())
    within = sum(((d - d.mean()) ** 2).sum() for d in differences) / (9 - 3)
    assert spread.within[1] == pytest.approx(within)
    q = (sizes * means**2).sum() - (sizes * means).sum() ** 2 / 9
    between = (q - 2 * within) / (9 - (sizes**2).sum() / 9)
    assert between > 0
    assert spread.between[1] == pytest.approx(between)
    trust = between / (between + within / 2)
    expected = trust * means[1] + (1 - trust) * every.mean()
    mean, deviation = posterior(losses[1], 0, spread)
    assert mean[1] == pytest.approx(expected)
    assert deviation[1] == pytest.approx((trust * within / 2) ** 0.5)
    assert [spread.mean[0], spread.within[0], spread.between[0]] == [0, 0, 0]


def test_alike_clients_follow_the_federation() -> None:
    """Where means differ by no more than chance, few nodes that prefer another do not decide."""
    every = [np.stack([np.zeros(20), RNG.normal(0.05, 1, 20)]) for _ in range(30)]
    spread = Spread.of(total_of(every))
    lucky = sum(one[1].mean() < 0 for one in every)
    assert lucky > 8
    assert sum(preferred(one, 0, spread) for one in every) < lucky / 2


def test_unlike_clients_take_their_own() -> None:
    every = [np.stack([np.zeros(50), RNG.normal(mean, 0.3, 50)]) for mean in (1, 1, 1, -1)]
    spread = Spread.of(total_of(every))
    assert [preferred(one, 0, spread) for one in every] == [0, 0, 0, 1]


def test_a_client_without_nodes_follows() -> None:
    none = np.zeros((2, 0))
    some = np.stack([np.zeros(4), np.array([0.1, 0.2, 0.3, 0.4])])
    spread = Spread.of(total_of([none, some]))
    assert preferred(none, 0, spread) == 0
    assert loss_moments(none, 0)["sizes"].tolist() == [0, 0, 0]


def test_sums_are_in_units() -> None:
    part = loss_moments(np.array([[0.0, 0.0], [1.0, 3.0]]), 0)
    assert part["sizes"] * [COUNT_UNIT, COUNT_UNIT**2, 1] == pytest.approx([2, 4, 1])
    assert part["sums"][1] * COUNT_UNIT == pytest.approx(4)
    assert part["squares"][1] * COUNT_UNIT == pytest.approx(8)
    assert part["within"][1] * COUNT_UNIT == pytest.approx(2)


def test_the_federations_choice() -> None:
    assert best_of([0.5, 0.4], [0.9, 0.8], by_score=False) == 1
    assert best_of([0.5, 0.4], [0.9, 0.8], by_score=True) == 0


def test_means_are_of_the_best_of_each_finalist() -> None:
    every = [
        Candidate([[f"{at}+{epochs}", 1.0]], f"{at}+{epochs}", "common", at, loss)
        for at, epochs, loss in [(0, 0, 0.5), (0, 5, 0.4), (1, 0, 0.6), (2, 0, 0.9)]
    ]
    labels = [one.label for one in means(every, 3)]
    assert labels[:2] == ["mean of 0+5 and 1+0", "mean of 0+5 and 2+0"]
    assert labels[3:] == ["mean of 0+5 and 1+0 and 2+0"]
    assert means(every, 1) == []
    assert [one.label for one in worth_keeping(every)] == ["0+0", "0+5", "1+0", "2+0"]


def test_a_mean_wins_a_tie() -> None:
    def mean(loss: float) -> Candidate:
        members = [["0+0", 1.0], ["1+0", 1.0]]
        return Candidate(members, "mean", "ensemble", 0, loss, costs={"size": 2.0})

    best = Candidate([["0+0", 1.0]], "0+0", "common", 0, 0.5, costs={"size": 1.0})
    choosing = Choosing(None, AutoSettings(), [1, 100, 1], 0)  # type: ignore[arg-type]
    assert choosing._narrowed([best, mean(0.502)], by_score=False)[1] == 1
    assert choosing._narrowed([best, mean(0.503)], by_score=False)[1] == 0
