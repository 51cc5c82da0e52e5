"""The coordinator: keeps a run going over sites that come and go.

A run is a chain of jobs. A job does not take back a site that was lost, so when a lost site is
there again the coordinator saves, starts a new job with all sites, and goes on. Where sums are
secure the site is brought up to date and joins the next round: a sum that was made again with it
would show its part. Without protection the run goes back to the last checkpoint in which all have a
part, and comes to the same weights as an undisturbed one. When too few sites are left, or the
server itself is gone, it waits.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from autofgl.config import Layers, RunConfig, validated
from autofgl.errors import AutoFGLError, FederationError, Interrupted, PartiesReturned, UserError
from autofgl.execution import DataSummary, execute
from autofgl.federation.engines.nvflare.engine import PATIENCE_S, NVFlare
from autofgl.federation.engines.nvflare.job import ServerSession, open_line
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.runs import checkpoint
from autofgl.runs.folder import Result, RunFolder
from autofgl.version import __version__

#: Jobs in a row that may fail before the run is given up, if none gets any further; and returns of
#: a site before it is left out, if it never stays until the next checkpoint.
_TRIES = 5


@dataclass(frozen=True)
class Deployment:
    """Where a run takes place: the server's and the coordinator's kits, and the sites in order."""

    server: Path
    coordinator: Path
    sites: Sequence[str]
    #: Seconds for a job to start; to wait for all sites, before a run goes on with fewer; and
    #: without a sign of life after which a site counts as lost.
    start_s: float = 180.0
    grace_s: float = 60.0
    patience_s: float = PATIENCE_S
    #: Whether a job's end is awaited; not needed where all processes are ended anyway.
    await_end: bool = True


class Coordinator:
    """Runs a configuration at sites, which keep their states under the name ``run``."""

    def __init__(
        self,
        config: RunConfig,
        layers: Layers,
        deployment: Deployment,
        run: str,
        folder: RunFolder,
        console: Console | None,
    ) -> None:
        self._config = config
        self._layers = layers
        self._deployment = deployment
        self._run = run
        self._folder = folder
        self._console = console
        self._session: ServerSession | None = None
        self._sites = list(deployment.sites)
        self._returns: dict[tuple[str, str], int] = {}

    def run(self, data: DataSummary) -> Result:
        """Go on until the run is finished, a site refuses, or no job gets any further."""
        tries, reached = 0, self._reached()
        try:
            while True:
                try:
                    return self._run_job(data)
                except PartiesReturned as returned:
                    self._take_back(returned)
                except _JobFailed as failed:
                    if self._reached() > reached:
                        tries = 0
                    tries, reached = tries + 1, self._reached()
                    if tries == _TRIES:
                        raise FederationError(f"given up after {tries} tries: {failed}") from failed
                    self._tell(f"{failed}: beginning a new job")
        finally:
            self._close_session()

    def _take_back(self, returned: PartiesReturned) -> None:
        """Take sites back, except those that are lost again and again before a checkpoint."""
        self._tell(f"{returned}: continuing with all sites")
        for name in returned.parties:
            run = self._folder.manifest.run
            key = (name, checkpoint.last_part(self._folder.checkpoints, name, run))
            self._returns[key] = self._returns.get(key, 0) + 1
            if self._returns[key] == _TRIES and name in self._sites:
                self._tell(f"{name} was lost {_TRIES} times without getting any further: left out")
                self._sites.remove(name)

    def _run_job(self, data: DataSummary) -> Result:
        """One job: from the newest checkpoint as far as it goes."""
        federation: NVFlare | None = None
        try:
            federation = self._assemble()
            return execute(
                self._config, self._layers, federation, data, self._folder, self._console
            )
        except (UserError, Interrupted, PartiesReturned):
            raise
        except AutoFGLError as error:
            if federation is not None and not federation.lost:
                raise
            raise _JobFailed(str(error)) from error
        finally:
            if federation is not None:
                federation.close()

    def _assemble(self) -> NVFlare:
        """A federation of all sites, or of enough of them, with their parties built."""
        session, place = self._connect(), self._deployment
        sites = self._wait_for_sites(session)
        line = open_line(session, place.server, sites, place.start_s, place.await_end)
        federation = NVFlare(
            line,
            sites,
            folder=self._folder.checkpoints,
            patience=place.patience_s,
            connected=session.connected,
            absent=[name for name in self._sites if name not in sites],
        )
        try:
            federation.open(self._opening(federation))
        except BaseException:
            federation.close()
            raise
        return federation

    def _opening(self, federation: NVFlare) -> Payload:
        """What the sites build their parties from, once it is clear that they fit together."""
        config, settings = self._config, self._layers.method
        replies = federation.hello({"version": __version__})
        shapes = {name: _GraphShape.of(name, reply) for name, reply in replies.items()}
        features = {name: shape.features for name, shape in shapes.items()}
        if len(set(features.values())) > 1:
            counts = ", ".join(f"{name} has {count}" for name, count in features.items())
            raise UserError(f"the sites' graphs do not have the same features: {counts}")
        schemas = {
            name: shape.schema_digest for name, shape in shapes.items() if shape.schema_digest
        }
        if len(set(schemas.values())) > 1:
            listed = ", ".join(f"{name} has {digest}" for name, digest in schemas.items())
            way = "import all tables again with the same schema.yaml"
            raise UserError(f"the sites' tables were read by different schemas: {listed}: {way}")
        classes = max(shape.classes for shape in shapes.values())
        outlines = [ClientGraph.outline(name, count, classes) for name, count in features.items()]
        find_method(config.method).check(outlines, settings, config.secure)
        own = set(settings.server_only)  # names of this machine's files, and the like
        return {
            "run": self._run,
            "method": config.method,
            "settings": settings.model_dump(mode="json", exclude_none=True, exclude=own),
            "secure": config.secure,
            "seed": config.seed,
            "classes": classes,
        }

    def _connect(self) -> ServerSession:
        """A fresh connection to the server; waits for it as long as it takes."""
        self._close_session()
        announced = False
        while True:
            try:
                self._session = ServerSession(self._deployment.coordinator)
                return self._session
            except FederationError as error:
                if not announced:
                    self._tell(f"waiting for the server: {error}")
                announced = True
                time.sleep(1)

    def _wait_for_sites(self, session: ServerSession) -> list[str]:
        """All sites; or, in a run that is under way, enough of them after some time."""
        started = checkpoint.exists(self._folder.checkpoints)
        enough = max(1, int(getattr(self._layers.method, "min_clients", 1)))
        deadline = time.monotonic() + self._deployment.grace_s
        announced: list[str] = []
        while True:
            here = session.connected()
            present = [name for name in self._sites if name in here]
            missing = [name for name in self._sites if name not in here]
            if not missing:
                return present
            if started and len(present) >= enough and time.monotonic() > deadline:
                self._tell(f"continuing without {', '.join(missing)}")
                return present
            if missing != announced:
                self._tell(f"waiting for {', '.join(missing)}")
                announced = missing
            time.sleep(0.5)

    def _reached(self) -> str:
        tags = sorted(path.parent.name for path in self._folder.checkpoints.glob("*/server.afp"))
        return tags[-1] if tags else ""

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _tell(self, message: str) -> None:
        if self._console is not None:
            self._console.print(message, highlight=False, markup=False, soft_wrap=True)


class _GraphShape(BaseModel):
    """What a site says of its graph. It sizes everybody's network, so it has to be sane."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    classes: int = Field(ge=1, le=100_000)
    features: int = Field(ge=1, le=100_000_000)
    schema_digest: str = Field(default="", alias="schema", pattern="^[0-9a-f]{16}$")

    @classmethod
    def of(cls, site: str, reply: Payload) -> "_GraphShape":
        """A site's answer; one that makes no sense is a ``UserError`` that names the site."""
        return validated(cls, reply, f"site {site} cannot have this graph: ")


class _JobFailed(AutoFGLError):
    """A job did not come to its end; another one may."""
