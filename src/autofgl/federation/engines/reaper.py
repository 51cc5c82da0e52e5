"""Cleans up after a coordinator that was killed: ``python -m …reaper FOLDER``.

It waits for the end of its standard input, which comes with the end of whoever started it, however
that ended. Then it ends the processes of all kits in the folder and deletes the folder, keys too.
"""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from autofgl.federation.engines import processes


def start(folder: Path) -> "subprocess.Popen[bytes]":
    """Have a folder of kits cleaned up once this process is gone, or closes the pipe."""
    program = [sys.executable, "-m", __name__, str(folder)]
    return subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)


def clean(folder: Path) -> None:
    """End all processes of the kits in a folder, and delete it."""
    processes.stop(folder / "server", *(folder / "sites").glob("*"))
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Wait for the end of the input, then clean."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clean(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
