import time

import pytest

from autofgl.errors import UserError
from autofgl.runs.budget import Budget, Stopwatch


@pytest.mark.parametrize(
    ("text", "seconds", "cpu"),
    [
        ("90s", 90, False), ("10m", 600, False), ("1h30m", 5400, False), ("1h", 3600, False),
        ("2.5", 2.5, False), ("1m1.5s", 61.5, False), ("10m cpu", 600, True), ("2.5cpu", 2.5, True),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float, cpu: bool) -> None:
    budget = Budget.parse(text)
    assert budget == Budget(seconds, cpu)
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize("text", ["", "soon", "10 minutes", "-5s", "m", "5x", "cpu"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(UserError, match="duration"):
        Budget.parse(text)


def test_sleep_takes_wall_time_and_computing_takes_both() -> None:
    watch = Stopwatch()
    time.sleep(0.2)
    assert watch.spent(Budget(0.2)) >= 1
    assert watch.spent(Budget(0.2, cpu=True)) < 0.9
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert watch.spent(Budget(0.2, cpu=True)) >= 1


def test_seconds_before_a_resumption_count() -> None:
    watch = Stopwatch(wall_s=30, cpu_s=60)
    assert 30 <= watch.wall_s < 31
    assert 60 <= watch.cpu_s < 61
    assert watch.spent(Budget(0)) == 1
