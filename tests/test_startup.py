"""The command line answers at once: no torch, and for most mistakes no NumPy, is imported."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from autofgl.methods.catalog import METHODS

#: What may not be imported before everything about the command line is validated.
HEAVY = ("torch", "torch_geometric", "scipy.stats", "sknetwork", "optuna", "nvflare", "tenseal")

PROGRAM = """
import sys
from autofgl.cli import main
try:
    main()
finally:
    print(*sys.modules, file=open("modules.txt", "w"))
"""

ANSWERS = [["--help"], [], ["run", "--help"], ["site", "--help"], ["methods"], ["datasets"]]
ANSWERS += [
    ["audit", "--help"],
    ["methods", "fedavg"],
    ["reproduce", "--help"],
    ["reproduce", "list"],
]

#: Mistakes that are answered without NumPy.
MISTAKES = [
    (["run"], "name a method"),
    (["rnu"], "rnu"),
    (["run", "fedavgg"], "did you mean fedavg"),
    (["run", "fedavg", "--secure", "ckks", "--method", "x"], "--method"),
    (["run", "absent.py:Mine"], "there is no file"),
    (["run", "fedavg", "--dataset", "corra"], "did you mean cora"),
    (["run", "fedavg", "--partition", "metiss"], "did you mean metis"),
    (["run", "fedavg", "--secure", "rot13"], "unknown secure mode 'rot13'"),
    (["run", "separate", "--secure", "shares"], "sums nothing that --secure shares could protect"),
    (["run", "fedavg", "--engine", "carrier-pigeon"], "unknown engine"),
    (["run", "fedavg", "--set", "hiden=3"], "did you mean hidden"),
    (["run", "fedavg", "--set", "lr=fast"], "setting lr=fast"),
    (["run", "fedavg", "--set", "dropout=1.5"], "setting dropout=1.5"),
    (["run", "fedavg", "--set", "nodes=5"], "needs --dataset synthetic"),
    (["run", "fedavg", "--set", "lr"], "--set takes key=value"),
    (["run", "fedavg", "--clients", "many"], "--clients"),
    (["run", "fedavg", "--clients", "0"], "clients=0"),
    (["run", "fedavg", "--budget", "soon"], "duration"),
    (["run", "fedavg", "--budgte", "3"], "--budget"),
    (["run", "fedavg", "--dataset", "cora", "--graphs", "broken.npz"], "either --dataset or"),
    (["run", "fedavg", "--graphs", "absent.npz"], "absent.npz"),
    (["run", "fedavg", "--config", "absent.yaml"], "absent.yaml"),
    (["run", "fedavg", "--out", "."], "not an empty folder"),
    (["run", "--resume", "absent"], "holds no run"),
    (["run", "fedgraph", "--graphs", "broken.npz", "--set", "server_shar=0.1"], "server_share"),
    (["predict", "absent", "--graph", "broken.npz"], "absent"),
    (["diagnose", "absent"], "holds no run"),
    (["audit"], "target"),
    (["audit", "fedavgg"], "did you mean fedavg"),
    (["audit", "fedavg", "--set", "hiden=3"], "did you mean hidden"),
    (["audit", "fedavg", "--rounds", "0"], "--rounds"),
    (["audit", "."], "holds no run"),
    (["methods", "fedavgg"], "did you mean fedavg"),
    (["report", "absent"], "holds no run"),
    (["watch", "absent"], "holds no run"),
    (["watch", "absent", "--port", "x"], "--port"),
    (["compare", "fedavgg"], "did you mean fedavg"),
    (["compare", "fedavg"], "two methods at least"),
    (["compare", "fedavg", "separate", "--set", "hiden=3"], "hidden"),
    (["compare", "fedavg", "separate", "--seeds", "0"], "--seeds 0"),
    (["compare", "fedavg", "separate", "--graphs", "absent.npz"], "absent.npz"),
    (["reproduce", "fl-agcns-tabel3"], "did you mean fl-agcns-table3"),
    (["reproduce", "fl-agcns-table3", "--datasets", "corra"], "did you mean cora"),
    (["reproduce", "fedgraph-fig7", "--rows", "sgae"], "did you mean sage"),
    (["site", "provision", "absent.yaml"], "absent.yaml"),
    (["site", "submit"], "--resume DIR"),
    (["site", "submit", "absent.yaml"], "absent.yaml"),
    (["site", "submit", "--resume", "absent"], "holds no run"),
]

#: Mistakes that only the graphs show: NumPy and SciPy's sparse matrices, no torch.
IN_GRAPHS = [
    (["run", "fedavg", "--graphs", "broken.npz"], "broken.npz"),
    (["run", "fedavg", "--clients", "3000"], "2708 nodes"),
]

#: Names of layers and networks, and settings of searches: NumPy, no torch.
IN_NETWORKS = [
    (["run", "fl-agcns", "--set", "types=gnc"], "unknown layer type 'gnc'"),
    (["run", "fedavg", "--set", "model=gnc"], "unknown model 'gnc'"),
    (["run", "graphfl-ga", "--set", "lr=fast"], "setting lr=fast"),
    (["run", "asfgnn", "--set", "lr=fast"], "setting lr=fast"),
    (["run", "sfgnn", "--set", "lr=fast"], "setting lr=fast"),
    (["site", "server", "--kit", "absent"], "absent is no kit"),
    (["site", "join", "--graph", "absent.npz", "--kit", "absent"], "absent is no kit"),
    (["site", "status", "--kits", "absent"], "absent/server is no kit"),
]


def answer(words: list[str], folder: Path) -> tuple[int, str, set[str]]:
    """Exit code, what stands on stderr, and the modules that were imported."""
    (folder / "broken.npz").write_bytes(b"PK\x03\x04 not really")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-c", PROGRAM, *words]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(f"{seconds:.2f} s of CPU: autofgl {' '.join(words)}")
    modules = set((folder / "modules.txt").read_text().split())
    (folder / "modules.txt").unlink()
    assert [path.name for path in folder.iterdir()] == ["broken.npz"], "nothing is left behind"
    return done.returncode, done.stderr, modules


def check_mistake(code: int, error: str, message: str) -> None:
    assert code == 2
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("autofgl: ")
    assert message in error


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_help_and_lists_come_at_once(words: list[str], tmp_path: Path) -> None:
    code, error, modules = answer(words, tmp_path)
    assert (code, error) == (0, "")
    assert not modules & {*HEAVY, "numpy"}


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=str)
def test_mistakes_are_answered_at_once(words: list[str], message: str, tmp_path: Path) -> None:
    code, error, modules = answer(words, tmp_path)
    check_mistake(code, error, message)
    assert not modules & {*HEAVY, "numpy"}


@pytest.mark.parametrize(("words", "message"), IN_GRAPHS + IN_NETWORKS, ids=str)
def test_mistakes_in_graphs_and_networks_need_no_torch(
    words: list[str], message: str, tmp_path: Path
) -> None:
    code, error, modules = answer(words, tmp_path)
    check_mistake(code, error, message)
    assert not modules & set(HEAVY)


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_of_every_method_need_no_torch(method: str, tmp_path: Path) -> None:
    code, error, modules = answer(["methods", method], tmp_path)
    assert (code, error) == (0, "")
    assert not modules & set(HEAVY)


def test_resuming_with_another_configuration_is_refused_at_once(tmp_path: Path) -> None:
    run = tmp_path / "old" / "run"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("method: fedavg\ndataset: cora\n")
    here = tmp_path / "here"
    here.mkdir()
    code, error, modules = answer(["run", "separate", "--resume", str(run)], here)
    check_mistake(code, error, "keeps its configuration")
    assert not modules & {*HEAVY, "numpy"}
