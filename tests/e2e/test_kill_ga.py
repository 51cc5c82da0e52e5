"""Clients that search in processes of their own, killed in the midst of it and resumed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_kill import figures, finish, start, wait_for_round

pytestmark = pytest.mark.cores

SMALL = ["nodes=200", "rounds=6", "checkpoint_every=2", "population=3", "iterations=2"]
SMALL += ["inner_steps=1", "adapt_steps=1", "hidden=4", "participation=0.7"]
MODES = {
    "continuous": ["mode=continuous"],
    "threshold": ["mode=threshold", "threshold=1"],
    "parallel": ["mode=parallel", "adopt_after=1"],
}


def command(out: Path, *settings: str) -> list[str]:
    words = ["run", "graphfl-ga", "--dataset", "synthetic", "--clients", "3", "--seed", "3"]
    return [*words, "--set", *SMALL, *settings, "--out", str(out)]


def until(ready: Callable[[], object], what: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.01)


def searching(parent: int) -> set[int]:
    """Processes of that parent that search."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            owner = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has just ended
        if owner == parent and b"autofgl.workers" in words:
            found.add(int(folder.name))
    return found


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("continuous", marks=pytest.mark.slow),
        pytest.param("threshold", marks=pytest.mark.slow),
        pytest.param("parallel", marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, mode: str) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    finish(start(command(whole, *MODES[mode])), 0)
    process = start(command(cut, *MODES[mode]))
    wait_for_round(process, cut, 3)
    children = searching(process.pid)
    assert bool(children) == (mode == "parallel")
    process.send_signal(signal.SIGKILL)
    finish(process, -signal.SIGKILL)
    assert not (cut / "result.json").exists()
    until(lambda: not any(map(alive, children)), "the end of all processes")
    finish(start(["run", "--resume", str(cut)]), 0)
    assert figures(cut) == figures(whole)
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_search_ends_with_its_parent(tmp_path: Path) -> None:
    """In the midst of a search that would take hours, while the training never waits for it."""
    words = command(tmp_path / "run", "mode=parallel", "population=500", "iterations=1000")
    words[words.index("rounds=6")] = "rounds=100000"
    process = start(words)
    children: set[int] = set()

    def busy() -> bool:
        children.update(searching(process.pid))
        return bool(children) and any(map(has_worked, children))

    try:
        until(busy, "a search")
        wait_for_round(process, tmp_path / "run", 5)
        process.send_signal(signal.SIGKILL)
        finish(process, -signal.SIGKILL)
        until(lambda: not any(map(alive, children)), "the end of all processes")
    finally:
        process.kill()


def has_worked(pid: int, seconds: float = 1.0) -> bool:
    """Whether a process has used so much of a core: it has read its message and searches."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    ticks = int(subprocess.run(["getconf", "CLK_TCK"], capture_output=True, check=True).stdout)
    return (int(fields[11]) + int(fields[12])) / ticks > seconds


@pytest.mark.slow
def test_a_run_that_ends_leaves_no_process(tmp_path: Path) -> None:
    words = command(tmp_path / "run", "mode=parallel", "population=500", "iterations=1000")
    process = start(words)
    children: set[int] = set()
    while process.poll() is None:
        children |= searching(process.pid)
        time.sleep(0.02)
    finish(process, 0)
    assert children, "a search was begun"
    until(lambda: not any(map(alive, children)), "the end of all processes")
