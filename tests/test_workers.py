"""Worker processes: answers, errors and ends."""

import ast
import io
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autofgl import workers
from autofgl.workers import (
    FrameError,
    TaskError,
    WorkerLost,
    WorkerPool,
    read_frame,
    shared_pool,
    write_frame,
)

pytestmark = pytest.mark.cores

HERE = Path(__file__).parent
WORK = "worker_tasks:work"


@pytest.fixture(autouse=True)
def _tasks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = os.environ.get("PYTHONPATH")  # an empty entry would stand for the working directory
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), given])))


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(WORK, 1)
    yield made
    made.close()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.005)


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def about(pool: WorkerPool) -> dict[str, Any]:
    facts: dict[str, Any] = ast.literal_eval(pool.submit(b"about").result().decode())
    return facts


def test_tasks_are_answered_in_order(pool: WorkerPool) -> None:
    tasks = [[b"double %d" % number] for number in range(20)]
    assert pool.run(tasks) == [2 * (b"%d" % number) for number in range(20)]
    assert pool.submit(b"double ", b"in ", b"parts").result() == b"in partsin parts"
    assert pool.submit(b"double ").result() == b""
    large = os.urandom(5_000_000)
    assert pool.submit(b"double ", large).result() == 2 * large
    assert pool.run([]) == []


def test_every_thread_may_submit() -> None:
    pool = WorkerPool(WORK, 2)
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda n: pool.submit(b"double %d" % n).result(), range(60)))
    assert answers == [2 * (b"%d" % number) for number in range(60)]
    assert 1 <= len(pool.workers) <= 2
    pool.close()


def test_little_work_starts_one_process() -> None:
    pool = WorkerPool(WORK, 3)
    assert pool.workers == []
    for _ in range(5):
        pool.submit(b"double x").result()
        until(lambda: pool._unfinished == 0)
    assert len(pool.workers) == 1
    pool.run([[b"wait 0.1"]] * 5)
    assert len(pool.workers) == 3
    pool.close()


def test_errors_of_ours_travel_and_the_worker_lives_on(pool: WorkerPool) -> None:
    first = about(pool)["pid"]
    with pytest.raises(TaskError, match=r"^no such café$"):
        pool.submit("fail no such café".encode()).result()
    with pytest.raises(TaskError):
        pool.run([[b"double x"], [b"fail so"], [b"double y"]])
    assert about(pool)["pid"] == first


@pytest.mark.parametrize(
    ("task", "how"),
    [
        (b"abort", "signal: Aborted"),
        (b"crash", "exit status 1"),
        (b"unheard-of", "exit status 1"),
        (b"babble", "signal: Killed"),
    ],
)
def test_a_worker_that_ends_is_an_error_and_is_started_again(
    pool: WorkerPool, task: bytes, how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WorkerLost, match=f"ended \\({how}\\)") as caught:
        pool.submit(task).result()
    assert caught.value.how == how
    assert pool.submit(b"double x").result() == b"xx"


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool("no.such.module:work", 1)
    with pytest.raises(WorkerLost, match="exit status 1"):
        pool.submit(b"").result()
    monkeypatch.setattr(workers, "_PYTHON", ("/no/such/python",))
    with pytest.raises(WorkerLost):
        pool.submit(b"").result()
    pool.close()


def test_a_worker_killed_at_work_is_an_error(pool: WorkerPool) -> None:
    before = about(pool)["pid"]
    os.kill(before, signal.SIGSTOP)
    task = pool.submit(b"double x")
    until(lambda: task.parts == ())  # it was sent
    os.kill(before, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="Killed"):
        task.result(30)
    assert about(pool)["pid"] != before


def test_a_worker_killed_while_idle_is_replaced(pool: WorkerPool) -> None:
    before = about(pool)["pid"]
    process = pool.workers[0].process
    assert process is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: process.poll() is not None)  # all of its threads are gone
    assert about(pool)["pid"] != before


def test_tasks_are_canceled_waiting_and_running(pool: WorkerPool) -> None:
    running, waiting, last = (pool.submit(b"wait 600") for _ in range(3))
    until(running.running)
    assert waiting.cancel()
    with pytest.raises(CancelledError):
        waiting.result()
    assert not running.cancel()
    assert running.result(60) == b"canceled"
    until(last.running)
    running.cancel()  # it is over and must not end another
    last.cancel()
    assert last.result(60) == b"canceled"
    assert pool.submit(b"wait 0").result() == b"done"


