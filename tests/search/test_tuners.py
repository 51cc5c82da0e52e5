"""What every searcher over mixed types must keep, and what each does on its own."""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from landscapes import MIXED, evaluations_to_goal

from autofgl.search.bayes import Bayes
from autofgl.search.codes import SearchError
from autofgl.search.genes import Categorical, Chromosome, Float, Genes, Integer, LogFloat, Ordinal
from autofgl.search.grid import GridSearch
from autofgl.search.pruning import MedianRule
from autofgl.search.random import RandomTuner
from autofgl.search.tuner import TrialTuner

FINITE = Genes((Integer("k", 1, 3), Ordinal("lr", (0.001, 0.01)), Categorical("on", (True, False))))
MIXED_GENES = Genes((Float("x", 0.0, 1.0), LogFloat("lr", 1e-4, 1.0), *FINITE.genes[:1]))

TUNERS: dict[str, Callable[[int], TrialTuner]] = {
    "bayes": lambda seed: Bayes(FINITE, seed, startup=2),
    "random": lambda seed: RandomTuner(FINITE, seed),
    "grid": lambda seed: GridSearch(FINITE),
}


def loss(one: Chromosome) -> float:
    return abs(one["k"] - 2) + 100 * one["lr"] + (0 if one["on"] else 0.3)


@pytest.fixture(params=TUNERS)
def make(request: pytest.FixtureRequest) -> Callable[[int], TrialTuner]:
    return TUNERS[request.param]


def run(tuner: TrialTuner, trials: int) -> list[Chromosome]:
    asked = []
    for _ in range(trials):
        [one] = tuner.ask()
        tuner.tell([one], [loss(one)])
        asked.append(one)
    return asked


def test_a_loaded_state_asks_what_the_other_would_have(
    make: Callable[[int], TrialTuner],
) -> None:
    whole, first, second = make(0), make(0), make(0)
    expected = run(whole, 5)
    assert run(first, 3) == expected[:3]
    [half_done] = first.ask()
    second.load_state(first.state())
    second.tell([half_done], [loss(half_done)])
    assert [half_done, *run(second, 1)] == expected[3:]


def test_nothing_is_asked_twice_while_there_are_others(make: Callable[[int], TrialTuner]) -> None:
    asked = run(make(3), 8)
    assert len({FINITE.key(one) for one in asked}) == 8


def test_what_failed_is_recorded_and_may_be_asked_again(make: Callable[[int], TrialTuner]) -> None:
    tuner = make(0)
    [one] = tuner.ask()
    tuner.fail(one)
    assert [trial.status for trial in tuner.trials.all] == ["failed"]
    assert not tuner.trials.told()
    run(tuner, 2)
    with pytest.raises(SearchError, match="asked"):
        tuner.fail({"k": 1, "lr": 0.001, "on": True} if one["k"] != 1 else {**one, "k": 3})


def test_what_diverged_counts_as_worst_and_the_search_goes_on(
    make: Callable[[int], TrialTuner],
) -> None:
    tuner = make(0)
    for value in (math.nan, math.inf, 0.5, math.nan):
        [one] = tuner.ask()
        tuner.tell([one], [value])
    assert [math.isinf(trial.loss) for trial in tuner.trials.told()] == [True, True, False, True]
    assert tuner.ask()


def test_told_without_being_asked_and_told_twice(make: Callable[[int], TrialTuner]) -> None:
    tuner = make(0)
    one = {"k": 2, "lr": 0.01, "on": False}
    tuner.tell([one], [0.5])
    tuner.tell([one], [0.9])
    assert [trial.loss for trial in tuner.trials.told()] == [0.5]
    with pytest.raises(SearchError):
        tuner.tell([{**one, "k": 9}], [0.1])


def test_several_at_once_differ(make: Callable[[int], TrialTuner]) -> None:
    tuner = make(1)
    run(tuner, 3)
    asked = tuner.ask(3)
    assert len({FINITE.key(one) for one in asked}) == 3
    tuner.tell(asked, [loss(one) for one in asked])
    assert len(tuner.trials.told()) == 6


def test_the_grid_has_every_chromosome_once_and_ends() -> None:
    tuner = GridSearch(FINITE)
    assert run(tuner, 12) == list(FINITE.listed())
    assert tuner.ask() == []
    with pytest.raises(SearchError, match="list"):
        GridSearch(MIXED_GENES)


def test_the_design_fills_every_gene() -> None:
    tuner = Bayes(MIXED_GENES, 0, startup=6)
    design = tuner.ask(6)
    assert sorted(int(6 * one["x"]) for one in design) == list(range(6))
    assert sorted(one["k"] for one in design) == [1, 1, 2, 2, 3, 3]
    magnitudes = sorted(int(6 * (math.log10(one["lr"]) + 4) / 4) for one in design)
    assert magnitudes == list(range(6))
    with pytest.raises(SearchError, match="start"):
        Bayes(MIXED_GENES, 0, startup=0)


