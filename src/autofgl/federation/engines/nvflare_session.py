"""What the coordinator asks of the NVFlare server: who is there, run this job, stop it."""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autofgl.errors import FederationError
from autofgl.federation.engines.nvflare_kits import COORDINATOR
from autofgl.federation.engines.nvflare_stub import write_job

#: Sites report every few seconds; one that was silent for so long is not counted as connected.
_SILENT_S = 12.0
_ENDED = ("FINISHED", "FAILED", "ABORTED", "ABANDONED")


class Session:
    """A connection to the server as the coordinator.

    Args:
        kit: The coordinator's kit.
        seconds: How long to try.

    Raises:
        FederationError: The server does not answer.
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
        """The sites that are connected, and when they were heard last."""
        info = self._do(self._session.get_system_info)
        heard = {client.name: float(client.last_connect_time) for client in info.client_info}
        return {name: at for name, at in heard.items() if time.time() - at < _SILENT_S}

    def wait_for(
        self, sites: Collection[str], seconds: float, tell: Callable[[Sequence[str]], None]
    ) -> None:
        """Wait until all of these sites are connected.

        Args:
            sites: Their names.
            seconds: How long.
            tell: Called whenever the list of missing sites changes.

        Raises:
            FederationError: Some did not come.
        """
        deadline = time.monotonic() + seconds
        told: list[str] | None = None
        while missing := sorted(set(sites) - set(self.connected())):
            if missing != told:
                tell(missing)
                told = missing
            if time.monotonic() > deadline:
                raise FederationError(f"sites did not connect: {', '.join(missing)}")
            time.sleep(0.5)

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
        told = [str(line) for line in meta.get("job_deploy_detail") or ()]
        return [line.replace("NVFLARE_ERROR: refused: ", "") for line in told if "refused" in line]

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


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
