"""Every method has an example, and every example runs as it is."""

import runpy
from pathlib import Path

import pytest

from autofgl.methods.catalog import METHODS
from families import family

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("method", family(METHODS, {"fedavg", "separate", "graphfl", "auto"}))
def test_an_example_of_every_method_runs(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXAMPLES / f"{method.replace('-', '_')}.py"
    assert f'"{method}",' in path.read_text()
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr().out
    assert "test accuracy" in shown
    report = shown.rsplit("report: ", 1)[1].strip()
    assert (tmp_path / report).is_file()
