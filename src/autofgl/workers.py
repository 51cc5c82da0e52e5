"""Worker processes: a task's bytes go there, an answer's bytes come back, over pipes.

A :class:`WorkerPool` names a function as ``MODULE:FUNCTION``. Its processes import that function
and call ``FUNCTION(task, canceled)`` for one task after the other, where ``canceled()`` says
whether nobody waits any more. They are started when there is work and live as long as their input:
when the parent ends, in whatever way, they end at once, even in the midst of a task. Nothing is
pickled, and nothing is imported from the working directory.
"""

import atexit
import contextlib
import importlib
import itertools
import os
import queue
import resource
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO, TypeAlias

from autofgl.errors import AutoFGLError

MAX_FRAME = 1 << 34

#: What a pool's function is: a task's bytes and whether it was canceled → the answer's bytes.
Work: TypeAlias = Callable[[bytes, Callable[[], bool]], bytes]

_LENGTH = struct.Struct("<Q")
_HEAD = struct.Struct("<BQ")  # kind and number of a task
_TASK, _CANCEL, _DONE, _FAILED = range(4)
_NUMBERS = itertools.count()
_PYTHON = (sys.executable, "-P", "-m", "autofgl.workers")  # -P: not from the working directory
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class FrameError(AutoFGLError):
    """A stream holds something else than a frame."""


class TaskError(AutoFGLError):
    """A task's function raised an error of ours; the message is that error's."""


class WorkerLost(AutoFGLError):
    """A worker process ended before it answered; ``how`` is its exit status or signal."""

    def __init__(self, how: str) -> None:
        super().__init__(f"a worker process ended ({how})")
        self.how = how


def write_frame(stream: IO[bytes], *parts: bytes) -> None:
    """Write one frame, a length and the parts one after the other, and flush."""
    stream.write(_LENGTH.pack(sum(map(len, parts))))
    for part in parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Read one frame; raises ``EOFError`` at the stream's end, ``FrameError`` if it is none."""
    return _read(stream, _read_size(stream))


def _read_size(stream: IO[bytes]) -> int:
    size: int = _LENGTH.unpack(_read(stream, _LENGTH.size))[0]
    if size > MAX_FRAME:
        raise FrameError(f"a frame of {size:,} bytes is larger than is accepted")
    return size


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the stream ended")
    return data


def _send(stream: IO[bytes], kind: int, number: int, *parts: bytes) -> None:
    write_frame(stream, _HEAD.pack(kind, number), *parts)


def _receive(stream: IO[bytes]) -> tuple[int, int, bytes]:
    size = _read_size(stream) - _HEAD.size
    if size < 0:
        raise FrameError("a frame is too short")
    kind, number = _HEAD.unpack(_read(stream, _HEAD.size))
    return kind, number, _read(stream, size)


class WorkerTask(Future[bytes]):
    """The answer to a task, as soon as there is one.

    ``result()`` raises :class:`TaskError` or :class:`WorkerLost` if there will be none.
    """

    def __init__(self, parts: Sequence[bytes]) -> None:
        super().__init__()
        self.number = next(_NUMBERS)
        self.parts = parts
        self.unwanted = False
        self.worker: _Worker | None = None

    def cancel(self) -> bool:
        """Do not begin, if it has not begun; else let the function know that nobody waits."""
        if super().cancel():
            return True
        self.unwanted = True
        if worker := self.worker:
            worker.cancel(self.number)
        return False


class WorkerPool:
    """Processes that do tasks, in the order of their submission. Every thread may submit.

    There are at most ``size`` processes, each with one thread for arithmetic, and as ``nice`` to
    others as 19. Each stays on its core, if there are ``cores``: left to choose, the system wakes a
    worker where the writer of its pipe runs, which on a busy machine takes twice as long.
    """

    def __init__(
        self, function: str, size: int, *, cores: Sequence[int] = (), nice: int = 0
    ) -> None:
        self.size = size
        self.workers: list[_Worker] = []
        self._function = function
        self._cores = cores
        self._nice = nice
        self._tasks: queue.SimpleQueue[WorkerTask | None] = queue.SimpleQueue()
        self._unfinished = 0
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, *parts: bytes) -> WorkerTask:
        """Have a task done, whose bytes are the parts one after the other."""
        task = WorkerTask(parts)
        with self._lock:
            if self._closed:
                raise WorkerLost("its pool was closed")
            if self._unfinished >= len(self.workers) < self.size:
                core = self._cores[len(self.workers)] if self._cores else None
                self.workers.append(worker := _Worker(self._function, core, self._nice))
                # A daemon: the interpreter would wait for others before it calls what ends them.
                threading.Thread(target=self._serve, args=(worker,), daemon=True).start()
            self._unfinished += 1
        self._tasks.put(task)
        return task

    def run(self, tasks: Iterable[Sequence[bytes]]) -> list[bytes]:
        """The answers to several tasks in parts, in order; raises as :class:`WorkerTask` does."""
        running = [self.submit(*parts) for parts in tasks]
        try:
            return [task.result() for task in running]
        except BaseException:
            for task in running:
                task.cancel()
            raise

    def close(self) -> None:
        """End the processes, whatever they do. Tasks that wait are canceled."""
        with self._lock:
            self._closed = True
        for _ in self.workers:
            self._tasks.put(None)
        for worker in self.workers:
            worker.end()

    def _serve(self, worker: "_Worker") -> None:
        while (task := self._tasks.get()) is not None:
            if self._closed:
                task.cancel()
            elif task.set_running_or_notify_cancel():
                try:
                    task.set_result(worker.ask(task))
                except Exception as error:
                    task.set_exception(error)
            with self._lock:
                self._unfinished -= 1


