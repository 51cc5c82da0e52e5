import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from tiny import FAST, cells, make_table, run

from autofgl.errors import AutoFGLError, Interrupted, UserError
from autofgl.experiments.plan import Options, Variant, plan
from autofgl.experiments.runner import check_begun
from autofgl.federation.engines.inprocess import InProcess


def stop_in_round(count: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send this process a signal in the given round, counted over all runs."""
    rounds = []
    original = InProcess.call

    def interrupting(self: InProcess, op: str, *args: Any, **kwargs: Any) -> Any:
        rounds.extend([op] * (op == "round"))
        if op == "round" and len(rounds) == count:
            os.kill(os.getpid(), number)
        return original(self, op, *args, **kwargs)

    monkeypatch.setattr(InProcess, "call", interrupting)


def order(out: Path, **options: Any) -> list[tuple[int, str, str]]:
    planned = plan(make_table(), Options(out, **options))
    return [(run.seed, run.setting.name, run.variant.name) for run in planned]


def test_all_with_the_first_seed_come_before_any_with_the_second(out: Path) -> None:
    first = [(0, "two", "quick"), (0, "two", "gcn"), (0, "three", "quick"), (0, "three", "gcn")]
    assert order(out) == [*first, (1, "two", "gcn"), (1, "three", "gcn")]
    assert order(out, seeds=1) == first
    assert order(out, datasets=("Three",), rows=("GCN",), seeds=2) == [
        (0, "three", "gcn"),
        (1, "three", "gcn"),
    ]


def test_every_cell_is_an_ordinary_run(out: Path) -> None:
    said = run(make_table(), out, budget="90s")
    configs = {
        path.parent.relative_to(out).as_posix(): yaml.safe_load(path.read_text())
        for path in out.rglob("config.yaml")
    }
    assert set(configs) == {
        "two/quick/seed-0", "two/gcn/seed-0", "two/gcn/seed-1",
        "three/quick/seed-0", "three/gcn/seed-0", "three/gcn/seed-1",
    }  # fmt: skip
    keys = ("dataset", "clients", "partition", "seed", "budget", "secure")
    quick, gcn = (
        [configs[name][key] for key in keys] for name in ("three/quick/seed-0", "three/gcn/seed-1")
    )
    assert quick == ["synthetic", 3, "random", 0, "90s", "none"]
    assert gcn == ["synthetic", 3, "metis", 1, None, "none"], "a row's own partition wins"
    assert all((out / name / "result.json").exists() for name in configs)
    assert "[1/6] Two, Quick, seed 0" in said
    assert "[6/6] Three, GCN, seed 1" in said
    assert said.count("  test accuracy ") == 6
    accuracies = [
        json.loads((out / f"two/gcn/seed-{seed}/result.json").read_text())["test_accuracy"]
        for seed in range(2)
    ]
    mean = 50 * sum(accuracies)
    assert cells(out)["gcn", "two"]["accuracy"] == pytest.approx(mean)
    assert f"so far {mean:.1f} ± " in said
    assert (out / "table.md").read_text() in said


def test_nothing_is_run_twice(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    run(table, out, rows=("quick",), datasets=("two",))
    before = (out / "two/quick/seed-0/result.json").stat().st_mtime_ns
    assert [len(cell["runs"]) for cell in cells(out).values()] == [1, 0, 0, 0]
    said = run(table, out, seeds=1)
    assert "4 runs, 1 of them finished before" in said
    assert "[1/4]" not in said
    assert "[2/4] Two, GCN, seed 0" in said
    assert (out / "two/quick/seed-0/result.json").stat().st_mtime_ns == before
    monkeypatch.setattr(InProcess, "call", None)
    assert "4 runs, 4 of them finished before" in run(table, out, seeds=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_table_goes_on_where_it_was(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(variants=make_table().variants[1:])
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(table, whole, seeds=1)
    stop_in_round(5, number, monkeypatch)  # the second round of the second cell
    with pytest.raises(Interrupted, match="run the same command"):
        run(table, cut, seeds=1)
    monkeypatch.undo()
    assert [len(cell["runs"]) for cell in cells(cut).values()] == [1, 0]
    assert not any(cell["failed"] for cell in cells(cut).values())
    assert (cut / "three/gcn/seed-0/checkpoint").exists()
    assert "[2/2] Three, GCN" in run(table, cut, seeds=1)
    models = [path / "three/gcn/seed-0/model.safetensors" for path in (whole, cut)]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_ctrl_c_between_rounds_says_how_to_go_on(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autofgl.api.load_clients", pressed)
    with pytest.raises(Interrupted, match="run the same command"):
        run(make_table(), out)


def test_a_kill_while_a_folder_is_made_does_no_harm(out: Path) -> None:
    table = make_table(settings=make_table().settings[:1])
    place = out / "two/quick/seed-0"
    run(table, out, rows=("gcn",), seeds=1)
    place.mkdir(parents=True)
    (place / ".config.yaml.1234.tmp").write_text("method: fed")
    run(table, out, rows=("quick",), seeds=1)
    assert (place / "result.json").exists()


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({}, {"budget": "5m"}, r"two/quick/seed-0 was made with budget 600s \(now 300s\)"),
        ({}, {"secure": "shares"}, r"secure none \(now shares\)"),
        ({"settings": {**FAST, "rounds": 4}}, {}, r"rounds 3 \(now 4\)"),
        ({"method": "separate"}, {}, r"method fedavg \(now separate\)"),
        ({"partition": "random"}, {}, r"partition metis \(now random\)"),
    ],
)
def test_cells_of_another_configuration_are_refused(
    out: Path, row: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    table = make_table(settings=make_table().settings[:1], variants=make_table().variants[:1])
    run(table, out)
    before = (out / "table.md").read_bytes()
    asked = replace(table, variants=(replace(table.variants[0], **row),))
    with pytest.raises(UserError, match=message + ".*choose another --out"):
        run(asked, out, **options)
    assert (out / "table.md").read_bytes() == before


def test_the_same_budget_in_other_words_is_the_same(out: Path) -> None:
    table = make_table(settings=make_table().settings[:1], variants=make_table().variants[:1])
    run(table, out, budget="10m")
    assert "1 of them finished" in run(table, out, budget="600")


def test_an_unfinished_cell_of_another_configuration_is_refused(out: Path) -> None:
    table = make_table(settings=make_table().settings[:1], variants=make_table().variants[:1])
    run(table, out)
    (out / "two/quick/seed-0/result.json").unlink()
    with pytest.raises(UserError, match="choose another --out"):
        run(table, out, budget="5m")


@pytest.mark.parametrize("content", ["tiny2", "file"])
def test_a_folder_of_something_else_is_refused(out: Path, content: str) -> None:
    out.mkdir()
    if content == "file":
        (out / "thesis.tex").write_text("mine")
    else:
        (out / "table.json").write_text(json.dumps({"table": content}))
    before = sorted(out.iterdir())
    with pytest.raises(UserError, match="not a folder of tiny: choose another --out"):
        run(make_table(), out)
    assert sorted(out.iterdir()) == before


def test_a_failing_cell_is_remembered_and_the_rest_goes_on(out: Path) -> None:
    good = make_table().variants[1]
    lost = Variant("lost", "Lost", "fedavg", {"lr": "fast"}, seeds=1, budgeted=True)
    table = make_table(settings=make_table().settings[:1], variants=(lost, good))
    with pytest.raises(AutoFGLError, match="1 of 2 runs failed") as raised:
        run(table, out, seeds=1)
    assert not isinstance(raised.value, UserError), "exit code 1"
    before = cells(out)
    assert "setting lr=fast" in before["lost", "two"]["failed"]["0"]
    assert len(before["gcn", "two"]["runs"]) == 1
    assert "| Lost | – | failed: setting lr=fast" in (out / "table.md").read_text()
    run(table, out, seeds=1, rows=("gcn",))
    assert cells(out)["lost", "two"] == before["lost", "two"], "other rows are not forgotten"
    mended = replace(table, variants=(replace(lost, settings=FAST), good))
    run(mended, out, seeds=1)
    assert cells(out)["lost", "two"]["failed"] == {}
    assert len(cells(out)["lost", "two"]["runs"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": ("gnc",)}, "unknown row of this table 'gnc': did you mean gcn"),
        ({"datasets": ("tow",)}, "unknown dataset of this table 'tow': did you mean two"),
        ({"seeds": 0}, "--seeds 0"),
        ({"budget": "soon"}, "not a duration"),
        ({"secure": "ckkss"}, "did you mean ckks"),
    ],
)
def test_mistakes_are_told_before_anything_is_done(
    out: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(make_table(), out, **options)
    assert not out.exists()


def test_a_cell_made_before_a_setting_existed_counts_as_its_default(out: Path) -> None:
    table = make_table(settings=make_table().settings[:1], variants=make_table().variants[:1])
    run(table, out)
    path = out / "two/quick/seed-0/config.yaml"
    config = yaml.safe_load(path.read_text())
    del config["settings"]["patience"]
    path.write_text(yaml.safe_dump(config))
    path.with_name("run.json").unlink()  # folders of that time have no digests either
    check_begun(table, Options(out))
    config["settings"]["patience"] = 7
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(UserError, match=r"patience 7 \(now 0\)"):
        check_begun(table, Options(out))
