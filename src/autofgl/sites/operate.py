"""Running a kit in the foreground, and looking at it."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from autofgl.errors import AutoFGLError, UserError
from autofgl.federation.engines import processes
from autofgl.federation.engines.nvflare_session import Session
from autofgl.sites.kits import Kit


def run_kit(kit: Kit, tell: Callable[[str], None]) -> None:
    """Run the server or a site until it is told to stop; its job processes end with it.

    Raises:
        UserError: The kit is in use.
        AutoFGLError: The process ended by itself.
    """
    if processes.running(kit.path):
        raise UserError(f"{kit.path} is running already: end it with autofgl site stop")
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    child = processes.start(kit.path, kit.site)
    tell(f"{kit.site or 'server'}: started; the log is {kit.path / 'log.txt'}")
    try:
        while child.poll() is None and not asked:
            time.sleep(0.2)
    finally:
        processes.stop(kit.path)
        child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    told = asked or child.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    if child.returncode and not told:
        raise AutoFGLError(f"ended by itself: {last_lines(kit.path / 'console.txt', 1)}")


def last_lines(path: Path, count: int) -> str:
    """The end of a text file."""
    if not path.is_file():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


def logs(kit: Path, count: int) -> str:
    """The end of a kit's log and of its newest job's log."""
    jobs = sorted(kit.glob("*/log.txt"), key=lambda path: path.stat().st_mtime)
    return "\n".join(last_lines(path, count) for path in (kit / "log.txt", *jobs[-1:]))


def status(coordinator: Path, sites: list[str]) -> dict[str, str]:
    """What the server knows of each site.

    Raises:
        FederationError: The server does not answer.
    """
    session = Session(coordinator, 10.0)
    try:
        heard = session.connected()
    finally:
        session.close()
    return {
        name: f"connected, heard {max(0.0, time.time() - heard[name]):.0f} s ago"
        if name in heard
        else "not connected"
        for name in [*sites, *sorted(set(heard) - set(sites))]
    }
