"""A site's own part of a run: its graph, its policy, and the party that it builds from them.

All that runs here is the installed package, and methods of one's own that the site's policy lists.
The server says which method, settings, seed and secure mode it wants; it sends no code. What it
asks for is checked against the policy and by the method itself before a party is built, and again
whenever it asks the party for another network or other settings: a policy that looked at the
opening of a run only could be evaded a message later.

The server learns of a refusal by its rule. Texts that speak of the graph stay in the site's log.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autofgl.atomic import write_text
from autofgl.config import validated
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.job import SITE_FILE
from autofgl.federation.party import Context, Party, Refused
from autofgl.federation.payload import Payload, encoded_size
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import load_client, load_graph
from autofgl.graphs.origin import schema_digest
from autofgl.methods.catalog import find_method
from autofgl.plugins import find, hand_over
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.specs import own_code
from autofgl.sites.policy import CLOSED, MATCH, Policy
from autofgl.version import __version__

if TYPE_CHECKING:
    from autofgl.runtime.method import Method

_log = logging.getLogger("autofgl.site")
#: Longest text of a network.
_LONGEST_NETWORK = 10_000


class SiteConfig(BaseModel):
    """What a site's job process reads from its kit's ``local/site.json``.

    The name is that of its certificate, ``sites`` are the names in all certificates; ``state`` is
    the folder for checkpoints, ``build`` names what builds the party, ``secret`` the file with the
    sites' own secret, if they have one, another site may take ``peer_timeout`` seconds to answer
    this one, and networks compute on the ``device``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    sites: tuple[str, ...]
    graph: str
    state: str
    policy: str
    build: str = f"{__name__}:LocalSite"
    peer_timeout: float = 60.0
    secret: str = ""
    device: str = "auto"

    def write(self, kit: Path) -> None:
        """Leave the configuration in a kit."""
        write_text(kit / "local" / SITE_FILE, json.dumps(self.model_dump(), indent=2) + "\n")


