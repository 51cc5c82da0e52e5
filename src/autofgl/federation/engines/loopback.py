"""A whole NVFlare federation on this machine, certificates to processes, and no trace of it."""

import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autofgl.federation.engines import processes, reaper
from autofgl.federation.engines.nvflare_kits import make_kits
from autofgl.federation.engines.nvflare_line import Line, open_line
from autofgl.federation.engines.nvflare_session import Session
from autofgl.federation.engines.nvflare_stub import check_installed

#: Seconds for all processes to start and find each other.
_START_S = 180.0


class Loopback:
    """Processes of a server and of sites on this machine, with mutual TLS among them.

    Kits and keys are in a temporary folder of this user alone. They and the processes are gone when
    it is closed, and also when this process is killed.

    Write each site's own file, then :meth:`start`.

    Args:
        sites: Names of the sites.
    """

    def __init__(self, sites: Sequence[str]) -> None:
        check_installed()
        self.folder = Path(tempfile.mkdtemp(prefix="autofgl-sites-"))
        self._reaper = reaper.start(self.folder)
        self._session: Session | None = None
        self._line: Line | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            self.kits = make_kits(self.folder, "localhost", free_port(), list(sites), days=2)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Loopback":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def session(self) -> Session:
        """The coordinator's connection to the server."""
        if self._session is None:
            self._session = Session(self.kits.coordinator, _START_S)
        return self._session

    def start(self) -> None:
        """Start whatever is not running."""
        for name, kit in {"": self.kits.server, **self.kits.sites}.items():
            if not processes.running(kit):
                self._children.append(processes.start(kit, name))

    def line(self) -> Line:
        """Start a job at all sites."""
        names = list(self.kits.sites)
        self.session.wait_for(names, _START_S, lambda missing: None)  # noqa: ARG005
        self._line = open_line(self.session, self.kits.server, names, _START_S)
        return self._line

    def close(self) -> None:
        """End every process and delete the kits."""
        if self._line is not None:
            self._line.hang_up()
        if self._session is not None:
            with suppress(Exception):
                self._session.close()
        reaper.clean(self.folder)
        for child in self._children:
            child.wait()
        self._reaper.communicate()


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
