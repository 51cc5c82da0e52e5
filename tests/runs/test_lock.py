import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autofgl.errors import UserError
from autofgl.runs.folder import LOCK_FILE, RunFolder, locked


def test_a_second_one_is_told_who_has_it(tmp_path: Path) -> None:
    with locked(tmp_path):
        message = rf"in use by another run \(process {os.getpid()} on host .*\): wait"
        with pytest.raises(UserError, match=message), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir()), "a folder that nobody uses has no lock in it"


def test_a_killed_process_has_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from autofgl.runs.folder import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-P", "-c", code, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=rf"process {holder.pid} on"), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(30)
    assert (tmp_path / LOCK_FILE).exists()
    with locked(tmp_path):
        pass


def test_a_disk_without_locks_is_used_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^cannot write to [^\n]*$"), locked(tmp_path / "file"):
        pass


def test_a_folder_with_a_lock_is_still_empty(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    RunFolder.create(tmp_path, {"method": "fedavg"})
    assert RunFolder.open(tmp_path).read_config() == {"method": "fedavg"}
