"""Disks that are full, folders that cannot be written: always one line, and nothing is lost."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import autofgl
from autofgl.atomic import write_text
from autofgl.errors import AutoFGLError, DiskError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs.folder import RunFolder, read_history


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have every write beyond a size fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [100, 1500, 4000])
def test_a_full_disk_ends_a_run_in_one_line_and_it_goes_on(
    small_clients: list[ClientGraph], out: Path, size: int
) -> None:
    """The first file that is too large is the configuration, a checkpoint, the history."""
    settings = {"rounds": 40, "hidden": 4, "checkpoint_every": 100 if size == 4000 else 1}
    with pytest.raises(AutoFGLError, match=r"^[^\n]*File too large[^\n]*$"), largest_file(size):
        autofgl.run("fedavg", small_clients, out=out, **settings)
    assert not list(out.glob(".*")), "no half file, no lock"
    if RunFolder(out).config.exists():
        whole = autofgl.run("fedavg", small_clients, out=out.with_name("whole"), **settings)
        assert autofgl.resume(out, small_clients).test_accuracy == whole.test_accuracy
        rounds = [row["round"] for row in read_history(out / "history.jsonl")]
        assert rounds == list(range(1, 41))


def test_files_that_cannot_be_written_say_which_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=r"^cannot write .*file/a: .*has room$"):
        write_text(tmp_path / "file" / "a", "")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match=r"^cannot write .*/b: No space left on device: make"):
        write_text(tmp_path / "b", "")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1_000, 20_000])
def test_the_command_line_says_one_line(tmp_path: Path, size: int) -> None:
    out = tmp_path / "run"
    words = ["run", "fedavg", "--dataset", "synthetic", "--set", "nodes=200", "rounds=300"]
    program = [sys.executable, "-P", "-c", "from autofgl.cli import main; main()"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *more], capture_output=True, text=True, timeout=300, check=False
        )

    with largest_file(size):
        ended = run(*words, "--out", str(out))
    assert ended.returncode in (1, 2)
    assert "Traceback" not in ended.stderr
    assert ended.stderr.startswith("autofgl: cannot write")
    assert ended.stderr.count("\n") == 1
    assert ended.returncode != -signal.SIGXFSZ
    if (out / "config.yaml").exists():
        assert run("run", "--resume", str(out)).returncode == 0
