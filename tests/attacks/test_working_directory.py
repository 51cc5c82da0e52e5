"""Files in the working directory that are called like modules: no process of ours runs them.

Whoever may write into a folder in which somebody starts a run, or into a kit, could otherwise run
code as that user: `python -m` looks there first.
"""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import autofgl
from autofgl.federation.engines.nvflare import processes
from autofgl.workers import WorkerPool

SOURCE = Path(autofgl.__file__).parent
#: Modules that our processes import early.
NAMES = ("shutil", "json", "tempfile", "socket", "signal", "struct", "typing", "yaml", "numpy",
         "autofgl", "nvflare", "logging", "sitecustomize")  # fmt: skip


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, full of modules that leave a trace when they are imported."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in NAMES:
        trace = tmp_path / f"{name}.ran"
        (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path


def ran(trap: Path) -> list[str]:
    return sorted(path.name for path in trap.glob("*.ran"))


def test_the_trap_works(trap: Path) -> None:
    subprocess.run([sys.executable, "-m", "shutil"], check=False, capture_output=True)
    assert ran(trap) == ["shutil.ran"]


def test_the_reaper_runs_nothing_from_here(trap: Path, tmp_path: Path) -> None:
    """It ended in `shutil.py` of the working directory, and cleaned up nothing."""
    kits = tmp_path / "kits"
    kits.mkdir()
    reaper = processes.start_reaper(kits)
    reaper.communicate(timeout=60)
    assert reaper.returncode == 0
    assert ran(trap) == []
    assert not kits.exists()


def test_workers_run_nothing_from_here(trap: Path) -> None:
    pool = WorkerPool("worker_tasks:double", 1)
    # An empty part of PYTHONPATH would be the working directory.
    given = filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    path = os.pathsep.join(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        try:
            pool.submit(b"ab").result(60)
        finally:
            pool.close()
    assert ran(trap) == []


def test_a_kit_runs_nothing_that_lies_in_it(trap: Path, tmp_path: Path) -> None:
    """A kit is the working directory of its processes, and of those that NVFlare starts."""
    pytest.importorskip("nvflare")
    kit = tmp_path / "kit"
    (kit / "transfer").mkdir(parents=True)
    for file in Path.cwd().iterdir():
        (kit / file.name).write_bytes(file.read_bytes())
    child = processes.start_kit(kit)  # it is no whole kit, so that NVFlare says so and ends
    try:
        deadline = time.monotonic() + 120
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        processes.stop_kits(kit)
        child.wait()
    assert "nvflare" in (kit / "console.txt").read_text(), "it was NVFlare that ran"
    assert ran(trap) == []


def test_every_python_that_is_started_has_p() -> None:
    """No call of the interpreter without `-P`, wherever it comes to be written."""
    started = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple) and any(map(_is_python, node.elts)):
                words = [one.value for one in node.elts if isinstance(one, ast.Constant)]
                assert words[0] == "-P", f"{path}:{node.lineno}"
                started += 1
    assert started >= 3


def _is_python(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "executable"
