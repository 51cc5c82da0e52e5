import errno
from pathlib import Path

import pytest

from autofgl.atomic import write_bytes
from autofgl.errors import RunFolderError, UserError
from autofgl.runs.folder import RunFolder


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
