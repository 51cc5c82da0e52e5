"""``autofgl site match``: the edges between sites, found before a run by the sites themselves."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.job import ServerSession, open_line
from autofgl.matching.server import match_parties
from autofgl.sites.policy import MATCH
from autofgl.sites.provisioning import open_kit
from autofgl.version import __version__

#: Seconds to wait for all sites to be connected, and for the job to begin.
_WAIT_S, _START_S = 60.0, 180.0


def match_sites(kits: Path, tell: Callable[[str], None], wait_s: float = _WAIT_S) -> dict[str, int]:
    """Match the graph files of all sites of a federation; call it on the server's machine.

    Args:
        kits: Folder with the kits of the server and the coordinator.
        tell: Is told what is waited for.
        wait_s: Seconds to wait for sites that are not connected.

    Returns:
        How many edges to other sites each site's graph file has now.

    Raises:
        UserError: A site is not there, or refuses.
        FederationError: The server or a site is lost.
    """
    kit = open_kit(kits / "server", site=False)
    with closing(ServerSession(kits / "coordinator")) as session:
        _await_all(session, list(kit.sites), tell, wait_s)
        line = open_line(session, kit.path, kit.sites, _START_S)
        federation = NVFlare(line, kit.sites)
        try:
            federation.hello({"version": __version__})
            federation.open({"run": f"match-{time.time_ns():x}", "task": MATCH})
            return match_parties(federation)
        finally:
            federation.close()


def _await_all(
    session: ServerSession, sites: list[str], tell: Callable[[str], None], wait_s: float
) -> None:
    deadline, announced = time.monotonic() + wait_s, False
    while missing := [name for name in sites if name not in session.connected()]:
        listed = ", ".join(missing)
        if time.monotonic() > deadline:
            way = "start them with autofgl site join"
            raise UserError(f"matching needs all sites, and {listed} are not connected: {way}")
        if not announced:
            tell(f"waiting for {listed}")
        announced = True
        time.sleep(1)
