"""The processes that do a process's CKKS work: SEAL's bindings hold the interpreter's lock, so that
threads cannot do it at the same time.

There is one for a core (:mod:`autofgl.secure.ckks_worker`), started when it is first needed. All
parties in this process share them.
"""

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from autofgl.secure.ckks_frames import Frame, FrameError, receive, send
from autofgl.secure.interface import SecureSumError

_COMMAND = ("-P", "-m", "autofgl.secure.ckks_worker")  # -P: nothing from the working directory


class Workers:
    """The workers of this process, one for a core. Every thread may use them.

    Args:
        cores: Where they run.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self.size = len(cores)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="ckks")
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the last used is taken first
        for core in cores:
            self._idle.put(_Worker(core))

    def run(self, requests: Sequence[Frame]) -> list[Sequence[bytes]]:
        """The parts of the replies, in order.

        Raises:
            SecureSumError: A request failed, or its worker ended.
        """
        return list(self._threads.map(self._run, requests))

    def close(self) -> None:
        """End the workers."""
        self._threads.shutdown()
        for _ in range(self.size):
            self._idle.get().close()

    def _run(self, request: Frame) -> Sequence[bytes]:
        worker = self._idle.get()
        try:
            reply = worker.ask(request)
        except (OSError, EOFError, FrameError) as error:
            raise SecureSumError(
                f"a CKKS worker ended ({worker.close()}) and could not {request.kind}: "
                "a ciphertext was crafted to do that, or memory is short"
            ) from error
        finally:
            self._idle.put(worker)
        if reply.kind != "done":
            raise SecureSumError(b"".join(reply.parts).decode(errors="replace"))
        return reply.parts


class _Worker:
    """A process that answers one request at a time, started when there is one.

    It stays on its core: left to choose, the system wakes workers where the writer of the pipe
    runs, and a busy machine takes twice as long.
    """

    def __init__(self, core: int) -> None:
        self._core = core
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def ask(self, request: Frame) -> Frame:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, request)
        return receive(process.stdout)

    def close(self) -> str:
        """End the process, and say how it ended."""
        process, self._process = self._process, None
        if process is None:
            return "not started"
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
        try:
            status = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        return f"exit status {status}" if status >= 0 else f"signal: {signal.strsignal(-status)}"

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is not None:
            self.close()  # it was ended from outside, between requests
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, *_COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                process_group=0,  # Ctrl-C is for us; a worker ends when its input does
            )
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._process.pid, {self._core})
        return self._process


_of_process: dict[int, Workers] = {}


def workers() -> Workers | None:
    """This process's workers; none on a single core. A fork does not use its parent's."""
    if len(cores()) < 2:
        return None
    pid = os.getpid()
    return _of_process.get(pid) or _of_process.setdefault(pid, Workers(cores()))


def cores() -> list[int]:
    """Cores that this process may use. Processes differ in which they take first."""
    allowed = sorted(os.sched_getaffinity(0))
    first = os.getpid() % len(allowed)
    return allowed[first:] + allowed[:first]


@atexit.register
def _close() -> None:
    if pool := _of_process.pop(os.getpid(), None):
        pool.close()