def test_a_killed_study_goes_on_with_its_trials(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    undisturbed = run(Bayes(FINITE, 5, startup=2), 5)
    first = Bayes(FINITE, 5, startup=2, path=path)
    assert run(first, 3) == undisturbed[:3]
    [open_trial] = first.ask()
    del first  # killed: the fourth trial was asked and never told
    second = Bayes(FINITE, 5, startup=2, path=path)
    assert [trial.status for trial in second.trials.all] == ["told"] * 3 + ["open"]
    assert run(second, 2) == undisturbed[3:]
    assert open_trial == undisturbed[3]
    third = Bayes(FINITE, 5, startup=2, path=path)
    assert [trial.loss for trial in third.trials.told()] == [loss(one) for one in undisturbed]


def test_the_file_counts_where_it_is_newer_than_the_checkpoint(tmp_path: Path) -> None:
    first = Bayes(FINITE, 5, startup=2, path=tmp_path / "study.db")
    run(first, 1)
    [half_done] = first.ask()
    checkpoint = first.state()
    first.tell([half_done], [loss(half_done)])
    [third] = first.ask()
    second = Bayes(FINITE, 5, startup=2, path=tmp_path / "study.db")
    second.load_state(checkpoint)
    assert [trial.status for trial in second.trials.all] == ["told", "told", "open"]
    second.tell([half_done], [loss(half_done)])  # its owner measures it once more
    assert second.ask() == [third]
    # and a file that was lost is written again
    elsewhere = Bayes(FINITE, 5, startup=2, path=tmp_path / "new.db")
    elsewhere.load_state(first.state())
    again = Bayes(FINITE, 5, startup=2, path=tmp_path / "new.db")
    assert again.trials.state() == first.trials.state()


def test_a_file_of_another_space_is_refused(tmp_path: Path) -> None:
    run(Bayes(FINITE, 0, startup=2, path=tmp_path / "study.db"), 1)
    with pytest.raises(SearchError, match="another space"):
        Bayes(MIXED_GENES, 0, path=tmp_path / "study.db")


def test_failures_are_in_the_file(tmp_path: Path) -> None:
    first = Bayes(FINITE, 0, startup=2, path=tmp_path / "study.db")
    [one] = first.ask()
    first.fail(one)
    second = Bayes(FINITE, 0, startup=2, path=tmp_path / "study.db")
    assert [trial.status for trial in second.trials.all] == ["failed"]


def test_bayes_finds_the_optimum_sooner_than_chance() -> None:
    landscape = MIXED["training"]
    found = evaluations_to_goal(Bayes(landscape.genes, 2, startup=5), landscape, 20)
    chance = [evaluations_to_goal(RandomTuner(landscape.genes, s), landscape, 300) for s in (1, 3)]
    assert found < 20 < min(chance)


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
def test_bayes_finds_every_optimum_sooner_than_chance_over_ten_seeds(name: str) -> None:
    landscape, most = MIXED[name], 60
    bayes = [
        evaluations_to_goal(Bayes(landscape.genes, seed, startup=8), landscape, most)
        for seed in range(10)
    ]
    chance = [
        evaluations_to_goal(RandomTuner(landscape.genes, seed), landscape, 1000)
        for seed in range(10)
    ]
    assert sum(count < most for count in bayes) >= 9, bayes
    assert sum(bayes) < sum(chance) / 3, (bayes, chance)


def test_the_median_rule_by_hand() -> None:
    rule = MedianRule(startup=2, warmup=2)
    for curve in ((0.5, 0.4, 0.3), (0.6, 0.2, 0.1)):
        rule.begin()
        assert not any(rule.hopeless(value) for value in curve)
        rule.end()
    rule.begin()
    assert not rule.hopeless(0.9), "still warming up"
    assert rule.hopeless(0.31)  # the median of 0.4 and 0.2 is 0.3
    rule.begin()
    assert not rule.hopeless(0.25)
    other = MedianRule(startup=2, warmup=2)
    other.load_state(rule.state())
    assert not other.hopeless(0.9), "the best so far, 0.25, counts"
    assert other.hopeless(0.9)  # and is above the median of 0.3 and 0.1


def test_ordinals_are_numbers_in_order() -> None:
    with pytest.raises(SearchError, match="ascending"):
        Ordinal("x", (2, 1))
    with pytest.raises(SearchError, match="numbers"):
        Ordinal("x", ("a", "b"))