class _RunRequest(BaseModel):
    """What the server asks a site for; whatever else it says is nobody's business here."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    run: str
    method: str
    secure: str
    settings: dict[str, Any]
    seed: int = Field(ge=0)
    classes: int = Field(ge=1)


class LocalSite:
    """Builds this site's party; a ``SiteBuilder`` of the NVFlare engine."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = SiteConfig.model_validate(config)
        try:
            self._policy = Policy.read(Path(self._config.policy))
        except UserError as error:
            _log.error("the policy cannot be read, so that nothing is allowed: %s", error)
            self._policy = Policy()
        self.limit = self._policy.max_message

    def hello(self, payload: Payload) -> Payload:
        """Compare versions, and say what shape the graph has: all that the others must know."""
        theirs = payload.get("version")
        if theirs != __version__:
            raise Refused(f"runs autofgl {__version__}, the coordinator {theirs}: install the same")
        if self._policy.closed:
            raise Refused(CLOSED)
        with _reason_for_the_log():
            graph = load_graph(self._config.graph)
            schema = schema_digest(self._config.graph)
        shape: Payload = {"classes": graph.classes, "features": graph.num_features}
        return {**shape, "schema": schema} if schema else shape

    def build(self, payload: Payload, context: Context) -> Party:
        """The party that the server asks for, if the policy and the method allow it."""
        policy = self._policy
        if payload.get("task") == MATCH:
            return self._matcher(context)
        with _reason_for_the_server():
            asked = validated(_RunRequest, dict(payload), "opening: ")
            policy.check_method(asked.method, asked.secure)
            with _reason_for_the_log("the method cannot be loaded here"):
                method = find_method(asked.method)
            policy.check_protection(method, asked.method, asked.secure)
            policy.check_parties(context.parties, self._config.sites)
            policy.check_classes(asked.classes)
            read = {k: v for k, v in asked.settings.items() if k not in method.Settings.server_only}
            settings = policy.accepted(validated(method.Settings, read, "setting "))
            self._provide(settings)
        sizes = {"classes": asked.classes, "seed": asked.seed}
        with _reason_for_the_log():
            graph = load_client(self._config.graph, context.name, context.parties, **sizes)
        run = _AskedRun(method, settings, asked.secure, context.parties, graph, policy)
        run.check()
        folder = Path(self._config.state) / asked.run
        self._check_same(folder / f"{self._config.name}.graph", graph)
        sent = SentBytes(folder / f"{self._config.name}.bytes", policy)
        make = method.party(graph, settings, asked.seed, asked.secure)
        with _reason_for_the_server():
            own = replace(context, min_parties=policy.min_parties, device=self._config.device)
            party = make(own)
        _log.info("run %s: %s with %d parties, secure %s", asked.run, asked.method,
                  len(context.parties), asked.secure)  # fmt: skip
        kept = KeptHere(folder, self._config.name, f"{asked.method}, secure sums {asked.secure}")
        return PolicedParty(party, run.check_recipe, sent, kept)

    def _matcher(self, context: Context) -> Party:
        """A site's part of a matching, which writes into its own graph file at the end."""
        from autofgl.matching.client import Matcher

        self._policy.check_matching()
        self._policy.check_parties(context.parties, self._config.sites)
        with _reason_for_the_log("it cannot match"):
            party = Matcher(Path(self._config.graph), context, _log.info)
        _log.info("matching with %s", ", ".join(context.parties))
        return party

    def _provide(self, settings: Any) -> None:
        """Have what the settings name from outside stand for this site's own code, if allowed."""
        for name, kind in own_code(settings).items():
            listed = self._policy.own_code(name)
            where, _, own = listed.rpartition(":")
            if where.endswith(".py"):
                listed = f"{Path(self._config.policy).parent / where}:{own}"
            with _reason_for_the_log("a network cannot be loaded here"):
                hand_over(kind, name, find(kind, listed))

    def _check_same(self, note: Path, graph: ClientGraph) -> None:
        digest = graph.fingerprint()
        if note.is_file() and note.read_text() != digest:
            raise Refused("the graph is not the one that this run was started on")
        write_text(note, digest)


@dataclass(frozen=True)
class _AskedRun:
    """What a server asks for, with the site's own graph and rules."""

    method: "type[Method]"
    settings: Any
    secure: str
    parties: Sequence[str]
    graph: ClientGraph
    policy: Policy

    def check(self) -> None:
        """Refuse what the policy or the method does not allow on this graph."""
        sizes = self.graph.num_features, self.graph.classes
        outlines = [ClientGraph.outline(name, *sizes) for name in self.parties]
        graphs = [self.graph if one.name == self.graph.name else one for one in outlines]
        with _reason_for_the_server():
            self.policy.check_settings(self.settings, self.secure, len(self.parties))
            self.policy.check_parameters(self.method.parameters(self.graph, self.settings))
            self.method.check(outlines, self.settings, self.secure)
        with _reason_for_the_log():
            self.method.check(graphs, self.settings, self.secure)

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse a network or settings that come later, as those of the opening would be."""
        if len(recipe.network) > _LONGEST_NETWORK:
            raise Refused("the text of a network is too long")
        with _reason_for_the_server():
            settings = recipe.apply(self.settings)
            if own_code(settings).keys() - own_code(self.settings).keys():
                raise Refused("what comes from outside the package is named when a run begins")
            self.policy.check_settings(settings, self.secure, len(self.parties))
            count = self.method.recipe_parameters(self.graph, self.settings, recipe)
            self.policy.check_parameters(count)


@contextmanager
def _reason_for_the_server() -> Iterator[None]:
    """Refuse with a text that speaks of nothing but what the server has sent."""
    try:
        yield
    except UserError as error:
        raise Refused(str(error)) from error


@contextmanager
def _reason_for_the_log(shown: str = "its graph does not fit this run") -> Iterator[None]:
    """Refuse without the text, which may speak of paths, nodes and labels of this site."""
    try:
        yield
    except UserError as error:
        _log.warning("refused: %s", error)
        raise Refused(f"{shown}: the reason is in the site's log") from error


class SentBytes:
    """Bytes that a site sends in a run, over restarts.

    The note is written ahead, in hundredths of the limit: a restart forgets none, and may count
    up to a hundredth too many.
    """

    def __init__(self, note: Path, policy: Policy) -> None:
        self._note = note
        self._policy = policy
        self._noted = _read_count(note)
        self._sent = self._noted
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count an answer before it is sent; ``Refused`` beyond the policy's limit."""
        with self._lock:
            self._sent += size
            self._policy.check_sent(self._sent)
            if self._sent > self._noted and self._policy.max_bytes:
                self._noted = self._sent + self._policy.max_bytes // 100
                write_text(self._note, f"{self._noted}\n")


