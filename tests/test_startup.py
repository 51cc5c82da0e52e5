"""The command line answers at once: no torch, and for most mistakes no NumPy, is imported."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autofgl.methods.catalog import METHODS

#: What may not be imported before everything about the command line is validated.
HEAVY = ("torch", "torch_geometric", "scipy.stats", "sknetwork", "optuna", "nvflare", "tenseal")

#: Answers commands, each in a fork of its own: what most of them import is imported once, before,
#: and counts as imported by all of them. It says how a command ended, what it printed as an error,
#: and which modules it had in the end.
PROGRAM = """
import json, os, sys
import autofgl.api, autofgl.config, autofgl.methods.catalog, autofgl.runs.budget
import autofgl.runtime.settings, autofgl.tasks.objectives, pydantic, typer, yaml
from autofgl.cli import main

def run(words, folder):
    os.chdir(folder)
    sys.argv = ["autofgl", *words]
    for number, name in ((1, "out.txt"), (2, "err.txt")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    sys.stdout.flush(), sys.stderr.flush()
    open("modules.txt", "w").write(" ".join(sys.modules))
    os._exit(code)

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(*json.loads(line))
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    print(json.dumps([os.waitstatus_to_exitcode(status), seconds]), flush=True)
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
    (["import", "n.csv", "e.csv", "--as", "size"], "--as takes COLUMN=KIND"),
    (["import", "n.csv", "e.csv", "--out", "g.csv"], "written as .npz"),
    (["export", "absent"], "holds no run"),
    (["export", "absent", "--format", "tflite"], "choose from onnx, torch"),
    (["predict", "absent"], "give either --graph FILE, or --nodes"),
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


Answer = Callable[[list[str], Path], tuple[int, str, set[str]]]


@pytest.fixture(scope="module")
def answer() -> Iterator[Answer]:
    """Exit code, what stands on stderr, and the modules that were imported."""
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "COLUMNS": "200"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    asked, answers = server.stdin, server.stdout

    def ask(words: list[str], folder: Path) -> tuple[int, str, set[str]]:
        (folder / "broken.npz").write_bytes(b"PK\x03\x04 not really")
        print(json.dumps([words, str(folder)]), file=asked, flush=True)
        code, seconds = json.loads(answers.readline())
        print(f"{seconds:.2f} s of CPU: autofgl {' '.join(words)}")
        files = {name: folder / f"{name}.txt" for name in ("out", "err", "modules")}
        texts = {name: file.read_text() for name, file in files.items()}
        for file in files.values():
            file.unlink()
        assert [path.name for path in folder.iterdir()] == ["broken.npz"], "nothing is left behind"
        return code, texts["err"], set(texts["modules"].split())

    with server:
        yield ask
        asked.close()


def check_mistake(code: int, error: str, message: str) -> None:
    assert code == 2
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("autofgl: ")
    assert message in error


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_help_and_lists_come_at_once(words: list[str], answer: Answer, tmp_path: Path) -> None:
    code, error, modules = answer(words, tmp_path)
    assert (code, error) == (0, "")
    assert not modules & {*HEAVY, "numpy"}


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=str)
def test_mistakes_are_answered_at_once(
    words: list[str], message: str, answer: Answer, tmp_path: Path
) -> None:
    code, error, modules = answer(words, tmp_path)
    check_mistake(code, error, message)
    assert not modules & {*HEAVY, "numpy"}


@pytest.mark.parametrize(("words", "message"), IN_GRAPHS + IN_NETWORKS, ids=str)
def test_mistakes_in_graphs_and_networks_need_no_torch(
    words: list[str], message: str, answer: Answer, tmp_path: Path
) -> None:
    code, error, modules = answer(words, tmp_path)
    check_mistake(code, error, message)
    assert not modules & set(HEAVY)


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_of_every_method_need_no_torch(
    method: str, answer: Answer, tmp_path: Path
) -> None:
    code, error, modules = answer(["methods", method], tmp_path)
    assert (code, error) == (0, "")
    assert not modules & set(HEAVY)


def test_resuming_with_another_configuration_is_refused_at_once(
    answer: Answer, tmp_path: Path
) -> None:
    run = tmp_path / "old" / "run"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("method: fedavg\ndataset: cora\n")
    here = tmp_path / "here"
    here.mkdir()
    code, error, modules = answer(["run", "separate", "--resume", str(run)], here)
    check_mistake(code, error, "keeps its configuration")
    assert not modules & {*HEAVY, "numpy"}


@pytest.mark.parametrize("words", [["--help"], ["run", "fedavgg"]], ids=" ".join)
def test_a_process_of_its_own_answers_within_a_second_of_cpu(words: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-c", "from autofgl.cli import main; main()", *words]
    done = subprocess.run(program, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == (2 if words[0] == "run" else 0)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert used < 1.5, f"{used:.2f} s of CPU"  # with room for a busy machine
