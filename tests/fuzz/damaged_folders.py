"""Run folders with one random damage each: ``python tests/fuzz/damaged_folders.py 2000``.

A set of tiny runs is made, each to its end and stopped on the way. A copy of one is damaged (cut,
flipped, emptied, deleted, replaced by a folder or by a file of another round, party or run), then
resumed, reported on, and its model loaded. What may come of it: the very weights of the run without
damage, or one line that says what is wrong. Never other weights, never a traceback.
"""

import io
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import autofgl
from autofgl.errors import AutoFGLError, Interrupted
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.report.report import write_report
from autofgl.runs import loop
from autofgl.runs.export import load_model, read_description

TINY: dict[str, dict[str, Any]] = {
    "fedavg": {"rounds": 6, "hidden": 4},
    "fedavg:parameters": {"rounds": 6, "hidden": 4, "aggregate": "parameters"},
    "graphfl": {"rounds": 4, "hidden": 4, "inner_steps": 1, "adapt_steps": 1},
    "sfgnn": {"rounds": 4, "hidden": 4, "collect_models": True},
    "fl-random": {"rounds": 4, "candidates": 2, "candidate_rounds": 2, "layers": 2, "finalists": 1},
    "asfgnn": {
        "rounds": 3, "trials": 2, "trial_rounds": 2, "startup": 1, "hidden": 4, "tune_hidden": "4",
        "tune_dropout": "", "collect_models": True,
    },
    "fedgraph": {"rounds": 4, "hidden": 4, "batch": 8},
}  # fmt: skip
MODES = ("none", "shares")
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A run folder without damage, and the weights that it ends with."""

    name: str
    folder: Path
    weights: list[Weights]
    clients: list[ClientGraph]


def tiny_clients() -> list[ClientGraph]:
    """Three clients with thirty nodes in all."""
    small = DataSettings(nodes=36, classes=2, features=6, degree=4)
    graph = autofgl.load("synthetic", seed=1, settings=small)
    return autofgl.partition(graph, clients=3, method="random", seed=0)


def make_cases(root: Path, names: list[str], modes: tuple[str, ...] = MODES) -> list[Case]:
    """Each method in each mode: finished, and stopped before its end."""
    clients, cases = tiny_clients(), []
    for name in names:
        for secure in modes:
            settings = {**TINY[name], "checkpoint_every": 1}
            method = name.partition(":")[0]
            done = root / f"{name}-{secure}-finished".replace(":", "-")
            autofgl.run(method, clients, secure=secure, out=done, **settings)
            weights = read_weights(done)
            stopped = done.with_name(done.name.replace("finished", "stopped"))
            with _interrupted_after(3), suppress(Interrupted):
                autofgl.run(method, clients, secure=secure, out=stopped, **settings)
            assert not (stopped / "result.json").exists(), f"{name} was not stopped in time"
            cases += [Case(one.name, one, weights, clients) for one in (done, stopped)]
    return cases


@contextmanager
def _interrupted_after(rounds: int) -> Iterator[None]:
    """Have a run end after some rounds as Ctrl-C would end it."""
    before = loop._save_if_due

    def stopping(method: Any, folder: Any, watch: Any, recorder: Any, stop: bool) -> bool:
        return before(method, folder, watch, recorder, stop or method.round >= rounds)

    loop._save_if_due = stopping
    try:
        yield
    finally:
        loop._save_if_due = before


def read_weights(folder: Path) -> list[Weights]:
    """Of every network of a finished run."""
    names = read_description(folder)["models"]
    return [load_model(folder, name).state_dict() for name in names]


def same(ours: list[Weights], theirs: list[Weights]) -> bool:
    """Equal in every bit."""
    return len(ours) == len(theirs) and all(
        one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
        for one, other in zip(ours, theirs, strict=True)
    )


def _files(folder: Path) -> list[Path]:
    """What may be damaged: everything that a run reads again, checkpoints above all."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in found if not path.name.startswith((".", "events", "report", "arch"))]


def _cut(chance: random.Random, path: Path, _: list[Path]) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(max(1, path.stat().st_size))])


