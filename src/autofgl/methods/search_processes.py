"""The processes in which clients search beside their training (section 3.3.2).

All clients in this process share them: one for each core but one, started when there is work
(:mod:`autofgl.methods.search_worker`).
"""

import atexit
import contextlib
import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import Future

from autofgl.errors import AutoFGLError, PayloadError
from autofgl.federation.payload import Payload
from autofgl.methods.search_worker import receive, send

_COMMAND = ("-P", "-m", "autofgl.methods.search_worker")  # -P: nothing from the working directory
#: The lowest priority: a search, and the start of its process, live on what the training leaves.
_NICE = 19


class SearchLost(AutoFGLError):
    """A search came to no result: its process ended, or nothing that it tried was finite."""


class Job:
    """A search that is waited for, or not."""

    def __init__(self, message: Payload) -> None:
        self.message = message
        self._future: Future[Payload] = Future()
        self._worker: _Worker | None = None
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether :meth:`result` would not wait."""
        return self._future.done()

    def result(self) -> Payload:
        """The answer, as soon as there is one.

        Raises:
            SearchLost: There will be none.
        """
        reply = self._future.result()
        if "failed" in reply:
            raise SearchLost(str(reply["failed"]))
        return reply

    def cancel(self) -> None:
        """Nobody wants the result any more."""
        with self._lock:
            self._future.cancel()
            worker = self._worker
        if worker is not None:
            worker.cancel()

    def run(self, worker: "_Worker") -> None:
        """Have a worker do it."""
        with self._lock:
            if not self._future.set_running_or_notify_cancel():
                return
            self._worker = worker
        try:
            reply = worker.ask(self.message)
        except (OSError, EOFError, PayloadError) as error:
            worker.kill()
            reply = {"failed": f"the process of a search ended: {error}"}
        with self._lock:
            self._worker = None
        self._future.set_result(reply)


class Processes:
    """Workers that take jobs in the order of their submission.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._workers = [_Worker() for _ in range(count)]
        for number, worker in enumerate(self._workers):
            # Daemons, since the interpreter would wait for others before it calls what ends them.
            threading.Thread(
                target=self._serve, args=(worker,), name=f"search-{number}", daemon=True
            ).start()

    def submit(self, message: Payload) -> Job:
        """Have a search made."""
        job = Job(message)
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.kill()

    def _serve(self, worker: "_Worker") -> None:
        while True:
            self._jobs.get().run(worker)


class _Worker:
    """A process that makes one search at a time, started when there is one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._writing = threading.Lock()

    def ask(self, message: Payload) -> Payload:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = subprocess.Popen(
                [sys.executable, *_COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                process_group=0,  # Ctrl-C is for us; a worker ends when its input does
            )
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        assert process.stdin is not None
        assert process.stdout is not None
        with self._writing:
            self._number += 1
            send(process.stdin, {**message, "number": self._number})
        return receive(process.stdout)

    def cancel(self) -> None:
        """Have the present search given up."""
        with self._writing, contextlib.suppress(OSError, ValueError):
            if self._process is not None and self._process.stdin is not None:
                send(self._process.stdin, {"cancel": self._number})

    def kill(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()


_of_process: dict[int, Processes] = {}


def processes() -> Processes:
    """This process's workers. A fork does not use its parent's."""
    pid = os.getpid()
    count = max(1, len(os.sched_getaffinity(0)) - 1)
    return _of_process.get(pid) or _of_process.setdefault(pid, Processes(count))


@atexit.register
def close() -> None:
    """End this process's workers; they start again when there is work."""
    if found := _of_process.pop(os.getpid(), None):
        found.close()
