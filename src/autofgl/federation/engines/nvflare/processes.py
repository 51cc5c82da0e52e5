"""Server and site processes of the NVFlare engine, started in their kits and identified by them.

NVFlare's job processes leave their parents' process group and outlive them for some seconds. All of
them name the kit's folder in their command line, so that is how they are identified and ended.

Run as ``python -m …processes FOLDER``, this module cleans up after a coordinator that was killed:
it waits for the end of its standard input, which comes with the end of whoever started it, however
that ended. Then it ends the processes of all kits in the folder and deletes the folder, keys too.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from autofgl.errors import FederationError
from autofgl.federation.engines.nvflare.job import ServerSession, check_installed, open_line
from autofgl.federation.engines.nvflare.kits import make_kits
from autofgl.federation.engines.nvflare.line import JobLine

_APP = "nvflare.private.fed.app"
_SERVER = (f"{_APP}.server.server_train", "fed_server.json")
_SITE = (f"{_APP}.client.client_train", "fed_client.json")
#: Seconds between a site's reports to the server.
_REPORT_S = 3
#: Seconds that processes are given to end by themselves.
_PATIENCE_S = 10.0
#: Seconds for all processes on this machine to start and connect.
_START_S = 180.0


def start_kit(kit: Path, site: str = "") -> "subprocess.Popen[bytes]":
    """Start the server, or a site, in the background; what it prints goes to ``console.txt``."""
    (kit / "transfer").mkdir(exist_ok=True)
    module, config = _SITE if site else _SERVER
    settings = ["secure_train=true", "org=autofgl", "config_folder=config"]
    who = [f"uid={site}", f"heart_beat_interval={_REPORT_S}"] if site else []
    program = [sys.executable, "-P", "-u", "-m", module, "-m", str(kit.absolute()), "-s", config]
    with (kit / "console.txt").open("ab") as console:
        return subprocess.Popen(
            [*program, "--set", *who, *settings],
            cwd=kit,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            # One thread for each party, as everywhere. Job processes, which NVFlare starts, import
            # nothing from their working directory either.
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "GRPC_VERBOSITY": "ERROR",
                "PYTHONSAFEPATH": "1",
            },
            start_new_session=True,
        )


def running(*kits: Path) -> list[int]:
    """Processes whose command line names one of the kits, job processes too."""
    folders = {str(path) for kit in kits for path in (kit.absolute(), kit.resolve())}
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        named = any(word == kit or word.startswith(f"{kit}/") for word in line for kit in folders)
        nvflare = any(word.startswith("nvflare.") for word in line)
        if named and nvflare and state != "Z" and int(entry.name) != os.getpid():
            pids.append(int(entry.name))
    return pids


def stop_kits(*kits: Path, patience: float = _PATIENCE_S) -> None:
    """End all processes of the kits: ask them, then insist."""
    if not kits:
        return
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, _PATIENCE_S)):
        deadline = time.monotonic() + seconds
        pids = running(*kits)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while pids and time.monotonic() < deadline:
            time.sleep(0.05)
            pids = running(*kits)
        if not pids:
            return


def start_reaper(folder: Path) -> "subprocess.Popen[bytes]":
    """Have a folder of kits cleaned up once this process is gone, or closes the pipe."""
    program = [sys.executable, "-P", "-m", __name__, str(folder)]  # -P: as in the workers
    return subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)


def _clean(folder: Path) -> None:
    stop_kits(folder / "server", *(folder / "sites").glob("*"))
    shutil.rmtree(folder, ignore_errors=True)


class Loopback(AbstractContextManager["Loopback"]):
    """Processes of a server and of sites on this machine, with mutual TLS among them.

    Kits and keys are in a temporary folder of this user alone. They and the processes are gone when
    it is closed, and also when this process is killed. Write each site's own file, then
    :meth:`start`.
    """

    def __init__(self, sites: Sequence[str]) -> None:
        check_installed()
        self.folder = Path(tempfile.mkdtemp(prefix="autofgl-sites-"))
        self._reaper = start_reaper(self.folder)
        self._session: ServerSession | None = None
        self._line: JobLine | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            self.kits = make_kits(self.folder, "localhost", free_port(), list(sites), days=2)
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start whatever is not running."""
        for name, kit in {"": self.kits.server, **self.kits.sites}.items():
            if not running(kit):
                self._children.append(start_kit(kit, name))

    def line(self) -> JobLine:
        """Start a job at all sites, once they are connected."""
        names = list(self.kits.sites)
        self._session = self._session or ServerSession(self.kits.coordinator, _START_S)
        deadline = time.monotonic() + _START_S
        while missing := sorted(set(names) - set(self._session.connected())):
            if time.monotonic() > deadline:
                raise FederationError(f"sites did not connect: {', '.join(missing)}")
            time.sleep(0.5)
        self._line = open_line(self._session, self.kits.server, names, _START_S)
        return self._line

    def close(self) -> None:
        """End every process and delete the kits."""
        if self._line is not None:
            self._line.hang_up()
        if self._session is not None:
            with suppress(Exception):
                self._session.close()
        _clean(self.folder)
        for child in self._children:
            child.wait()
        self._reaper.communicate()


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    _clean(Path(sys.argv[1]))