def _flip(chance: random.Random, path: Path, _: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 1, 5])):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _overwrite(chance: random.Random, path: Path, _: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(max(1, len(data)))
    data[at : at + 64] = chance.choice([bytes(64), chance.randbytes(64)])
    path.write_bytes(data)


def _append(chance: random.Random, path: Path, _: list[Path]) -> None:
    with path.open("ab") as stream:
        stream.write(chance.choice([b"\0", b"}\n", b'{"round": 2}\n', chance.randbytes(20)]))


def _delete(_: random.Random, path: Path, __: list[Path]) -> None:
    path.unlink()


def _empty(_: random.Random, path: Path, __: list[Path]) -> None:
    path.write_bytes(b"")


def _folder(_: random.Random, path: Path, __: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def _swap(chance: random.Random, path: Path, others: list[Path]) -> None:
    """A file of the same name or ending, of another round, party or run."""
    alike = [one for one in others if one.suffix == path.suffix and one != path]
    if alike:
        path.write_bytes(chance.choice(alike).read_bytes())


def _other_version(_: random.Random, path: Path, __: list[Path]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes([data[4] + 1 if len(data) > 4 else 0]) + data[5:])


DAMAGES: list[Callable[[random.Random, Path, list[Path]], None]] = [
    _cut, _cut, _flip, _flip, _flip, _overwrite, _append, _delete, _empty, _folder, _swap, _swap,
    _other_version,
]  # fmt: skip


def damage(chance: random.Random, folder: Path, others: list[Path]) -> str:
    """Damage a folder in one place; returns what was done."""
    if chance.random() < 0.05:
        folders = sorted(path for path in folder.rglob("*") if path.is_dir())
        path = chance.choice(folders)
        shutil.rmtree(path)
        return f"delete {path.relative_to(folder)}/"
    path, how = chance.choice(_files(folder)), chance.choice(DAMAGES)
    how(chance, path, [*_files(folder), *others])
    return f"{how.__name__.strip('_')} {path.relative_to(folder)}"


def outcome(case: Case, folder: Path) -> str:
    """What comes of resuming, reporting on and loading a damaged run."""
    said = io.StringIO()

    def attempt(work: Callable[[], Any]) -> str:
        try:
            work()
        except AutoFGLError as error:
            text = str(error)
            return "one line" if text and "\n" not in text else f"WRONG: several lines: {text!r}"
        except BaseException as error:
            return f"WRONG: {type(error).__name__}: {error}"
        return "ok"

    console = Console(file=said, width=1000)
    before = attempt(lambda: write_report(folder))
    resumed = attempt(lambda: autofgl.resume(folder, case.clients, console=console))
    loaded = attempt(lambda: read_weights(folder)) if resumed == "ok" else resumed
    for one in (before, resumed, loaded):
        if one.startswith("WRONG"):
            return one
    if "no report was written" in said.getvalue():
        return f"WRONG: {said.getvalue()!r}"
    if resumed != "ok" or loaded != "ok":
        return "one line"
    if not same(read_weights(folder), case.weights):
        return "WRONG: other weights"
    if "going back" in said.getvalue():
        return "same weights, from the checkpoint before"
    return "same weights" if before == "ok" else "same weights, but no report before"


def fuzz(cases: list[Case], count: int, seed: int, scratch: Path) -> tuple[Counter[str], list[str]]:
    """So many damaged copies; how often what came of them, and what was wrong."""
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for at in range(count):
        case, other = chance.choice(cases), chance.choice(cases)
        folder = scratch / f"damaged-{at}"
        shutil.copytree(case.folder, folder)
        done = damage(chance, folder, _files(other.folder))
        result = outcome(case, folder)
        counts[result.partition(":")[0]] += 1
        if result.startswith("WRONG"):
            wrong.append(f"{case.name}: {done}: {result}")
        shutil.rmtree(folder)
    return counts, wrong


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        made = make_cases(Path(name), list(TINY))
        print(
            f"{len(made)} folders made in {time.process_time() - begin:.0f} CPU seconds", flush=True
        )
        seen, failed = fuzz(
            made, int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, Path(name)
        )
    for what, times in seen.most_common():
        print(f"{times:6,}  {what}")
    print("\n".join(failed[:40]) or "nothing wrong")
    sys.exit(bool(failed))
