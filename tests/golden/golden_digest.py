"""What a run left, in figures and digests, and how two such records are compared.

Only outer contracts are used: the command line, and the files of a run folder.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import signal
import threading
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
import yaml
from golden_cases import CASES, ENCRYPTED, GRAPH
from torch.nn import functional

import autofgl
from autofgl.cli import main

STORED = Path(__file__).with_name("digests.json")
#: Whether the package is the one beside these tests: one from elsewhere would prove nothing.
OURS = Path(autofgl.__file__).is_relative_to(Path(__file__).parents[2])

#: Keys of what no run repeats: times, versions, and the size of what is encrypted and compressed.
_PASSING = r".*(_s|_ms|seconds|versions)"
_PASSING_ENCRYPTED = rf"{_PASSING}|.*bytes.*"
_FIGURES = ("test_accuracy", "val_accuracy", "rounds", "stopped_by", "architecture", "parameters")
_TRAFFIC = ("bytes_up", "bytes_down", "bytes_peer")

#: ``figures``, ``norms`` of the weights, and ``sha256`` of every part.
Record = dict[str, dict[str, Any]]


def record(name: str, folder: Path, stop_after: int = 0) -> Record:
    """Run a case in an empty folder; if asked to, stop it after so many rounds and resume it."""
    with contextlib.chdir(folder):
        for number, line in enumerate(CASES[name].splitlines()):
            out = Path(f"{number}")
            words = ["run", *shlex.split(f"{line} {GRAPH}"), "--out", f"{out}"]
            if stop_after:
                thread = threading.Thread(target=_stop, args=(out / "history.jsonl", stop_after))
                thread.start()
                _command(words, 130)
                thread.join()
                words = ["run", "--resume", f"{out}"]
            _command(words)
        return _read(out, _PASSING_ENCRYPTED if name in ENCRYPTED else _PASSING)


def fingerprint() -> str:
    """Digest of how this machine computes: products, sums and functions of torch and NumPy."""
    digest = hashlib.sha256()
    embedding_bag = partial(functional.embedding_bag, mode="sum")
    for package in ("torch", "numpy", "scipy", "optuna", "pymetis"):
        digest.update(f"{package} {version(package)}".encode())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for dtype in (np.float32, np.float64):
        for rows, inner, columns in ((3, 5, 7), (64, 36, 8), (240, 129, 65), (1000, 31, 16)):
            numbers = np.random.default_rng(rows)
            left = numbers.standard_normal((rows, inner)).astype(dtype)
            right = numbers.standard_normal((inner, columns)).astype(dtype)
            a, b = torch.from_numpy(left), torch.from_numpy(right)
            each, halves = torch.arange(inner), torch.tensor([0, inner // 2])
            sparse = torch.where(a > 1, a, 0).to_sparse_coo()
            results = [a @ b, torch.sparse.mm(sparse, b), a.T @ a, a.sum(), a.sum(0), a.mean(1)]
            results += [embedding_bag(each, b, halves, per_sample_weights=a[0])]
            results += [a.exp(), a.tanh(), a.sigmoid(), a.log_softmax(1), a.norm(), b.std()]
            arrays = [left @ right, left.sum(), left.sum(0), np.exp(left), np.tanh(left)]
            for array in [result.numpy() for result in results] + arrays:
                digest.update(np.ascontiguousarray(array).tobytes())
    torch.set_num_threads(threads)
    return digest.hexdigest()


def differences(name: str, stored: Record, found: Record, exact: bool) -> list[str]:
    """What differs in a case, in words.

    Exact means: everything is equal, but for the traffic of encrypted sums, where 1 % is allowed.
    Otherwise the same digests must be there, of whatever value, accuracies may differ by 0.05,
    traffic and norms of the weights by 1 %.
    """
    told = []
    for part in stored | found:
        old, new = stored.get(part, {}), found.get(part, {})
        for key in old | new:
            if key not in old or key not in new:
                told.append(f"{part}: {key} {'is gone' if key in old else 'is new'}")
            elif old[key] != new[key]:
                strict = exact and not (name in ENCRYPTED and key in _TRAFFIC)
                if strict or not _near(part, key, old[key], new[key]):
                    told.append(f"{part}: {key}: {old[key]} is now {new[key]}")
    return told


def _near(part: str, key: str, old: Any, new: Any) -> bool:
    if part == "sha256":
        return True
    if key.endswith("_accuracy"):
        return bool(abs(old - new) <= 0.05)
    close = part == "norms" or key in _TRAFFIC
    return close and abs(old - new) <= 0.01 * max(abs(old), abs(new), 1e-3)


def _command(words: list[str], expected: int = 0) -> None:
    said = io.StringIO()
    code: Any = None
    previous = signal.signal(signal.SIGINT, lambda *_: None)  # should a Ctrl-C come too late
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main(words)
    except SystemExit as end:
        code = end.code
    finally:
        signal.signal(signal.SIGINT, previous)
    assert code == expected, f"autofgl {shlex.join(words)} ends with {code}: {said.getvalue()}"


def _stop(history: Path, rounds: int) -> None:
    """Press Ctrl-C when so many rounds are written down, wherever the next one then is."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if history.exists() and history.read_bytes().count(b"\n") >= rounds:
            os.kill(os.getpid(), signal.SIGINT)
            return
        time.sleep(0.001)


def _read(out: Path, passing: str) -> Record:
    weights = safetensors.numpy.load((out / "model.safetensors").read_bytes())
    history = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    result = json.loads((out / "result.json").read_text())
    parts: dict[str, Any] = {
        "config.yaml": yaml.safe_load((out / "config.yaml").read_text()),
        "model.json": json.loads((out / "model.json").read_text()),
    }
    for name, value in sorted(weights.items()):
        model = name.rpartition("/")[0] or "model"
        described = [name, str(value.dtype), value.shape, hashlib.sha256(value.data).hexdigest()]
        parts.setdefault(f"weights of {model}", []).append(described)
    columns = sorted({column for row in history for column in row})
    parts |= {f"history: {column}": [row.get(column) for row in history] for column in columns}
    parts |= {f"result: {key}": value for key, value in sorted(result.items())}
    norms = {name: np.linalg.norm(value.astype(float)) for name, value in sorted(weights.items())}
    return {
        "figures": {key: result[key] for key in _FIGURES + _TRAFFIC},
        "norms": {name: float(f"{norm:.7g}") for name, norm in norms.items()},
        "sha256": {key: _sha256(value) for key, value in _lasting(parts, passing).items()},
    }


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lasting(value: Any, passing: str) -> Any:
    """The value without keys that the pattern matches, however deep they lie."""
    if isinstance(value, dict):
        kept = [key for key in value if not re.fullmatch(passing, key)]
        return {key: _lasting(value[key], passing) for key in kept}
    return [_lasting(entry, passing) for entry in value] if isinstance(value, list) else value
