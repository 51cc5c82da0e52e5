"""The one job that NVFlare ever carries for us, and the coordinator's session that starts it.

The job is a stub that names two of our classes. Nothing of a run is in it: what a party is to do
arrives as payloads, and is checked by the site's own package. A site compares what it is sent with
this stub and refuses everything else.
"""

import importlib.util
import json
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autofgl.atomic import write_text
from autofgl.errors import FederationError, UserError
from autofgl.federation.engines.nvflare.line import JobLine, Pipe, unpack_message
from autofgl.version import __version__

#: Who submits jobs. There is one, on the server's machine.
COORDINATOR = "coordinator@autofgl.local"

_COMPONENTS = "autofgl.federation.engines.nvflare.site"
_BRIDGE = f"{_COMPONENTS}.Bridge"
_SITE = f"{_COMPONENTS}.Site"
_CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
_EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
#: What checks a job at a site, and the classes that a job may ask for.
VALIDATOR = f"{_COMPONENTS}.JobGuard"
ALLOWED = (_BRIDGE, _SITE, _CONTROLLER, _EXECUTOR)

CONFIG = "config"
CLIENT_FILE = "config_fed_client.json"
SERVER_FILE = "config_fed_server.json"
#: In a kit's ``local``: the address of the coordinator; what a site has and allows.
LINE_FILE = "line.json"
SITE_FILE = "site.json"

#: How many calls a party answers at once: operations queue anyway, peers and life signs do not.
_SITE_THREADS = 16
_SERVER_THREADS = 128
#: Sites report every few seconds; one that was silent for so long is not counted as connected.
_SILENT_S = 12.0
#: Seconds that a job is given to end by itself.
_END_S = 15.0
_ENDED = ("FINISHED", "FAILED", "ABORTED", "ABANDONED")


def check_installed() -> None:
    """Refuse to begin without NVFlare, with a ``UserError`` that says how to install it."""
    if importlib.util.find_spec("nvflare") is None:
        raise UserError("this needs NVFlare: pip install 'autofgl[nvflare]'")


def client_config() -> dict[str, Any]:
    """What a site is sent."""
    arguments = {"client_obj_id": "_client", "max_call_threads": _SITE_THREADS}
    executor = {"path": _EXECUTOR, "args": arguments}
    return {
        "format_version": 2,
        "autofgl": __version__,
        "executors": [{"tasks": ["*"], "executor": executor}],
        "components": [{"id": "_client", "path": _SITE, "args": {}}],
    }


def write_job(folder: Path, sites: Sequence[str]) -> Path:
    """A job for these sites, all of which must be there."""
    arguments = {
        "server_obj_id": "_server",
        "max_call_threads": _SERVER_THREADS,
        "sync_task_timeout": 120,
    }
    server_config = {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": _CONTROLLER, "args": arguments}],
        "components": [{"id": "_server", "path": _BRIDGE, "args": {}}],
    }
    config = folder / "app" / CONFIG
    config.mkdir(parents=True, exist_ok=True)
    (config / CLIENT_FILE).write_text(json.dumps(client_config()))
    (config / SERVER_FILE).write_text(json.dumps(server_config))
    meta = {
        "name": folder.name,
        "min_clients": len(sites),
        "mandatory_clients": list(sites),
        "deploy_map": {"app": ["server", *sites]},
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


class ServerSession:
    """The coordinator's connection to the NVFlare server: who is there, run this job, stop it.

    A server that does not answer, or refuses, is a ``FederationError``.
    """

    def __init__(self, kit: Path, seconds: float = 30.0) -> None:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        (kit / "transfer").mkdir(exist_ok=True)
        try:
            with redirect_stdout(StringIO()):
                self._session: Any = new_secure_session(COORDINATOR, str(kit), timeout=seconds)
        except Exception as error:
            raise FederationError(f"the server does not answer: {_reason(error)}") from error

    def connected(self) -> dict[str, float]:
        """The sites that are connected, and when each was last seen."""
        info = self._do(self._session.get_system_info)
        seen = {client.name: float(client.last_connect_time) for client in info.client_info}
        return {name: at for name, at in seen.items() if time.time() - at < _SILENT_S}

    def submit(self, sites: Sequence[str]) -> str:
        """Start our job at these sites; its id."""
        with TemporaryDirectory(prefix="autofgl-job-") as folder:
            job = write_job(Path(folder) / "autofgl", sites)
            return str(self._do(self._session.submit_job, str(job)))

    def ended(self, job: str) -> str:
        """How a job ended; empty if it has not."""
        status = str(self._do(self._session.get_job_status, job) or "")
        return status if any(word in status for word in _ENDED) else ""

    def refusals(self, job: str) -> list[str]:
        """What sites said that refused a job, as ``site: reason``."""
        meta = self._do(self._session.get_job_meta, job) or {}
        lines = [str(line) for line in meta.get("job_deploy_detail") or ()]
        return [line.replace("NVFLARE_ERROR: refused: ", "") for line in lines if "refused" in line]

    def abort(self, job: str) -> None:
        """Stop a job that does not end by itself."""
        self._do(self._session.abort_job, job)

    def close(self) -> None:
        """Log out."""
        self._session.close()

    def _do(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except Exception as error:
            raise FederationError(f"the server refused or is gone: {_reason(error)}") from error


def open_line(
    session: ServerSession, kit: Path, sites: Sequence[str], seconds: float, await_end: bool = True
) -> JobLine:
    """Start a job at sites that are connected, and wait for its bridge.

    The bridge reads the line's address in the server's kit; closing the line can await the job's
    end. A job that a site refuses is a ``UserError``, one that fails a ``FederationError``.
    """
    with TemporaryDirectory(prefix="autofgl-") as own, socket.socket(socket.AF_UNIX) as listener:
        address = f"{own}/line"
        listener.bind(address)
        listener.listen(1)
        write_text(kit / "local" / LINE_FILE, json.dumps({"address": address}))
        job = session.submit(sites)
        deadline = time.monotonic() + seconds
        while not select.select([listener], [], [], 0.5)[0]:
            if ended := session.ended(job):
                if refusals := session.refusals(job):
                    raise UserError(f"sites refuse the job: {'; '.join(refusals)}")
                raise FederationError(f"the job ended before it began: {ended}")
            if time.monotonic() > deadline:
                session.abort(job)
                raise FederationError(f"the job did not start within {seconds:.0f} s")
        pipe = Pipe(listener.accept()[0])
    try:
        note, _ = unpack_message(pipe.receive())
    except (EOFError, OSError) as error:  # the server was killed just now
        pipe.close()
        raise FederationError(f"the job ended before it began: {error}") from error
    if note["kind"] != "ready":
        raise FederationError(f"the job is not ready: {note['message']}")
    return JobLine(pipe, (lambda: _await_end(session, job)) if await_end else (lambda: None))


def _await_end(session: ServerSession, job: str) -> None:
    """Wait for a job's end, and stop it if it does not end by itself."""
    deadline = time.monotonic() + _END_S
    with suppress(FederationError):
        while not session.ended(job):
            if time.monotonic() > deadline:
                session.abort(job)
                return
            time.sleep(0.2)


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