class PolicedParty(Party):
    """Hands every call on to a party, once the policy has nothing against it."""

    def __init__(
        self,
        party: Party,
        check: Callable[[Recipe], None],
        sent: SentBytes,
        kept: "KeptHere | None" = None,
    ) -> None:
        self._party = party
        self._check = check
        self._sent = sent
        self._kept = kept

    def handle(self, op: str, payload: Payload, by_peer: bool = False) -> Payload:
        """Answer, unless a recipe or the answer's size breaks a rule."""
        if not by_peer and not payload.keys().isdisjoint(Recipe.model_fields):
            try:
                recipe = Recipe.from_payload(payload)
            except ValidationError as error:
                raise Refused("what is to be trained is no recipe") from error
            self._check(recipe)
        reply = self._party.handle(op, payload, by_peer)
        self._sent.add(encoded_size(reply))
        if self._kept is not None:
            self._kept.after(op, self._party)
        return reply

    def state(self) -> Payload:
        """The party's own."""
        return self._party.state()

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._party.load_state(state)


@dataclass(frozen=True)
class KeptHere:
    """What a run leaves in a site's folder, and nobody else gets: the model that the site has
    chosen for itself, and a page that says whether joining was worth it.
    """

    folder: Path
    name: str
    title: str  #: of the run

    def after(self, op: str, party: Party) -> None:
        """Leave what there is after an operation."""
        if op == "prove":
            keep_own_model(party, self.folder / f"{self.name}.model")
        if op == "conclude":
            self._leave_page(party)

    def _leave_page(self, party: Party) -> None:
        from autofgl.report.sections.joining import join_page
        from autofgl.runtime.outcome import client_lines
        from autofgl.runtime.round_client import RoundClient

        if not isinstance(party, RoundClient):
            return
        for line in client_lines({self.name: party.own_figures()}):
            if (written := join_page(line, self.title)) is not None:
                place = self.folder / f"{self.name}.join.html"
                write_text(place, written)
                _log.info("what this site gains is in %s", place)


def keep_own_model(party: Party, folder: Path) -> None:
    """Leave the model that a party has chosen for itself at its site, as in a run folder."""
    from autofgl.methods.auto.client import AutoClient
    from autofgl.methods.auto.result import own_models
    from autofgl.runs.export import save_models

    if not isinstance(party, AutoClient):
        return
    parts = own_models({"model": party.own_networks()})
    if not parts["models"]:
        return
    first = next(iter(parts["models"]))
    info = {"normalize_features": parts["scalings"][first], "scalings": parts["scalings"]}
    info |= {"ensembles": parts["ensembles"]} if parts["ensembles"] else {}
    if parts["across"]:
        info["shares"] = dict.fromkeys(parts["across"], party.settings.share)
    folder.mkdir(parents=True, exist_ok=True)
    save_models(folder, parts["models"], parts["specs"][first], info, parts["specs"])
    _log.info("this site's own model is in %s", folder)


def _read_count(note: Path) -> int:
    try:
        return int(note.read_text()) if note.exists() else 0
    except ValueError:
        raise Refused("the site's note of what this run has sent is damaged") from None
