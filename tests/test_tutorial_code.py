"""The code of the tutorials for researchers, run as it is written."""

import json
import os
import re
import runpy
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from autofgl.cli import main
from autofgl.runtime.rounds import RoundEngine

DOCS = Path(__file__).parents[1] / "docs" / "tutorials"
DATA = ["--dataset", "synthetic", "--set", "nodes=150", "classes=3", "features=20"]
TRIALS = ["candidates=4", "candidate_rounds=3", "finalists=1", "rounds=4", "hidden=8", "tune=2"]


def code(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return int(stopped.value.code or 0)


def weights(folder: Path) -> dict[str, Any]:
    return safetensors.numpy.load((folder / "model.safetensors").read_bytes())


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)


def interrupt_after(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the midst of the run."""
    step = RoundEngine.step
    made = 0

    def stepped(engine: RoundEngine) -> dict[str, Any]:
        nonlocal made
        made += 1
        if made == rounds:
            os.kill(os.getpid(), signal.SIGINT)
        return step(engine)

    monkeypatch.setattr(RoundEngine, "step", stepped)


@pytest.fixture
def fedprox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page's file, in the working directory."""
    (tmp_path / "fedprox.py").write_text(code("add-a-method.md")[0])
    monkeypatch.chdir(tmp_path)
    return "fedprox.py:FedProx"


def test_the_method_fits_on_a_page() -> None:
    assert len(code("add-a-method.md")[0].splitlines()) <= 60


def test_a_pairing_takes_thirty_lines() -> None:
    sizes = [len(block.splitlines()) for block in code("new-pairing.md")]
    assert len(sizes) == 2
    assert max(sizes) <= 30


def test_fedprox_with_secure_sums_resume_and_report(
    fedprox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [fedprox, *DATA, "rounds=6", "mu=0.5", "--secure", "shares", "--out"]
    assert run("run", *words, "whole") == 0
    assert Path("whole/report.html").is_file()
    assert json.loads(Path("whole/result.json").read_text())["hyperparameters"]["mu"] == 0.5
    interrupt_after(3, monkeypatch)
    assert run("run", *words, "part") != 0
    assert not Path("part/result.json").exists()
    assert run("run", "--resume", "part") == 0
    assert same(weights(Path("whole")), weights(Path("part")))


def test_fedprox_without_its_term_is_federated_averaging(fedprox: str) -> None:
    settings = [*DATA, "rounds=5", "--out"]
    assert run("run", fedprox, "--set", "mu=0", *settings, "prox") == 0
    assert run("run", "fedavg", "--set", "aggregate=parameters", *settings, "avg") == 0
    assert same(weights(Path("prox")), weights(Path("avg")))
    assert run("run", fedprox, "--set", "mu=5", *settings, "near") == 0
    assert not same(weights(Path("near")), weights(Path("avg")))


@pytest.mark.slow
def test_fedprox_over_nvflare(fedprox: str) -> None:
    words = [fedprox, *DATA, "rounds=3", "--clients", "2", "--out"]
    assert run("run", *words, "here") == 0
    assert run("run", *words, "sites", "--engine", "nvflare") == 0
    assert same(weights(Path("here")), weights(Path("sites")))


def test_a_model_and_a_metric_of_ones_own_in_sixty_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a script, and its class from the command line, with fewer rounds."""
    [text] = code("bring-your-own.md")
    assert len(text.splitlines()) <= 60
    monkeypatch.chdir(tmp_path)
    Path("my_net.py").write_text(text.replace("rounds=60", "rounds=15"))
    runpy.run_path("my_net.py", run_name="__main__")
    accuracy, f1 = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert accuracy > 0.4
    assert f1 > 0.3
    words = ["fedavg", "--model", "my_net.py:ResidualSAGE", *DATA, "rounds=2", "hidden=8"]
    assert run("run", *words, "--secure", "shares", "--out", "cli") == 0
    assert "norms.0.running_mean" in weights(Path("cli"))


@pytest.mark.parametrize(
    ("block", "name", "secure"),
    [
        pytest.param(0, "TunedFedAvg", "none", marks=pytest.mark.slow),
        (0, "TunedFedAvg", "shares"),
        (1, "PersonalEvolution", "shares"),
    ],
)
def test_a_pairing_runs_and_resumes(
    block: int, name: str, secure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pairing.py").write_text(code("new-pairing.md")[block])
    monkeypatch.chdir(tmp_path)
    words = [f"pairing.py:{name}", *DATA, *TRIALS, "--secure", secure, "--out"]
    assert run("run", *words, "whole") == 0
    interrupt_after(8, monkeypatch)
    assert run("run", *words, "part") != 0
    assert run("run", "--resume", "part") == 0
    assert same(weights(Path("whole")), weights(Path("part")))
    result = json.loads(Path("whole/result.json").read_text())
    assert len(result["top"]) <= 4 + 2, "and other settings for the best"
    assert result["candidates"] == 4
    if name == "PersonalEvolution":
        assert result["finalists"][0]["recipe"].startswith("personal: ")
        assert {"common_test_accuracy", "common_val_accuracy"} <= result.keys()
    else:
        assert "lr=" in result["finalists"][0]["recipe"]
