"""Methods outside the package: from a file, from a module, or a class that is handed over."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import autofgl
from autofgl.cli import main
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method

FILE = """
import autofgl
from autofgl.methods.catalog import find_method

class Mine(find_method("fedavg")):
    summary = "mine"

class Other:
    pass
"""

#: A script that is not guarded against being run a second time.
SCRIPT = (
    FILE
    + """
print("the script runs")
graph = autofgl.load("synthetic", settings=autofgl.graphs.catalog.DataSettings(nodes=100))
clients = autofgl.partition(graph, clients=2, method="random")
result = autofgl.run(Mine, clients, out="run", rounds=2, hidden=8)
print(result.figures["method"])
"""
)

SMALL = ["--dataset", "synthetic", "--set", "nodes=100", "rounds=2", "hidden=8"]


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    code = stopped.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_method_in_a_file_runs_and_resumes_from_anywhere(
    file: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(file.parent)
    assert call("run", "mine.py:Mine", *SMALL, "--out", str(out)) == 0
    assert "Mine: test accuracy" in capsys.readouterr().out
    text = f"{file}:Mine"
    assert yaml.safe_load((out / "config.yaml").read_text())["method"] == text
    assert json.loads((out / "result.json").read_text())["method"] == text
    (out / "result.json").unlink()
    monkeypatch.chdir("/")
    assert call("run", "--resume", str(out)) == 0
    assert call("methods", text) == 0
    assert "participation" in capsys.readouterr().out


def test_a_method_in_a_module_is_named_by_it(
    file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.rename(file.with_name("some_module_of_mine.py"))
    monkeypatch.syspath_prepend(str(file.parent))
    assert call("run", "some_module_of_mine:Mine", *SMALL, "--out", str(out)) == 0
    assert json.loads((out / "result.json").read_text())["method"] == "some_module_of_mine:Mine"


def test_a_run_without_a_folder_of_its_own_is_named_after_the_class(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert call("run", "mine.py:Mine", *SMALL) == 0
    [folder] = (file.parent / "runs").iterdir()
    assert folder.name.startswith("Mine-synthetic-seed0-")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("absent.py:Mine", "there is no file"),
        ("mine.py:Absent", "has no 'Absent'"),
        ("mine.py:Other", "is not a method: derive it from autofgl.Method"),
        ("broken.py:Mine", "ZeroDivisionError"),
        ("absent_module:Mine", "No module named 'absent_module'"),
    ],
)
def test_mistakes_are_said_in_one_line(
    method: str,
    message: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(file.parent)
    file.with_name("broken.py").write_text("1 / 0\n")
    assert call("run", method, *SMALL) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (file.parent / "runs").exists()


def test_a_class_is_handed_over(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    ours = autofgl.run(find_method("fedavg"), small_clients, out=tmp_path / "a", rounds=2)
    assert ours.figures["method"] == "fedavg"

    class Local(find_method("fedavg")):  # type: ignore[misc]
        pass

    with pytest.raises(UserError, match="lives in no module"):
        autofgl.run(Local, small_clients, out=tmp_path / "b")


@pytest.mark.slow
def test_a_class_of_a_script_is_named_by_its_file_and_the_script_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["the script runs", f"{script}:Mine"]
