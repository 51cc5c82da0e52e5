"""A run in a process of its own, killed and resumed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autofgl.cli import main
from autofgl.runs.folder import read_history

pytestmark = pytest.mark.cores

SETTINGS = ["rounds=60", "checkpoint_every=5", "nodes=400", "participation=0.7"]
TIMES = {"wall_s", "inference_s"}


def command(out: Path, aggregate: str) -> list[str]:
    words = ["run", "fedavg", "--dataset", "synthetic", "--clients", "4", "--seed", "3"]
    return [*words, "--set", *SETTINGS, f"aggregate={aggregate}", "--out", str(out)]


def start(words: list[str]) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from autofgl.cli import main; main()", *words]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def here(words: list[str]) -> None:
    """Run a command to its good end in this process: it need not import everything again."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0


def finish(process: subprocess.Popen[str], code: int) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, f"exit code {process.returncode}: {out}{err}"
    return out + err


def wait_for_round(process: subprocess.Popen[str], out: Path, at: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        rows = read_history(out / "history.jsonl")
        if rows and rows[-1]["round"] >= at:
            return
        assert process.poll() is None, f"ended before round {at}"
        time.sleep(0.005)
    raise AssertionError(f"no round {at} in time")


def figures(out: Path) -> dict[str, object]:
    found = json.loads((out / "result.json").read_text())
    return {key: value for key, value in found.items() if key not in TIMES}


def first_difference(ours: Path, theirs: Path) -> str:
    """The first round whose figures differ, which tells a wrong state from chance on the way."""
    rows = (read_history(folder / "history.jsonl") for folder in (ours, theirs))
    for one, other in zip(*rows, strict=True):
        differing = {key for key in one | other if one.get(key) != other.get(key)} - TIMES
        if differing:
            return f"round {one['round']} differs in {sorted(differing)}: {one} and {other}"
    return "no round differs"


@pytest.mark.parametrize(
    "aggregate", [pytest.param("parameters", marks=pytest.mark.slow), "gradients"]
)
def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, aggregate: str) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    here(command(whole, aggregate))
    at = random.SystemRandom().randint(1, 45)
    process = start(command(cut, aggregate))
    wait_for_round(process, cut, at)
    process.send_signal(signal.SIGKILL)
    finish(process, -signal.SIGKILL)
    assert not (cut / "result.json").exists(), f"killed at round {at}, and yet there is a result"
    here(["run", "--resume", str(cut)])
    about = f"killed at round {at}; {first_difference(cut, whole)}"
    assert figures(cut) == figures(whole), about
    ours, theirs = ((folder / "model.safetensors").read_bytes() for folder in (cut, whole))
    assert ours == theirs, about
    rounds = [row["round"] for row in read_history(cut / "history.jsonl")]
    assert rounds == list(range(1, 61))


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [word.replace("rounds=60", "rounds=100000") for word in command(out, "gradients")]
    process = start(words)
    wait_for_round(process, out, 3)
    process.send_signal(signal.SIGINT)
    said = finish(process, 130)
    assert f"autofgl run --resume {out}" in said
    assert "Traceback" not in said
    assert not (out / "result.json").exists()
    before = len(read_history(out / "history.jsonl"))
    here(["run", "--resume", str(out), "--budget", "1s"])
    assert "budget" in (out / "result.json").read_text()
    assert len(read_history(out / "history.jsonl")) >= before


@pytest.mark.slow
def test_a_killed_study_goes_on_and_equals_an_undisturbed_one(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    words = ["run", "asfgnn", "--dataset", "synthetic", "--clients", "3", "--set", "nodes=300"]
    words += ["trials=6", "trial_rounds=8", "rounds=8", "startup=3", "tune_hidden=16", "hidden=16"]
    words += ["checkpoint_every=5", "collect_models=true", "joint=false"]
    finish(start([*words, "--out", str(whole)]), 0)
    at = random.SystemRandom().randint(9, 45)
    process = start([*words, "--out", str(cut)])
    wait_for_round(process, cut, at)
    process.send_signal(signal.SIGKILL)
    finish(process, -signal.SIGKILL)
    trials = (at - 1) // 8
    rows = read_history(cut / "history.jsonl")
    before = [row["wall_s"] for row in rows if row.get("trial", 99) <= trials]
    finish(start(["run", "--resume", str(cut)]), 0)
    ours, theirs = ((folder / "model.safetensors").read_bytes() for folder in (cut, whole))
    assert ours == theirs, f"killed at round {at}"
    assert figures(cut)["top"] == figures(whole)["top"], f"killed at round {at}"
    after = [row["wall_s"] for row in read_history(cut / "history.jsonl")][: len(before)]
    assert after == before, "trials that were over were not repeated"


@pytest.mark.slow
def test_a_killed_leaderboard_goes_on_and_equals_an_undisturbed_one(tmp_path: Path) -> None:
    """Finished cells are kept, the one that was killed resumes, and the signed rows are right."""
    words = ["leaderboard", "separate", "fedavg:sharing=personal", "--datasets", "synthetic"]
    words += ["--partitions", "metis", "--clients", "3", "--seeds", "2", "--sign"]
    words += [str(tmp_path / "key.pem"), "--set", "nodes=300", "rounds=40", "checkpoint_every=5"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    finish(start([*words, "--out", str(whole)]), 0)
    process = start([*words, "--out", str(cut)])
    cells = cut / "synthetic-metis"
    wait_for_round(process, cells / "fedavg_sharing=personal" / "seed-0", 12)
    process.send_signal(signal.SIGKILL)
    finish(process, -signal.SIGKILL)
    kept = (cells / "separate" / "seed-0" / "result.json").read_bytes()
    finish(start([*words, "--out", str(cut)]), 0)
    assert (cells / "separate" / "seed-0" / "result.json").read_bytes() == kept
    finish(start(["leaderboard", "--verify", "--out", str(cut)]), 0)

    def rows(out: Path) -> list[dict[str, object]]:
        loose = {"wall_s", "bytes", "bytes_up", "bytes_down", "digest", "signature"}
        every = json.loads((out / "leaderboard.json").read_text())["rows"]
        return [{key: row[key] for key in row if key not in loose} for row in every]

    assert rows(cut) == rows(whole)
    assert len(rows(cut)) == 4
