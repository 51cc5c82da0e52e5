from pathlib import Path

import pytest

from autofgl.atomic import write_bytes
from autofgl.errors import UserError
from autofgl.runs.folder import RunFolder
from autofgl.runs.history import History, read_history


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


def test_history_keeps_rows_up_to_a_round(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = History(path)
    for at in (1, 2, 3):
        history.append({"round": at, "loss": 1 / at})
    history.close()
    with path.open("a") as file:
        file.write('{"round": 4, "lo')  # killed in the middle of a line
    assert [row["round"] for row in read_history(path)] == [1, 2, 3]
    again = History(path, keep_until=2)
    again.append({"round": 3, "loss": 0.0})
    again.close()
    assert [row["loss"] for row in read_history(path)] == [1.0, 0.5, 0.0]
