"""Secrets of a run in one process leave no trace: not in its folder, its output, or anything shown.

The same for sites is in test_keys_over_nvflare.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import autofgl
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context
from autofgl.graphs.client_graph import ClientGraph

SECRET = b"a secret that must not show anywhere"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("secure", ["shares", "ckks"])
def test_a_run_folder_holds_no_secret(
    small_clients: list[ClientGraph],
    out: Path,
    file: Path,
    secure: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[bytes] = []

    def draw(size: int) -> bytes:
        drawn.append(urandom(size))
        return drawn[-1]

    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", draw)
    autofgl.run(
        "fedavg", small_clients, secure=secure, out=out, rounds=3, checkpoint_every=1, secret=file
    )
    seeds = [seed for seed in drawn if len(seed) == 32]
    assert seeds, "the group key is drawn from the operating system"
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        data = path.read_bytes()
        for secret in (SECRET, *seeds):
            assert secret not in data, path
            assert secret.hex().encode() not in data, path


def test_a_context_does_not_show_its_secret() -> None:
    contexts: list[Context] = []

    def build(context: Context) -> object:
        contexts.append(context)
        return object()

    InProcess({"a": build, "b": build}, secret=SECRET).close()  # type: ignore[dict-item]
    for context in contexts:
        assert SECRET.decode() not in repr(context) + repr(context.identity)
        assert context.identity is not None
        other = next(each for each in contexts if each.name != context.name)
        assert other.identity is not None
        assert context.identity.verify(other.name, b"x", other.identity.sign(b"x"))


def test_every_federation_draws_its_own_secret() -> None:
    contexts: list[Context] = []

    def build(context: Context) -> object:
        contexts.append(context)
        return object()

    for _ in range(2):
        InProcess({"a": build}).close()  # type: ignore[dict-item]
    first, second = (context.identity for context in contexts)
    assert first is not None
    assert second is not None
    assert not second.verify("a", b"x", first.sign(b"x"))


@pytest.mark.parametrize("content", [b"short\n", None])
def test_mistakes_with_secrets_are_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    command = ["run", "fedavg", "--secret", str(path), "--out", str(tmp_path / "run")]
    program = [sys.executable, "-c", "from autofgl.cli import main; main()", *command]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "secret" in done.stderr
    assert "short" not in done.stderr.replace("is too short", "")
    assert not (tmp_path / "run").exists()
