"""Bayesian optimization, its study file, and the median rule; the contract has the rest."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from landscapes import MIXED, evaluations_to_goal

from autofgl.search.baselines import RandomSearch
from autofgl.search.bayes import Bayes, MedianRule
from autofgl.search.genes import Categorical, Float, Integer, LogFloat, Ordinal
from autofgl.search.searcher import SearchError
from autofgl.search.space import Chromosome, Codes, SearchSpace

FINITE = SearchSpace(
    (Integer("k", 1, 3), Ordinal("lr", (0.001, 0.01)), Categorical("on", (True, False)))
)
CONTINUOUS = SearchSpace((Float("x", 0.0, 1.0), LogFloat("lr", 1e-4, 1.0), Integer("k", 1, 3)))


def loss(one: Chromosome) -> float:
    return abs(one["k"] - 2) + 100 * one["lr"] + (0 if one["on"] else 0.3)


def run(searcher: Bayes, trials: int) -> list[Chromosome]:
    asked = []
    for _ in range(trials):
        [one] = searcher.ask()
        searcher.tell([one], [loss(one)])
        asked.append(one)
    return asked


def states(searcher: Bayes) -> list[str]:
    return [trial.state.name for trial in searcher.trials]


def test_a_half_done_trial_stays_with_its_owner() -> None:
    expected = run(Bayes(FINITE, 0, startup=2), 5)
    first, second = Bayes(FINITE, 0, startup=2), Bayes(FINITE, 0, startup=2)
    assert run(first, 3) == expected[:3]
    [half_done] = first.ask()
    second.load_state(first.state())
    second.tell([half_done], [loss(half_done)])
    assert [half_done, *run(second, 1)] == expected[3:]


def test_what_failed_and_what_diverged_is_recorded() -> None:
    searcher = Bayes(FINITE, 0, startup=2)
    [one] = searcher.ask()
    searcher.fail(one)
    for value in (math.nan, math.inf, 0.5, math.nan):
        [one] = searcher.ask()
        searcher.tell([one], [value])
    assert states(searcher) == ["FAIL", *["COMPLETE"] * 4]
    assert [trial.value for trial in searcher.trials[1:]] == [math.inf, math.inf, 0.5, math.inf]
    assert searcher.ask()


def test_told_without_being_asked_and_told_twice() -> None:
    searcher = Bayes(FINITE, 0, startup=2)
    one = {"k": 2, "lr": 0.01, "on": False}
    searcher.tell([one], [0.5])
    searcher.tell([one], [0.9])
    assert [trial.value for trial in searcher.trials] == [0.5]


def test_nothing_is_asked_twice_while_there_are_others() -> None:
    asked = [*run(Bayes(FINITE, 3, startup=2), 5), *Bayes(FINITE, 3, startup=2).ask(2)]
    assert len({FINITE.key(one) for one in asked[:5]}) == 5
    assert asked[5] == asked[0]


def test_the_design_fills_every_gene() -> None:
    design = Bayes(CONTINUOUS, 0, startup=6).ask(6)
    assert sorted(int(6 * one["x"]) for one in design) == list(range(6))
    assert sorted(one["k"] for one in design) == [1, 1, 2, 2, 3, 3]
    magnitudes = sorted(int(6 * (math.log10(one["lr"]) + 4) / 4) for one in design)
    assert magnitudes == list(range(6))
    with pytest.raises(SearchError, match="start"):
        Bayes(CONTINUOUS, 0, startup=0)


def test_a_killed_study_goes_on_with_its_trials(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    undisturbed = run(Bayes(FINITE, 5, startup=2), 5)
    first = Bayes(FINITE, 5, startup=2, path=path)
    assert run(first, 3) == undisturbed[:3]
    [open_trial] = first.ask()
    del first  # killed: the fourth trial was asked and never told
    second = Bayes(FINITE, 5, startup=2, path=path)
    assert states(second) == ["COMPLETE"] * 3 + ["RUNNING"]
    assert run(second, 2) == undisturbed[3:]
    assert open_trial == undisturbed[3]
    third = Bayes(FINITE, 5, startup=2, path=path)
    assert [trial.value for trial in third.trials] == [loss(one) for one in undisturbed]


@pytest.mark.slow
def test_a_checkpoint_counts_where_the_file_is_newer(tmp_path: Path) -> None:
    """The run goes back to the checkpoint, so the trials after it are made again."""
    first = Bayes(FINITE, 5, startup=2, path=tmp_path / "study.db")
    run(first, 1)
    [half_done] = first.ask()
    checkpoint = first.state()
    first.tell([half_done], [loss(half_done)])
    [third] = first.ask()
    second = Bayes(FINITE, 5, startup=2, path=tmp_path / "study.db")
    second.load_state(checkpoint)
    assert states(second) == ["COMPLETE", "RUNNING"]
    second.tell([half_done], [loss(half_done)])
    assert second.ask() == [third]
    # and a file that was lost is written again
    first = second
    elsewhere = Bayes(FINITE, 5, startup=2, path=tmp_path / "new.db")
    elsewhere.load_state(first.state())
    again = Bayes(FINITE, 5, startup=2, path=tmp_path / "new.db")
    assert again.state() == first.state()


def test_a_checkpoint_counts_where_it_is_newer_than_the_file(tmp_path: Path) -> None:
    first = Bayes(FINITE, 5, startup=2, path=tmp_path / "study.db")
    [one] = first.ask()
    [other] = first.ask()
    later = Bayes(FINITE, 5, startup=2)
    later.load_state(first.state())
    later.tell([one], [0.25])
    later.fail(other)
    first.load_state(later.state())
    again = Bayes(FINITE, 5, startup=2, path=tmp_path / "study.db")
    assert again.state() == later.state()


def test_a_file_of_another_space_is_refused(tmp_path: Path) -> None:
    run(Bayes(FINITE, 0, startup=2, path=tmp_path / "study.db"), 1)
    with pytest.raises(SearchError, match="another space"):
        Bayes(CONTINUOUS, 0, path=tmp_path / "study.db")


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    first = Bayes(FINITE, 0, startup=2, path=path)
    run(first, 1)
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(SearchError, match=r"^cannot use the study in .*not a database"):
        Bayes(FINITE, 0, startup=2, path=path)
    with pytest.raises(SearchError, match=r"^cannot use the study in [^\n]*$"):
        first.ask()


def test_failures_are_in_the_file(tmp_path: Path) -> None:
    first = Bayes(FINITE, 0, startup=2, path=tmp_path / "study.db")
    [one] = first.ask()
    first.fail(one)
    assert states(Bayes(FINITE, 0, startup=2, path=tmp_path / "study.db")) == ["FAIL"]


def test_codes_are_numbers_to_it() -> None:
    codes = Codes((4, 5))
    searcher = Bayes(codes, 0, startup=3)
    for _ in range(5):
        asked = searcher.ask()
        searcher.tell(asked, asked.sum(axis=1))
    assert searcher.ask(2).shape == (2, 2)


def test_bayes_finds_the_optimum_sooner_than_chance() -> None:
    landscape = MIXED["training"]
    bayes = evaluations_to_goal(Bayes(landscape.space, 2, startup=5), landscape, 20)
    chance = [evaluations_to_goal(RandomSearch(landscape.space, s), landscape, 300) for s in (1, 3)]
    assert bayes < 20 < min(chance)


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
def test_bayes_finds_every_optimum_sooner_than_chance_over_ten_seeds(name: str) -> None:
    landscape, most = MIXED[name], 60
    bayes = [
        evaluations_to_goal(Bayes(landscape.space, seed, startup=8), landscape, most)
        for seed in range(10)
    ]
    chance = [
        evaluations_to_goal(RandomSearch(landscape.space, seed), landscape, 1000)
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
    assert other.state() == rule.state()
    assert not other.hopeless(0.9), "the best so far, 0.25, counts"
    assert other.hopeless(0.9)  # and is above the median of 0.3 and 0.1
