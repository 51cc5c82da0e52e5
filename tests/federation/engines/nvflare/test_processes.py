"""Processes of kits are found by their command line, and none is left over."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from autofgl.federation.engines.nvflare.processes import running, stop_kits


def pretend(kit: Path, stubborn: bool = False) -> "subprocess.Popen[bytes]":
    """A process whose command line looks like that of a kit."""
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if stubborn else ""
    code = f"{ignore}import time; print(flush=True); time.sleep(60)"
    words = [sys.executable, "-c", code, "nvflare.pretend", "-m", str(kit)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_a_kits_own_processes_are_ended(tmp_path: Path) -> None:
    mine, other = pretend(tmp_path / "a"), pretend(tmp_path / "ab")
    stubborn = pretend(tmp_path / "a" / "job", stubborn=True)
    try:
        assert sorted(running(tmp_path / "a")) == sorted([mine.pid, stubborn.pid])
        stop_kits(tmp_path / "a", patience=0.3)
        assert not running(tmp_path / "a")
        assert running(tmp_path / "ab") == [other.pid]
    finally:
        for process in (mine, other, stubborn):
            process.kill()
            process.wait()


def test_a_killed_coordinator_leaves_neither_processes_nor_keys(tmp_path: Path) -> None:
    folder = tmp_path / "kits"
    (folder / "server").mkdir(parents=True)
    (folder / "server" / "server.key").touch()
    server = pretend(folder / "server")
    code = (
        "import sys, time; from pathlib import Path; "
        "from autofgl.federation.engines.nvflare.processes import start_reaper; "
        f"kept = start_reaper(Path({str(folder)!r})); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as coordinator:
        assert coordinator.stdout is not None
        coordinator.stdout.readline()
        assert running(folder / "server") == [server.pid]
        coordinator.kill()
    until(lambda: not folder.exists())
    assert not running(folder / "server")
    server.wait()
