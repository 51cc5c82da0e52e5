"""The accountant, against values by hand and against Google's."""

import math

import pytest

from autofgl.secure.accountant import PrivacyPlan, Releases, delta_of, epsilon_of, mu_of


def phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 4.0])
def test_delta_is_the_closed_form(mu: float, epsilon: float) -> None:
    by_hand = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert delta_of(mu, epsilon) == pytest.approx(by_hand, rel=1e-9, abs=1e-15)


def test_values_by_hand() -> None:
    # μ = 1, ε = 1: Φ(−0.5) − e Φ(−1.5) = 0.308537539 − 2.718281828 · 0.066807201
    assert delta_of(1.0, 1.0) == pytest.approx(0.308537539 - 2.718281828 * 0.066807201, abs=1e-8)
    # ε = 0 is the total variation distance of N(0, 1) and N(1, 1): 2 Φ(1/2) − 1
    assert delta_of(1.0, 0.0) == pytest.approx(0.382924923, abs=1e-8)
    assert epsilon_of(1.0, delta_of(1.0, 1.0)) == pytest.approx(1.0, abs=1e-9)


#: By dp-accounting 0.6.0: PLDAccountant().compose(GaussianDpEvent(z), k).get_epsilon(1e-5).
GOOGLES = {(1, 1): 4.37717810, (5, 30): 4.86608285, (10, 100): 4.37717810, (2, 5): 4.98330641}


@pytest.mark.parametrize(("noise", "count"), list(GOOGLES))
def test_it_agrees_with_the_accountant_of_google(noise: float, count: int) -> None:
    ours = epsilon_of(math.sqrt(count) / noise, 1e-5)
    assert ours == pytest.approx(GOOGLES[noise, count], abs=1e-7)


@pytest.mark.parametrize(("noise", "count"), list(GOOGLES))
def test_it_agrees_with_the_accountant_that_is_installed(noise: float, count: int) -> None:
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant  # type: ignore[import-not-found]

    theirs = PLDAccountant()
    theirs.compose(dp.GaussianDpEvent(noise), count)
    ours = epsilon_of(math.sqrt(count) / noise, 1e-5)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)


def test_far_tails_are_neither_lost_nor_an_overflow() -> None:
    assert delta_of(1e-3, 5.0) == 0.0
    assert delta_of(50.0, 10.0) == pytest.approx(1.0)
    assert 0 < delta_of(0.5, 6.0) < 1e-30
    assert epsilon_of(30.0, 1e-5) == pytest.approx(577.01, abs=0.01)
    assert epsilon_of(0.0, 1e-5) == 0.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_noise_and_epsilon_undo_each_other(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-9)
    assert delta_of(mu, epsilon) <= delta


@pytest.mark.parametrize("planned", [Releases(30, 1), Releases(10_600, 203), Releases(5, 0)])
def test_a_whole_run_spends_its_budget_and_no_more(planned: Releases) -> None:
    plan = PrivacyPlan(8.0, 1e-5, planned)
    assert plan.spent(planned) == pytest.approx(8.0, rel=1e-9)
    assert plan.spent(planned) <= 8.0 * (1 + 1e-12)
    assert plan.allows(planned)
    assert not plan.allows(Releases(planned.updates + 1, planned.figures))
    assert not plan.allows(Releases(planned.updates, planned.figures + 1))


def test_search_trials_and_training_add_up_to_one_figure() -> None:
    """The releases of all parts, each accounted on its own, compose to the plan's epsilon."""
    plan = PrivacyPlan(4.0, 1e-5, Releases(60, 4))
    parts = [Releases(20, 2), Releases(10, 1), Releases(30, 1)]
    square = sum(
        part.updates / plan.update_noise**2 + part.figures / plan.figure_noise**2 for part in parts
    )
    assert epsilon_of(math.sqrt(square), 1e-5) == pytest.approx(4.0, rel=1e-9)
    assert sum(plan.spent(part) for part in parts) > 4.0  # epsilons do not add up, squares do


def test_a_run_that_stops_early_has_spent_less() -> None:
    plan = PrivacyPlan(8.0, 1e-5, Releases(100, 1))
    spent = [plan.spent(Releases(made, 1)) for made in (0, 1, 10, 50, 100)]
    assert spent == sorted(spent)
    assert spent[2] < 4.0
    assert plan.spent(Releases()) == 0.0
