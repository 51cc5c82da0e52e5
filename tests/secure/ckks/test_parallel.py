"""CKKS in worker processes: the same sums, and a worker's end is an error and no more."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from autofgl import workers
from autofgl.secure import SecureSumError
from autofgl.secure.ckks import DEGREE, parallel
from autofgl.secure.ckks.cipher import SEED_BYTES, Adder, Cipher
from autofgl.secure.ckks.parallel import ParallelAdder, ParallelCipher, answer_ckks
from autofgl.workers import WorkerPool

pytestmark = pytest.mark.cores

SIZE = 8 * DEGREE - 5
CORES = [0, 0]  # also where there is only one
PARTIES = 3
ABORTS = "import os, sys; sys.stdin.buffer.read(1); os.abort()"
BABBLES = "import os, sys; sys.stdin.buffer.read(1); os.write(1, b'x' * 1000)"
FUNCTION = "autofgl.secure.ckks.parallel:answer_ckks"


@pytest.fixture(scope="module")
def seed() -> bytes:
    return os.urandom(SEED_BYTES)


@pytest.fixture(scope="module")
def running() -> Iterator[WorkerPool]:
    pool = WorkerPool(FUNCTION, 2, cores=CORES)
    yield pool
    pool.close()


@pytest.fixture
def pool(running: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> WorkerPool:
    monkeypatch.setattr(parallel, "ckks_pool", lambda: running)
    return running


def integers(kind: int = 0, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(kind).integers(-(2**30), 2**30, size)


def add(contributions: list[list[bytes]], size: int) -> list[bytes]:
    return ParallelAdder(PARTIES).add(contributions, size)


def pids(pool: WorkerPool) -> list[int]:
    return [worker.process.pid for worker in pool.workers if worker.process]


@pytest.mark.parametrize("size", [1, DEGREE, 3 * DEGREE + 1, SIZE, 70 * DEGREE])
def test_results_are_those_without_workers(pool: WorkerPool, seed: bytes, size: int) -> None:
    shared, alone = ParallelCipher(seed, PARTIES), Cipher(seed, PARTIES)
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


def test_parties_share_the_workers(pool: WorkerPool) -> None:
    ciphers = [ParallelCipher(os.urandom(SEED_BYTES), PARTIES) for _ in range(6)]
    rows = [integers(party) for party in range(6)]

    def there_and_back(party: int) -> bool:
        cipher = ciphers[party]
        return np.array_equal(cipher.decrypt(cipher.encrypt(rows[party]), SIZE), rows[party])

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(there_and_back, range(6)))
    assert 1 <= len(pids(pool)) <= 2


def test_errors_are_those_without_workers(pool: WorkerPool, seed: bytes) -> None:
    cipher = ParallelCipher(seed, PARTIES)
    fresh = cipher.encrypt(integers())
    with pytest.raises(SecureSumError, match="its digest is wrong"):
        add([fresh, [*fresh[:-1], b"garbage"]], SIZE)
    with pytest.raises(SecureSumError, match="of another key"):
        ParallelCipher(os.urandom(SEED_BYTES), PARTIES).decrypt(fresh, SIZE)
    with pytest.raises(SecureSumError, match="need 8 ciphertexts, 7 came"):
        add([fresh, fresh[1:]], SIZE)
    with pytest.raises(SecureSumError, match="need 8 ciphertexts, 7 came"):
        cipher.decrypt(fresh[1:], SIZE)


def test_little_work_and_a_single_core_need_no_worker(
    seed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerPool, "run", lambda *_: pytest.fail("a worker was asked"))
    cipher = ParallelCipher(seed, PARTIES)
    assert np.array_equal(cipher.decrypt(cipher.encrypt(np.arange(9)), 9), np.arange(9))
    monkeypatch.setattr(parallel, "available_cores", lambda: [0])
    sent = cipher.encrypt(integers())
    summed = add([sent, sent], SIZE)
    assert np.array_equal(cipher.decrypt(summed, SIZE), 2 * integers())


@pytest.mark.parametrize(
    ("program", "how"), [(ABORTS, "signal: Aborted"), (BABBLES, "exit status 0")]
)
def test_a_worker_that_ends_is_an_error_and_the_next_call_works(
    seed: bytes, program: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = WorkerPool(FUNCTION, 2, cores=CORES)
    monkeypatch.setattr(parallel, "ckks_pool", lambda: pool)
    fresh = Cipher(seed, PARTIES).encrypt(integers(size=10))
    with monkeypatch.context() as patch:
        patch.setattr(workers, "_PYTHON", (sys.executable, "-c", program))
        with pytest.raises(SecureSumError, match=rf"worker ended \({how}\) and could not add"):
            add([fresh, fresh], 10)
    assert pids(pool) == []
    assert add([fresh, fresh], 10) == Adder(PARTIES).add([fresh, fresh], 10)
    pool.close()


@pytest.mark.parametrize(
    "answer", [b"", b"abc", struct.pack("<II", 1, 5), struct.pack("<I", 2**32 - 1) + bytes(99)]
)
def test_a_worker_may_say_anything(
    seed: bytes, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: CORES)
    monkeypatch.setattr(WorkerPool, "run", lambda self, tasks: [answer for _ in tasks])
    fresh = Cipher(seed, PARTIES).encrypt(integers())
    with pytest.raises(SecureSumError, match="wrong answer"):
        add([fresh, fresh], SIZE)
    with pytest.raises(SecureSumError, match="wrong answer"):
        ParallelCipher(seed, PARTIES).decrypt(fresh, SIZE)


def test_keys_are_not_on_the_command_line_or_in_the_environment(
    pool: WorkerPool, seed: bytes
) -> None:
    ParallelCipher(seed, PARTIES).encrypt(integers())
    assert pids(pool)
    for pid in pids(pool):
        for name in ("cmdline", "environ"):
            seen = Path(f"/proc/{pid}/{name}").read_bytes()
            assert seed not in seen
            assert seed.hex().encode() not in seen
    assert repr(ParallelCipher(seed, PARTIES)) == "ParallelCipher(key hidden)"
    assert repr(seed) not in repr(pool.submit(seed))


def test_a_worker_starts_without_torch() -> None:
    heavy = "{'torch', 'cryptography'} & set(sys.modules)"
    program = f"import sys, autofgl.secure.ckks.parallel; sys.exit(bool({heavy}))"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def test_the_pool_has_a_worker_for_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: [0, 1, 2])
    monkeypatch.setattr(workers, "_pools", {})
    pool = parallel.ckks_pool()
    assert pool is not None
    assert (pool.size, pool._cores, pool._function) == (3, [0, 1, 2], FUNCTION)
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert parallel.ckks_pool() is not pool, "a fork has its own"


def test_a_task_by_hand(seed: bytes) -> None:
    task = parallel._task("decrypt", 2, slice(0, 4), [seed, b"garbage"])
    with pytest.raises(SecureSumError, match="digest"):
        answer_ckks(b"".join(task), lambda: False)
