"""Who is ahead, and whether seeds can tell."""

import numpy as np
import pytest
from scipy import stats

from autofgl.experiments.plan import Setting, parse_variant
from autofgl.experiments.ranking import (
    differences,
    holm,
    leader,
    paired_difference,
    ranking,
    verdict,
)
from autofgl.experiments.summary import Summary


def summary(label: str, *accuracies: float, **costs: float) -> Summary:
    figures = {"wall_s": 1.0, "bytes": 10, "parameters": 5, **costs}
    runs = {seed: {"test_accuracy": value, **figures} for seed, value in enumerate(accuracies)}
    return Summary(Setting("", "", None), parse_variant(label), runs, {}, len(accuracies))


def test_the_paired_difference_is_that_of_scipy() -> None:
    ours, theirs = [0.7, 0.72, 0.69, 0.75], [0.74, 0.73, 0.75, 0.76]
    rows = [{n: {"test_accuracy": v} for n, v in enumerate(line)} for line in (ours, theirs)]
    gap = paired_difference(rows[0], rows[1])
    expected = stats.ttest_rel(ours, theirs)
    assert gap is not None
    assert gap.half_width is not None
    assert gap.p == pytest.approx(expected.pvalue)
    assert gap.mean == pytest.approx(np.mean(ours) - np.mean(theirs))
    interval = expected.confidence_interval(0.95)
    assert gap.mean - gap.half_width == pytest.approx(interval.low)


def test_pairs_are_of_common_seeds_only() -> None:
    gap = paired_difference(
        {0: {"test_accuracy": 0.5}, 1: {"test_accuracy": 0.9}}, {0: {"test_accuracy": 0.6}}
    )
    assert gap is not None
    assert (round(gap.mean, 6), gap.p, gap.seeds) == (-0.1, None, 1)
    assert paired_difference({0: {"test_accuracy": 0.5}}, {1: {"test_accuracy": 0.6}}) is None


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": None}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": None}
    )


def test_the_verdict_names_leader_equals_and_the_cheapest() -> None:
    best = summary("fl-agcns", 0.80, 0.81, 0.82, wall_s=60.0, bytes=900)
    near = summary("fedavg", 0.79, 0.82, 0.80, wall_s=2.0, bytes=90)
    far = summary("separate", 0.60, 0.61, 0.621, wall_s=1.0, bytes=1)
    entries = [near, best, far]
    assert leader(entries) is best
    assert ranking(entries) == [best, near, far]
    apart = differences(entries)
    assert not apart["fedavg"].significant
    assert apart["separate"].significant
    said = " ".join(verdict(entries))
    assert "Most accurate: fl-agcns, 81 % ± 1 %" in said
    assert "do not distinguish fedavg" in said
    assert "Of these, fedavg needs the least time (2 s)" in said
    assert "separate" not in said
    assert "One seed does not show" in " ".join(
        verdict([summary("fedavg", 0.5), summary("separate", 0.4)])
    )
    assert verdict([]) == ["Nothing is finished yet."]
