"""What the workers of test_workers.py do."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from autofgl.errors import UserError


def work(task: bytes, canceled: Callable[[], bool]) -> bytes:
    """Do what the task names."""
    name, _, rest = task.partition(b" ")
    return ACTIONS[name.decode()](rest, canceled)


def double(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    return 2 * rest


def fail(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    raise UserError(rest.decode())


def crash(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    raise RuntimeError(rest.decode())


def abort(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    os.abort()


def babble(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    """Write something else than a frame to whatever was the standard output."""
    for file in list(Path("/proc/self/fd").iterdir()):
        if int(file.name) > 2 and file.is_symlink() and "pipe:" in str(file.readlink()):
            os.write(int(file.name), 1000 * b"x")
    time.sleep(60)
    return b""


def talk(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    print("this must not break a frame")
    return rest


def wait(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    """Until canceled, or for so many seconds."""
    deadline = time.monotonic() + float(rest)
    while not canceled() and time.monotonic() < deadline:
        time.sleep(0.005)
    return b"canceled" if canceled() else b"done"


def about(rest: bytes, canceled: Callable[[], bool]) -> bytes:
    facts = {
        "pid": os.getpid(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cores": sorted(os.sched_getaffinity(0)),
        "group": os.getpgid(0) == os.getpid(),
        "threads": os.environ["OMP_NUM_THREADS"],
        "torch": "torch" in sys.modules,
        "path": sys.path[0],
    }
    return repr(facts).encode()


ACTIONS = {each.__name__: each for each in (double, fail, crash, abort, babble, talk, wait, about)}
