"""Comparisons: what is run, and what is not made twice."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from checker import check_page

from autofgl import api
from autofgl.errors import Interrupted, UserError
from autofgl.experiments.compare import ComparisonPages, comparison_entries
from autofgl.experiments.plan import (
    Comparison,
    Options,
    Setting,
    make_comparison,
    parse_variant,
    plan,
)
from autofgl.experiments.runner import run_experiment

SETTINGS: dict[str, Any] = {"nodes": 150, "rounds": 2, "hidden": 8}


def comparison(*methods: str, **settings: Any) -> Comparison:
    setting = Setting("", "", "synthetic", clients=2)
    return make_comparison(methods, setting, {**SETTINGS, **settings})


def run(made: Comparison, options: Options) -> None:
    run_experiment(ComparisonPages(made, options), Console(file=io.StringIO(), width=120))


def test_an_entry_may_have_settings() -> None:
    variant = parse_variant("fedavg:model=gat,lr=0.02")
    assert (variant.method, variant.settings) == ("fedavg", {"model": "gat", "lr": 0.02})
    assert variant.name == "fedavg_model=gat_lr=0.02"
    with pytest.raises(UserError, match="did you mean fedavg"):
        parse_variant("fedav")


def test_common_settings_go_to_those_that_read_them() -> None:
    fedavg, graphfl = comparison("fedavg", "graphfl", outer_steps=1).variants
    assert "outer_steps" not in fedavg.settings
    assert graphfl.settings["outer_steps"] == 1
    with pytest.raises(UserError, match="unknown setting of these methods 'nonsense'"):
        comparison("fedavg", "graphfl", nonsense=1)


def test_a_wrong_value_is_refused_before_anything_is_done(out: Path) -> None:
    with pytest.raises(UserError, match="setting rounds=-1"):
        run(comparison("fedavg", "separate", rounds=-1), Options(out, seeds=1))
    assert not out.exists()


@pytest.mark.parametrize(
    ("methods", "message"),
    [(["fedavg"], "two methods at least"), (["fedavg", "fedavg"], "there twice")],
)
def test_what_cannot_be_compared(methods: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        comparison(*methods)


def test_a_seed_is_run_with_all_methods_before_the_next(out: Path) -> None:
    runs = plan(comparison("fedavg", "separate"), Options(out, seeds=2))
    assert [(run.variant.method, run.seed) for run in runs] == [
        ("fedavg", 0), ("separate", 0), ("fedavg", 1), ("separate", 1),
    ]  # fmt: skip


def test_a_comparison_goes_on_where_it_was_killed(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, options = comparison("fedavg", "separate"), Options(out, seeds=2, budget="1m")
    begun: list[str] = []
    start = api.start_run

    def counted(config: Any, *rest: Any) -> Any:
        if len(begun) == 3:
            raise KeyboardInterrupt
        begun.append(f"{config.method}-{config.seed}")
        return start(config, *rest)

    monkeypatch.setattr(api, "start_run", counted)
    with pytest.raises(Interrupted):
        run(made, options)
    page = check_page((out / "compare.html").read_text(), near=out)
    assert "3 of 4 runs are finished" in page.text

    monkeypatch.setattr(api, "start_run", start)
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/*/result.json")}
    run(made, options)
    assert begun == ["fedavg-0", "separate-0", "fedavg-1"]
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert len(list(out.glob("*/*/result.json"))) == 4

    page = check_page((out / "compare.html").read_text(), near=out)
    assert "runs are finished" not in page.text
    assert len((out / "compare.csv").read_text().splitlines()) == 5
    content = json.loads((out / "comparison.json").read_text())
    assert [len(entry["runs"]) for entry in content["entries"]] == [2, 2]
    for seed in (0, 1):
        digests = [
            json.loads((out / name / f"seed-{seed}" / "data.json").read_text())["digests"]
            for name in ("fedavg", "separate")
        ]
        assert digests[0] == digests[1], "a seed has the same clients for all"
    assert all(entry.runs for entry in comparison_entries(made, options))
    with pytest.raises(UserError, match="was made with"):
        run(comparison("fedavg", "separate", rounds=3), options)
