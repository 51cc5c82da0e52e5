"""Server and site processes of the NVFlare engine, started in their kits and found by them.

NVFlare's job processes leave their parents' process group and outlive them for some seconds. All of
them name the kit's folder in their command line, so that is how they are found and ended.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_APP = "nvflare.private.fed.app"
_SERVER = (f"{_APP}.server.server_train", "fed_server.json")
_SITE = (f"{_APP}.client.client_train", "fed_client.json")
#: Seconds between a site's reports to the server.
_REPORT_S = 3
#: Seconds that processes are given to end by themselves.
_PATIENCE_S = 10.0


def command(kit: Path, site: str = "") -> list[str]:
    """What runs the server, or a site."""
    module, config = _SITE if site else _SERVER
    settings = ["secure_train=true", "org=autofgl", "config_folder=config"]
    who = [f"uid={site}", f"heart_beat_interval={_REPORT_S}"] if site else []
    program = [sys.executable, "-u", "-m", module, "-m", str(kit.absolute()), "-s", config]
    return [*program, "--set", *who, *settings]


def start(kit: Path, site: str = "") -> "subprocess.Popen[bytes]":
    """Start the server, or a site, in the background; what it prints goes to ``console.txt``."""
    (kit / "transfer").mkdir(exist_ok=True)
    with (kit / "console.txt").open("ab") as console:
        return subprocess.Popen(
            command(kit, site),
            cwd=kit,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )


def environment() -> dict[str, str]:
    """The processes' environment: one thread for each party, as everywhere."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "GRPC_VERBOSITY": "ERROR"}


def running(*kits: Path) -> list[int]:
    """Processes whose command line names one of the kits, job processes too."""
    words = {str(path) for kit in kits for path in (kit.absolute(), kit.resolve())}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        named = any(word == kept or word.startswith(f"{kept}/") for word in line for kept in words)
        nvflare = any(word.startswith("nvflare.") for word in line)
        if named and nvflare and state != "Z" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def stop(*kits: Path, patience: float = _PATIENCE_S) -> None:
    """End all processes of the kits: ask them, then insist."""
    if not kits:
        return
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, _PATIENCE_S)):
        deadline = time.monotonic() + seconds
        pids = running(*kits)
        _send(pids, number)
        while pids and time.monotonic() < deadline:
            time.sleep(0.05)
            pids = running(*kits)
        if not pids:
            return


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