class _Worker:
    """A process that does one task at a time, started when there is one."""

    def __init__(self, function: str, core: int | None, nice: int) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._function = function
        self._core = core
        self._nice = nice
        self._writing = threading.Lock()

    def ask(self, task: WorkerTask) -> bytes:
        """Have a task done; raises what :class:`WorkerTask` has to tell."""
        try:
            task.worker = self
            stdin, stdout = self._pipes()
            with self._writing:
                _send(stdin, _TASK, task.number, *task.parts)
                if task.unwanted:
                    _send(stdin, _CANCEL, task.number)
            task.parts = ()
            kind, number, answer = _receive(stdout)
            if kind not in (_DONE, _FAILED) or number != task.number:
                raise FrameError("a worker answers something else")
        except (OSError, EOFError, ValueError, FrameError) as error:
            raise WorkerLost(self.end(grace=1.0)) from error
        finally:
            task.worker = None
        if kind == _FAILED:
            raise TaskError(answer.decode(errors="replace"))
        return answer

    def cancel(self, number: int) -> None:
        """Let the function know that nobody waits for a task; others do not mind."""
        with self._writing, contextlib.suppress(OSError, ValueError):
            if (process := self.process) is not None and process.stdin is not None:
                _send(process.stdin, _CANCEL, number)

    def end(self, grace: float = 0.0) -> str:
        """End the process, after so many seconds if need be, and say how it ended."""
        process, self.process = self.process, None
        if process is None:
            return "from outside"
        try:
            status = process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        return f"exit status {status}" if status >= 0 else f"signal: {signal.strsignal(-status)}"

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process is not None and self.process.poll() is not None:
            self.end()  # it was ended from outside, between tasks
        process = self.process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        return process.stdin, process.stdout

    def _start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [*_PYTHON, self._function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD},
            process_group=0,  # Ctrl-C is for us; a worker ends when its input does
        )
        with contextlib.suppress(OSError):
            if self._nice:
                os.setpriority(os.PRIO_PROCESS, process.pid, self._nice)
            if self._core is not None:
                os.sched_setaffinity(process.pid, {self._core})
        return process


_pools: dict[tuple[int, str], WorkerPool] = {}


def shared_pool(
    function: str, size: int, *, cores: Sequence[int] = (), nice: int = 0
) -> WorkerPool:
    """This process's pool for a function, which all share. A fork does not use its parent's."""
    key = os.getpid(), function
    if key in _pools:
        return _pools[key]
    return _pools.setdefault(key, WorkerPool(function, size, cores=cores, nice=nice))


@atexit.register
def close_pools() -> None:
    """End all workers of this process; they start again when there is work."""
    for key in [key for key in _pools if key[0] == os.getpid()]:
        _pools.pop(key).close()


def _watch(
    stream: IO[bytes], tasks: "queue.SimpleQueue[tuple[int, bytes]]", canceled: set[int]
) -> None:
    """Take in what the parent says until it is gone; then end at once."""
    try:
        while True:
            kind, number, task = _receive(stream)
            if kind == _CANCEL:
                canceled.add(number)
            else:
                tasks.put((number, task))
    finally:
        os._exit(0)


def serve(function: str) -> None:
    """Be a worker: do the tasks on the standard input until it ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of the memory may hold keys
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not break a frame
    tasks: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    canceled: set[int] = set()
    threading.Thread(target=_watch, args=(sys.stdin.buffer, tasks, canceled), daemon=True).start()
    try:
        module, _, name = function.partition(":")
        work: Work = getattr(importlib.import_module(module), name)
        while True:
            number, task = tasks.get()
            try:
                kind, answer = _DONE, work(task, partial(canceled.__contains__, number))
            except AutoFGLError as error:
                kind, answer = _FAILED, str(error).encode()
            _send(replies, kind, number, answer)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(sys.argv[1])
