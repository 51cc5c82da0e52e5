"""Numbers of a figure from made-up histories, by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from autofgl.experiments.curves import (
    Effort,
    Generation,
    MeanPoint,
    TrainingPoint,
    TrialTimes,
    best_so_far,
    common_target,
    first_reaching,
    learning_curve,
    mean_best_so_far,
    mean_curve,
    round_bytes,
    running_mean,
    search_curve,
    total_effort,
    training_curve,
)


def row(phase: str, seconds: float, cost: float, test: float | None = None, **more: Any) -> Any:
    given = {"phase": phase, "train_s": seconds, "cost": cost, "test_accuracy": test}
    other = {"val_accuracy": None if test is None else test / 2, "train_loss": 1.5}
    return {**given, **other, **more}


def curve(*accuracies: float) -> list[TrainingPoint]:
    """Evaluated after rounds of a second each."""
    return [
        TrainingPoint(number, float(number), 10.0 * number, accuracy, 0.5, 1.0)
        for number, accuracy in enumerate(accuracies, 1)
    ]


def test_a_training_counts_from_its_own_first_round() -> None:
    history = [
        row("profile", 100, 1000),
        row("episode", 100, 1000, episode=1, accuracy=0.1),
        row("train", 0.5, 10),
        row("train", 0.25, 20, 0.4),
        row("train", 0.25, 30),
        row("train", 1, 40, 0.6),
    ]
    assert training_curve(history) == [
        TrainingPoint(2, 0.75, 30, 0.4, 0.2, 1.5),
        TrainingPoint(4, 2.0, 100, 0.6, 0.3, 1.5),
    ]
    assert total_effort(history, "train") == Effort(4, 2.0, 100)
    assert total_effort(history, "profile", "episode") == Effort(2, 200, 2000)


def test_a_search_has_its_generations_losses() -> None:
    history = [
        {"phase": "trial"},
        {"phase": "search", "generation": 1, "best_fll": 1.5, "median_fll": 2.0},
        {"phase": "search", "generation": 2, "best_fll": 1.25, "median_fll": 1.75},
        row("train", 1, 10, 0.5),
    ]
    assert search_curve(history) == [Generation(1, 1.5, 2.0), Generation(2, 1.25, 1.75)]


def test_an_episode_ends_with_its_last_return() -> None:
    history = [
        row("profile", 1, 10),
        row("episode", 1, 10, episode=1, accuracy=0.1, **{"return": 0.5}),
        row("episode", 1, 10, episode=1, accuracy=0.2, **{"return": 0.7}),
        row("episode", 1, 10, episode=2, accuracy=0.3, **{"return": -0.5}),
        row("episode", 1, 10, episode=2, accuracy=0.4, **{"return": -0.1}),
        row("train", 9, 90, 0.9),
    ]
    ends = [(e.episode, e.discounted_return, e.accuracy) for e in learning_curve(history)]
    assert ends == [(1, 0.7, 0.2), (2, -0.1, 0.4)]
    assert [(e.seconds, e.cost) for e in learning_curve(history)] == [(3, 30), (5, 50)]


def test_the_running_mean_of_three() -> None:
    # .3 | (.3+.6)/2 | (.3+.6+.9)/3 | (.6+.9+0)/3
    assert running_mean([0.3, 0.6, 0.9, 0.0]) == pytest.approx([0.3, 0.45, 0.6, 0.5])
    assert running_mean([]) == []


def test_the_target_is_what_the_weakest_reaches_less_a_point() -> None:
    strong, weak = curve(0.3, 0.6, 0.9, 0.3), curve(0.2, 0.4, 0.6, 0.5)
    # smoothed: .3 .45 .6 .6 and .2 .3 .4 .5; the lower of the best is .5
    target = common_target([strong, weak, []])
    assert target == pytest.approx(0.49)
    # One that stays more than ten points below the best does not count.
    assert common_target([strong, curve(0.4, 0.4)]) == pytest.approx(0.59)
    assert (first_reaching(strong, 0.49), first_reaching(weak, 0.49)) == (strong[2], weak[3])
    assert first_reaching(strong, 0.3) == strong[0]
    assert first_reaching(weak, 0.51) is None
    assert common_target([]) is None


def test_bytes_are_those_of_rounds_without_an_evaluation() -> None:
    def at(up: int, down: int, peer: int, accuracy: float | None) -> Any:
        return row("train", 1, 1, accuracy, bytes_up=up, bytes_down=down, bytes_peer=peer)

    history = [
        at(1000, 5000, 70, None),  # with the set-up
        at(1300, 5900, 170, 0.5),  # with an evaluation
        at(1310, 5920, 180, None),  # 10 up, 20 down, 10 between
        at(1600, 6900, 280, 0.5),
        at(1620, 6930, 310, None),  # 20 up, 30 down, 30 between
    ]
    assert round_bytes(history) == (40, 20)
    assert round_bytes(history[:2]) == (1200, 100), "there are no others"
    assert round_bytes(history[:1]) == (None, None)
    alone = [row("train", 1, 1, None, bytes_up=size, bytes_down=0) for size in (5, 8)]
    assert round_bytes(alone) == (3, 0)


def test_the_mean_over_seeds_by_hand() -> None:
    seeds = [curve(0.2, 0.4, 0.6), curve(0.4, 0.4)]
    first, second = mean_curve(seeds, "cost", "test_accuracy")
    assert first == pytest.approx(MeanPoint(10, 0.3, 0.02**0.5))  # deviations ∓.1, .02 / 1
    assert second == pytest.approx(MeanPoint(20, 0.4, 0))
    assert mean_curve([curve(0.5)], "round", "test_accuracy") == [MeanPoint(1, 0.5, 0)]


def test_trials_and_times_from_a_history() -> None:
    history = [
        {"wall_s": 1.0, "best_score": None},
        {"wall_s": 2.0, "trial_ended": "failed", "best_score": None},
        {"wall_s": 4.0, "trial_ended": "done", "best_score": 0.5},
        {"wall_s": 9.0, "trial_ended": "done", "best_score": 0.7},
        {"wall_s": 11.0, "phase": "train"},
    ]
    trials = TrialTimes.of(history)
    assert trials == TrialTimes((None, 0.5, 0.7), (2.0, 4.0, 9.0))
    assert (trials.best, trials.seconds_per_trial) == (0.7, 3.0)
    assert trials.until(0.5) == (2, 4.0)
    assert trials.until(0.8) is None


def test_the_best_so_far_never_falls(out: Path) -> None:
    folder = out / "fedavg" / "seed-0"
    folder.mkdir(parents=True)
    accuracies = [0.2, None, 0.5, 0.4, 0.6, 0.1]
    rows = [
        {"round": at, "wall_s": float(at), "bytes_up": at, "bytes_down": at, "val_accuracy": value}
        for at, value in enumerate(accuracies, 1)
    ]
    (folder / "history.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert best_so_far(folder, "bytes") == ((2, 0.2), (6, 0.5), (10, 0.6), (12, 0.6))
    values = [mean for _, mean, _, _ in mean_best_so_far([folder], "wall_s")]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0.2, 0.6)
