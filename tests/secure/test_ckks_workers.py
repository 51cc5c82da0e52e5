"""CKKS in worker processes: the same sums, and a worker's end is an error and no more."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from autofgl.secure import SecureSumError, ckks_workers
from autofgl.secure.ckks import SEED_BYTES, Adder, Cipher
from autofgl.secure.ckks_frames import Frame, FrameError, receive, send
from autofgl.secure.ckks_parameters import DEGREE
from autofgl.secure.ckks_shared import SharedCipher, add_shared
from autofgl.secure.ckks_worker import answer
from autofgl.secure.ckks_workers import Workers

SIZE = 8 * DEGREE - 5
CORES = [0, 0]  # also where there is only one
PARTIES = 3
ABORTS = "import os, sys; sys.stdin.buffer.read(1); os.abort()"
BABBLES = "import os, sys; sys.stdin.buffer.read(1); os.write(1, b'x' * 1000)"


@pytest.fixture(scope="module")
def seed() -> bytes:
    return os.urandom(SEED_BYTES)


@pytest.fixture(scope="module")
def running() -> Iterator[Workers]:
    pool = Workers(CORES)
    yield pool
    pool.close()


@pytest.fixture
def pool(running: Workers, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(ckks_workers, "workers", lambda: running)
    return running


def integers(kind: int = 0, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(kind).integers(-(2**30), 2**30, size)


def add(contributions: list[list[bytes]], size: int) -> list[bytes]:
    return add_shared(Adder(PARTIES), PARTIES, contributions, size)


def pids(pool: Workers) -> list[int]:
    return [worker.pid for worker in pool._idle.queue if worker.pid]


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.005)


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("size", [1, DEGREE, 3 * DEGREE + 1, SIZE, 70 * DEGREE])
def test_results_are_those_without_workers(pool: Workers, seed: bytes, size: int) -> None:
    shared, alone = SharedCipher(seed, PARTIES), Cipher(seed, PARTIES)
    rows = [integers(party, size) for party in range(PARTIES)]
    sent = [shared.encrypt(row) for row in rows]
    for row, ciphertexts in zip(rows, sent, strict=True):
        assert np.array_equal(alone.decrypt(ciphertexts, size), row)
    summed = add(sent, size)
    assert summed == Adder(PARTIES).add(sent, size)
    total = shared.decrypt(summed, size)
    assert total.dtype == np.int64
    assert np.array_equal(total, alone.decrypt(summed, size))
    assert np.array_equal(total, np.sum(rows, axis=0))


def test_parties_share_the_workers(pool: Workers) -> None:
    ciphers = [SharedCipher(os.urandom(SEED_BYTES), PARTIES) for _ in range(6)]
    rows = [integers(party) for party in range(6)]

    def there_and_back(party: int) -> bool:
        cipher = ciphers[party]
        return np.array_equal(cipher.decrypt(cipher.encrypt(rows[party]), SIZE), rows[party])

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(there_and_back, range(6)))
    assert 1 <= len(pids(pool)) <= 2


def test_errors_are_those_without_workers(pool: Workers, seed: bytes) -> None:
    cipher = SharedCipher(seed, PARTIES)
    fresh = cipher.encrypt(integers())
    with pytest.raises(SecureSumError, match="its digest is wrong"):
        add([fresh, [*fresh[:-1], b"garbage"]], SIZE)
    with pytest.raises(SecureSumError, match="of another key"):
        SharedCipher(os.urandom(SEED_BYTES), PARTIES).decrypt(fresh, SIZE)
    with pytest.raises(SecureSumError, match="need 8 ciphertexts, 7 came"):
        add([fresh, fresh[1:]], SIZE)
    with pytest.raises(SecureSumError, match="need 8 ciphertexts, 7 came"):
        cipher.decrypt(fresh[1:], SIZE)


def test_little_work_and_a_single_core_need_no_worker(
    seed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workers, "run", lambda *_: pytest.fail("a worker was asked"))
    cipher = SharedCipher(seed, PARTIES)
    assert np.array_equal(cipher.decrypt(cipher.encrypt(np.arange(9)), 9), np.arange(9))
    monkeypatch.setattr(ckks_workers, "cores", lambda: [0])
    sent = cipher.encrypt(integers())
    summed = add([sent, sent], SIZE)
    assert np.array_equal(cipher.decrypt(summed, SIZE), 2 * integers())


@pytest.mark.parametrize(
    ("program", "how"), [(ABORTS, "signal: Aborted"), (BABBLES, "exit status [01]")]
)
def test_a_worker_that_ends_is_an_error_and_the_next_call_works(
    seed: bytes, program: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Workers(CORES)
    monkeypatch.setattr(ckks_workers, "workers", lambda: pool)
    fresh = Cipher(seed, PARTIES).encrypt(integers(size=10))
    with monkeypatch.context() as patch:
        patch.setattr(ckks_workers, "_COMMAND", ("-c", program))
        with pytest.raises(SecureSumError, match=rf"worker ended \({how}\) and could not add"):
            add([fresh, fresh], 10)
    assert pids(pool) == []
    assert add([fresh, fresh], 10) == Adder(PARTIES).add([fresh, fresh], 10)
    pool.close()


def test_a_worker_killed_at_work_is_an_error(seed: bytes) -> None:
    pool = Workers([0])
    request = Frame("encrypt", 2, 4, (seed, np.arange(4).tobytes()))
    pool.run([request])
    (worker,) = pids(pool)
    os.kill(worker, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        reply = thread.submit(pool.run, [request])
        until(lambda: not pids(pool))
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(SecureSumError, match="Killed"):
            reply.result(20)
    assert len(pool.run([request])[0]) == 1
    pool.close()


def test_a_worker_killed_while_idle_is_replaced(pool: Workers, seed: bytes) -> None:
    cipher = SharedCipher(seed, PARTIES)
    cipher.encrypt(integers())
    before = pids(pool)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(ended(pid) for pid in before))
    assert np.array_equal(cipher.decrypt(cipher.encrypt(integers()), SIZE), integers())
    assert not set(before) & set(pids(pool))


PARENT = f"""
import os, sys
import numpy as np
from autofgl.secure import ckks_shared, ckks_workers
ckks_workers.cores = lambda: [0, 0]
ckks_shared.SharedCipher(os.urandom(64), 2).encrypt(np.arange({SIZE}))
idle = ckks_workers.workers()._idle.queue
print(*(worker.pid for worker in idle if worker.pid), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_no_worker_outlives_its_parent(killed: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        started = [int(pid) for pid in parent.stdout.readline().split()]
        assert started
        assert not any(ended(pid) for pid in started)
        if killed:
            parent.kill()
        else:
            parent.stdin.close()
        assert parent.wait(20) == (-signal.SIGKILL if killed else 0)
    until(lambda: all(ended(pid) for pid in started))


def test_keys_are_not_on_the_command_line_or_in_the_environment(pool: Workers, seed: bytes) -> None:
    SharedCipher(seed, PARTIES).encrypt(integers())
    assert pids(pool)
    for pid in pids(pool):
        for name in ("cmdline", "environ"):
            seen = Path(f"/proc/{pid}/{name}").read_bytes()
            assert seed not in seen
            assert seed.hex().encode() not in seen
    assert repr(SharedCipher(seed, PARTIES)) == "SharedCipher(key hidden)"
    assert repr(seed) not in repr(Frame("encrypt", 2, 1, [seed]))


def test_a_worker_starts_without_torch() -> None:
    program = "import sys, autofgl.secure.ckks_worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_a_fork_has_workers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ckks_workers, "cores", lambda: [0, 0])
    monkeypatch.setattr(ckks_workers, "_of_process", {})
    own = ckks_workers.workers()
    assert ckks_workers.workers() is own
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert ckks_workers.workers() is not own


def test_frames_go_there_and_back() -> None:
    stream = io.BytesIO()
    frame = Frame("add", 50, 2**40, [b"", b"x" * 70_000])
    send(stream, frame)
    stream.seek(0)
    assert receive(stream) == frame


def test_broken_frames_are_refused() -> None:
    stream = io.BytesIO()
    send(stream, Frame("add", 2, 5, [b"abc"]))
    whole = stream.getvalue()
    for size in range(len(whole)):
        with pytest.raises(EOFError):
            receive(io.BytesIO(whole[:size]))
    for broken in (b"\xff" + whole[1:], whole[:13] + b"\xff" * 4, whole[:17] + b"\xff" * 4):
        with pytest.raises(FrameError):
            receive(io.BytesIO(broken))


def test_a_failure_travels_as_a_reply(seed: bytes) -> None:
    reply = answer(Frame("decrypt", 2, 4, [seed, b"garbage"]))
    assert reply.kind == "failed"
    assert b"digest" in reply.parts[0]
