"""Comparisons: what is run, who is ahead, what is not made twice."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from checker import check_page

from autofgl import api
from autofgl.compare.contest import Contest, Entry, plan
from autofgl.compare.curves import anytime, best_so_far
from autofgl.compare.runner import compare
from autofgl.compare.standing import EntrySummary, differences, holm, leader, paired, summarise
from autofgl.compare.verdict import verdict
from autofgl.errors import Interrupted, UserError
from autofgl.reproduce.options import Options

SETTINGS: dict[str, Any] = {"nodes": 150, "rounds": 2, "hidden": 8}


def contest(*entries: str, **settings: Any) -> Contest:
    return Contest(
        [Entry.parse(entry) for entry in entries],
        dataset="synthetic",
        clients=2,
        settings={**SETTINGS, **settings},
    )


def summary(label: str, *accuracies: float, **costs: float) -> EntrySummary:
    figures = {"wall_s": 1.0, "bytes": 10, "parameters": 5, **costs}
    runs = {seed: {"test_accuracy": value, **figures} for seed, value in enumerate(accuracies)}
    return EntrySummary(Entry.parse(label), runs, {}, len(accuracies))


def test_an_entry_may_have_settings() -> None:
    entry = Entry.parse("fedavg:model=gat,lr=0.02")
    assert (entry.method, entry.settings) == ("fedavg", {"model": "gat", "lr": 0.02})
    assert entry.name == "fedavg_model=gat_lr=0.02"
    with pytest.raises(UserError, match="did you mean fedavg"):
        Entry.parse("fedav")


def test_common_settings_go_to_those_that_read_them(out: Path) -> None:
    made = contest("fedavg", "graphfl", outer_steps=1)
    assert "outer_steps" not in made.settings_of(made.entries[0])
    assert made.settings_of(made.entries[1])["outer_steps"] == 1
    with pytest.raises(UserError, match="unknown setting of these methods 'nonsense'"):
        plan(contest("fedavg", "graphfl", nonsense=1), Options(out, seeds=1))


@pytest.mark.parametrize(
    ("entries", "message"),
    [(["fedavg"], "two methods at least"), (["fedavg", "fedavg"], "there twice")],
)
def test_what_cannot_be_compared(entries: list[str], message: str, out: Path) -> None:
    with pytest.raises(UserError, match=message):
        plan(contest(*entries), Options(out, seeds=2))


def test_a_seed_is_run_with_all_methods_before_the_next(out: Path) -> None:
    heats = plan(contest("fedavg", "separate"), Options(out, seeds=2))
    assert [(heat.entry.method, heat.seed) for heat in heats] == [
        ("fedavg", 0), ("separate", 0), ("fedavg", 1), ("separate", 1),
    ]  # fmt: skip


def test_the_paired_difference_is_that_of_scipy() -> None:
    ours, theirs = [0.7, 0.72, 0.69, 0.75], [0.74, 0.73, 0.75, 0.76]
    rows = [{n: {"test_accuracy": v} for n, v in enumerate(line)} for line in (ours, theirs)]
    found = paired(rows[0], rows[1])
    expected = stats.ttest_rel(ours, theirs)
    assert found is not None
    assert found.half_width is not None
    assert found.p == pytest.approx(expected.pvalue)
    assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs))
    interval = expected.confidence_interval(0.95)
    assert found.mean - found.half_width == pytest.approx(interval.low)


def test_pairs_are_of_common_seeds_only() -> None:
    found = paired(
        {0: {"test_accuracy": 0.5}, 1: {"test_accuracy": 0.9}}, {0: {"test_accuracy": 0.6}}
    )
    assert found is not None
    assert (round(found.mean, 6), found.p, found.seeds) == (-0.1, None, 1)
    assert paired({0: {"test_accuracy": 0.5}}, {1: {"test_accuracy": 0.6}}) is None


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
    apart = differences(entries)
    assert not apart["fedavg"].told_apart
    assert apart["separate"].told_apart
    said = " ".join(verdict(entries))
    assert "Most accurate: fl-agcns, 81 % ± 1 %" in said
    assert "do not tell fedavg apart" in said
    assert "Of these, fedavg needs the least time (2 s)" in said
    assert "separate" not in said
    assert "One seed tells nothing" in " ".join(
        verdict([summary("fedavg", 0.5), summary("separate", 0.4)])
    )
    assert verdict([]) == ["Nothing is finished yet."]


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
    series = anytime(summary("fedavg", 0.5), Options(out), "wall_s")
    values = [point.y for point in series.points]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0.2, 0.6)


def test_a_comparison_goes_on_where_it_was_killed(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, options = contest("fedavg", "separate"), Options(out, seeds=2, budget="1m")
    begun: list[str] = []
    start = api.start

    def counted(config: Any, *rest: Any) -> Any:
        if len(begun) == 3:
            raise KeyboardInterrupt
        begun.append(f"{config.method}-{config.seed}")
        return start(config, *rest)

    monkeypatch.setattr(api, "start", counted)
    console = Console(file=io.StringIO(), width=120)
    with pytest.raises(Interrupted):
        compare(made, options, console)
    page = check_page((out / "compare.html").read_text(), near=out)
    assert "3 of 4 runs are finished" in page.text

    monkeypatch.setattr(api, "start", start)
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/*/result.json")}
    compare(made, options, console)
    assert begun == ["fedavg-0", "separate-0", "fedavg-1"]
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert len(list(out.glob("*/*/result.json"))) == 4

    page = check_page((out / "compare.html").read_text(), near=out)
    assert "runs are finished" not in page.text
    assert len((out / "compare.csv").read_text().splitlines()) == 5
    told = json.loads((out / "comparison.json").read_text())
    assert [len(entry["runs"]) for entry in told["entries"]] == [2, 2]
    for seed in (0, 1):
        digests = [
            json.loads((out / name / f"seed-{seed}" / "data.json").read_text())["digests"]
            for name in ("fedavg", "separate")
        ]
        assert digests[0] == digests[1], "a seed has the same clients for all"
    assert all(entry.runs for entry in summarise(made, options))
    with pytest.raises(UserError, match="was made with"):
        compare(contest("fedavg", "separate", rounds=3), options, console)
