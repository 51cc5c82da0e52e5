"""The run folder, and its lock: one process at a time works in it."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autofgl.atomic import write_bytes
from autofgl.errors import RunFolderError, UserError
from autofgl.runs.folder import LOCK_FILE, RunFolder, locked


def test_a_run_is_created_once(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "a" / "run", {"method": "fedavg", "seed": 3})
    assert RunFolder.open(folder.path).read_config() == {"method": "fedavg", "seed": 3}
    assert not folder.finished
    with pytest.raises(UserError, match=r"holds another run.*--resume"):
        RunFolder.create(folder.path, {})


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"):
        RunFolder.create(tmp_path, {})
    with pytest.raises(UserError, match="not an empty folder"):
        RunFolder.create(tmp_path / "thesis.txt", {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        RunFolder.open(tmp_path)
    (tmp_path / "config.yaml").write_text("- 1\n")
    with pytest.raises(UserError, match="not a configuration"):
        RunFolder.open(tmp_path).read_config()
    with pytest.raises(UserError, match="not finished"):
        RunFolder.open(tmp_path).read_result()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_bytes(path, b"old")
    with pytest.raises(TypeError):
        write_bytes(path, None)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_a_deleted_folder_is_said_in_one_line(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.require()
    with pytest.raises(ZeroDivisionError), folder.guarded():
        _ = 1 / 0
    (tmp_path / "run" / "config.yaml").unlink()
    for error in (FileNotFoundError(2, "No such file"), ZeroDivisionError()):
        with pytest.raises(RunFolderError, match="was deleted or moved"), folder.guarded():
            raise error


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    with pytest.raises(RunFolderError, match=r"cannot write to .*run: No space"), folder.guarded():
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ConnectionResetError), folder.guarded():
        raise ConnectionResetError(errno.ECONNRESET, "not the folder's fault")


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