def test_a_task_canceled_while_its_worker_starts(pool: WorkerPool) -> None:
    task = pool.submit(b"wait 600")
    until(task.running)
    task.cancel()
    assert task.result(60) == b"canceled"


def test_what_is_printed_breaks_nothing(
    pool: WorkerPool, capfd: pytest.CaptureFixture[str]
) -> None:
    assert pool.submit(b"talk to me").result() == b"to me"


def test_a_closed_pool_ends_its_work() -> None:
    pool = WorkerPool(WORK, 1)
    running, waiting = pool.submit(b"wait 600"), pool.submit(b"wait 600")
    until(lambda: pool.workers[0].process is not None)
    process = pool.workers[0].process
    assert process is not None
    pool.close()
    with pytest.raises(WorkerLost):
        running.result(30)
    with pytest.raises(CancelledError):
        waiting.result(30)
    assert process.returncode is not None
    with pytest.raises(WorkerLost, match="closed"):
        pool.submit(b"double x")


def test_priority_cores_threads_and_group(pool: WorkerPool) -> None:
    facts = about(pool)
    assert facts["nice"] == os.getpriority(os.PRIO_PROCESS, 0)
    assert facts["cores"] == sorted(os.sched_getaffinity(0))
    assert (facts["threads"], facts["group"], facts["torch"]) == ("1", True, False)
    core = max(os.sched_getaffinity(0))
    other = WorkerPool(WORK, 1, cores=[core], nice=19)
    facts = about(other)
    assert (facts["nice"], facts["cores"]) == (19, [core])
    other.close()


def test_nothing_is_imported_from_the_working_directory(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shutil", "subprocess", "worker_tasks"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert about(pool)["path"] == str(HERE)


PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
from autofgl.workers import shared_pool
pool = shared_pool("worker_tasks:work", 2)
tasks = [pool.submit(b"wait 600") for _ in range(3)]
while not all(worker.process for worker in pool.workers):
    time.sleep(0.01)
print(*(worker.process.pid for worker in pool.workers), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["killed", "interrupted", "at its end"])
def test_no_worker_outlives_its_parent(how: str) -> None:
    """In the midst of a task, and with another one waiting."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        started = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(started) == 2
        assert not any(ended(pid) for pid in started)
        if how == "at its end":
            parent.stdin.close()
        else:
            parent.send_signal(signal.SIGKILL if how == "killed" else signal.SIGINT)
        expected = {"killed": -signal.SIGKILL, "interrupted": -signal.SIGINT, "at its end": 0}
        assert parent.wait(20) == expected[how]
    until(lambda: all(ended(pid) for pid in started))


def test_a_process_shares_its_pools_and_a_fork_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_pools", {})
    own = shared_pool(WORK, 2)
    assert shared_pool(WORK, 2) is own
    assert shared_pool("worker_tasks:other", 2) is not own
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 0)
        forked = shared_pool(WORK, 2)
        assert forked is not own
    workers.close_pools()
    assert list(workers._pools.values()) == [forked]
    assert shared_pool(WORK, 2) is not own


def test_frames_go_there_and_back() -> None:
    stream = io.BytesIO()
    for parts in ([], [b""], [b"a", b"", b"x" * 70_000]):
        write_frame(stream, *parts)
    stream.seek(0)
    assert [read_frame(stream) for _ in range(3)] == [b"", b"", b"a" + b"x" * 70_000]


def test_broken_frames_are_refused() -> None:
    stream = io.BytesIO()
    write_frame(stream, b"abc")
    whole = stream.getvalue()
    for size in range(len(whole)):
        with pytest.raises(EOFError):
            read_frame(io.BytesIO(whole[:size]))
    with pytest.raises(FrameError, match="larger than is accepted"):
        read_frame(io.BytesIO(struct.pack("<Q", workers.MAX_FRAME + 1)))
    with pytest.raises(FrameError, match="too short"):
        workers._receive(io.BytesIO(whole))
