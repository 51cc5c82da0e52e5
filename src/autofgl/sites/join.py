"""A site's own part of a run: its graph, its policy, and the party that it builds from them.

All that runs here is the installed package, and methods of one's own that the site's policy lists.
The server says which method, settings, seed and secure mode it wants; it sends no code.
"""

import json
import logging
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from autofgl.atomic import write_text
from autofgl.config import validated
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.job import SITE_FILE
from autofgl.federation.party import Context, Party, Refused
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import load_client, load_graph
from autofgl.methods.catalog import METHODS, find_method
from autofgl.sites.policy import POLICY_FILE, Policy
from autofgl.sites.provisioning import Kit
from autofgl.version import __version__

_log = logging.getLogger("autofgl.site")


class SiteConfig(BaseModel):
    """What a site's job process reads from its kit's ``local/site.json``.

    Attributes:
        name: The site's name, as in its certificate.
        graph: The site's graph file.
        state: Folder for checkpoints.
        policy: The site's policy file.
        build: What builds the party.
        peer_timeout: Seconds that another site may take to answer this one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    graph: str
    state: str
    policy: str
    build: str = f"{__name__}:LocalSite"
    peer_timeout: float = 60.0

    def write(self, kit: Path) -> None:
        """Leave the configuration in a kit."""
        write_text(kit / "local" / SITE_FILE, json.dumps(self.model_dump(), indent=2) + "\n")


def prepare_site(kit: Kit, graph: Path, policy: Path | None, state: Path | None) -> SiteConfig:
    """Note in a site's kit what it has and allows, after a look at it.

    Raises:
        UserError: The graph or the policy cannot be used.
    """
    if policy is not None and not policy.is_file():
        raise UserError(f"{policy}: there is no such file")
    rules = (policy or kit.path / POLICY_FILE).absolute()
    Policy.read(rules)
    load_graph(graph)
    config = SiteConfig(
        name=kit.site,
        graph=str(graph.absolute()),
        state=str((state or kit.path / "state").absolute()),
        policy=str(rules),
    )
    config.write(kit.path)
    return config


class LocalSite:
    """Builds this site's party; a ``SiteBuilder`` of the NVFlare engine."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = SiteConfig.model_validate(config)
        self._policy = Policy.read(Path(self._config.policy))
        self.limit = self._policy.max_message

    def hello(self, payload: Payload) -> Payload:
        """Compare versions, and say what shape the graph has: all that the others must know."""
        theirs = payload.get("version")
        if theirs != __version__:
            raise Refused(f"runs autofgl {__version__}, the coordinator {theirs}: install the same")
        try:
            graph = load_graph(self._config.graph)
        except UserError as error:
            raise Refused(str(error)) from error
        return {"classes": graph.classes, "features": graph.num_features}

    def build(self, payload: Payload, context: Context) -> Party:
        """The party that the server asks for, if the policy allows it."""
        method_name, secure, seed = payload["method"], payload["secure"], payload["seed"]
        if method_name not in METHODS and method_name not in self._policy.methods:
            raise Refused(
                f"method '{method_name}' is unknown here; one's own must be in the policy"
            )
        try:
            method = find_method(method_name)
            settings = validated(method.Settings, dict(payload["settings"]), "setting ")
            self._policy.check(method_name, secure, settings, len(context.parties))
            graph = load_client(
                self._config.graph,
                context.name,
                context.parties,
                classes=int(payload["classes"]),
                seed=int(seed),
            )
            party = method.party(graph, settings, int(seed), secure)(context)
        except UserError as error:
            raise Refused(str(error)) from error
        self._check_same_graph(str(payload["run"]), graph)
        _log.info("run %s: %s with %d parties, secure %s", payload["run"], method_name,
                  len(context.parties), secure)  # fmt: skip
        return party

    def _check_same_graph(self, run: str, graph: ClientGraph) -> None:
        """A run goes on with the graph that it was begun with."""
        note = Path(self._config.state) / run / f"{self._config.name}.graph"
        digest = graph.fingerprint()
        if note.is_file() and note.read_text() != digest:
            raise Refused("the graph is not the one that this run was started on")
        write_text(note, digest)
