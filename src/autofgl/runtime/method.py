"""What the run loop asks of a method, and the plainest kind of method: one training."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from autofgl.errors import UserError, unknown_name
from autofgl.federation import Federation
from autofgl.federation.party import Context, PartyFactory
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.networks import check_network, count_parameters, empty_network
from autofgl.nn.models.spec import NetworkSpec, SearchedSpec
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.device import choose_device
from autofgl.runtime.federated_settings import ClientsSettings
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.private import check_privacy, is_private
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.round_client import RoundClient
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.settings import TrainSettings
from autofgl.runtime.sharing import Sharing, way_of
from autofgl.runtime.specs import own_layers
from autofgl.runtime.state import restore_state, saved_state
from autofgl.secure import make_server


class Method(ABC):
    """A federated method: setup, then rounds until done, then an outcome.

    All that a resumed run needs is in :meth:`state` and in the parties' own states. ``round``
    counts the rounds made, ``clients`` is the server's line to its clients.
    """

    summary: ClassVar[str] = ""
    Settings: ClassVar[type[TrainSettings]]
    #: Ways in which clients learn together, by name; a recipe that names none takes the first.
    ways: ClassVar[Mapping[str, Sharing]] = {}
    #: Attributes that a checkpoint has, besides ``round``.
    saved: ClassVar[tuple[str, ...]] = ()
    #: What a client of it is.
    Client: ClassVar[type[RoundClient]] = RoundClient
    #: Whether the method sums through :mod:`autofgl.secure`, so that a secure mode means something.
    sums_securely: ClassVar[bool] = True
    #: Whether it pools the clients' graphs, so that it cannot run across sites.
    pools: ClassVar[bool] = False
    #: Whether Ctrl-C asks for the best so far; otherwise it saves and stops.
    ends_on_interrupt: ClassVar[bool] = False

    def __init__(
        self, federation: Federation, settings: Any, seed: int, secure: str = "none"
    ) -> None:
        self.federation = federation
        self.settings = settings
        self.seed = seed
        self.secure = secure
        about = settings if isinstance(settings, ClientsSettings) else ClientsSettings()
        self.clients = Clients(federation, about, secure)
        self.round = 0
        self._wrapped_up = False

    @classmethod
    def arrange(cls, clients: Sequence[ClientGraph]) -> list[ClientGraph]:
        """The graphs as this method uses them; most methods leave them alone."""
        return list(clients)

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """Refuse settings that cannot work on these graphs, before anything is begun.

        Raises:
            UserError: They cannot; the message says why.
        """
        network = check_network(
            cls.network(clients[0], settings), {graph.num_nodes for graph in clients}
        )
        if network is not None and network.tracked_buffers and is_private(settings):
            raise UserError(
                f"--dp covers weights, and not buffers such as '{network.tracked_buffers[0]}': use "
                "a model without any, for example with LayerNorm in place of BatchNorm"
            )
        for graph in clients if cls.ways else ():
            way_of(cls.ways, settings).check(graph, settings, cls.network(graph, settings))
        check_privacy(settings, secure, [graph.name for graph in clients])
        if secure != "none" and not cls.sums_securely:
            raise UserError(f"nothing is summed here that --secure {secure} could protect")
        cls._check_way(settings, secure)
        combine = getattr(settings, "combine", "mean")
        if secure != "none" and combine != "mean":
            raise UserError(
                f"combine={combine} needs single updates, which --secure {secure} hides: use "
                "combine=mean or --secure none"
            )
        if secure != "none":
            threshold = settings.secure_threshold or None
            names, together = [graph.name for graph in clients], settings.secure_together
            make_server(secure, parties=names, threshold=threshold, together=together)
            if together > 1 and getattr(settings, "participation", 1.0) < 1:
                raise UserError("secure_together needs all clients to train: set participation=1")

    @classmethod
    def _check_way(cls, settings: Any, secure: str) -> None:
        """Refuse a way of sharing that the method does not have, or that needs what is hidden."""
        name = getattr(settings, "sharing", "")
        if not name or not cls.ways:
            return
        if name not in cls.ways and name != type(settings).model_fields["sharing"].default:
            raise unknown_name("way of sharing", name, cls.ways)
        way = way_of(cls.ways, settings)
        if way.reveals and secure != "none":
            raise UserError(
                f"sharing={name} shows the server {way.reveals}, which --secure {secure} hides: "
                "use --secure none or another way of sharing"
            )
        if way.reveals and getattr(settings, "combine", "mean") != "mean":
            raise UserError(f"sharing={name} weighs clients in its own way: leave combine out")

    @classmethod
    def network(cls, graph: ClientGraph, settings: Any) -> NetworkSpec:
        """The network that the settings ask for; a ``UserError`` if it does not fit the graph."""
        return way_of(cls.ways, settings).spec(graph, settings)

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Parameters of the largest network that a client may have to build; builds none."""
        kinds = dict.fromkeys(way.spec for way in cls.ways.values())
        specs = [kind(graph, settings) for kind in kinds] or [cls.network(graph, settings)]
        return max(count_parameters(partial(empty_network, spec)) for spec in specs)

    @classmethod
    def recipe_parameters(cls, graph: ClientGraph, settings: Any, recipe: Recipe) -> int:
        """Parameters of the network of a recipe, on the run's settings; builds none."""
        settings = recipe.apply(settings)
        if "|" not in recipe.network:
            return cls.parameters(graph, settings)
        sizes = graph.num_features, graph.classes, settings.hidden
        spec = SearchedSpec(recipe.network, *sizes, own_layers=own_layers(settings))
        return count_parameters(partial(empty_network, spec))

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: Any, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """Builds the client side on one client's graph: it serves the method's ways of sharing."""

        def build(context: Context) -> RoundClient:
            data = ClientData(graph, seed, choose_device(context.device))
            return cls.Client(context, data, cls.ways, settings, secure)

        return build

    @property
    def rounds(self) -> int:
        """Rounds that are planned, for the progress bar."""
        rounds: int = self.settings.rounds
        return rounds

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self._wrapped_up or self.round >= self.rounds

    def pace(self, spent: float) -> bool:  # noqa: ARG002
        """Called before every round with the share of the time budget that is spent; whether that
        has changed what comes next. Such a change is saved: a resumed run could not repeat it.
        """
        return False

    def wrap_up(self) -> None:
        """The time budget is spent: come to an end, with all that a result needs."""
        self._wrapped_up = True

    def take_server_graph(self, graph: ClientGraph) -> None:  # noqa: B027
        """A graph that the server itself has; most methods have no use for one."""

    def work_in(self, folder: Path) -> None:  # noqa: B027
        """The run folder, before anything else is called; for files that a method keeps itself."""

    @property
    def milestone(self) -> bool:
        """Whether the round just made is worth a checkpoint of its own."""
        return False

    def connect(self) -> None:
        """Agree on keys with the parties; also when a run is resumed."""
        self.clients.connect()
        if self.ways and way_of(self.ways, self.settings).exchanges:
            self.clients.connect_peers()

    def before_checkpoint(self) -> None:
        """Bring everything into a state that outlives the present keys."""
        for part in (getattr(self, name) for name in self.saved):
            if hasattr(part, "before_checkpoint"):
                part.before_checkpoint()

    def catch_up(self, names: Sequence[str]) -> None:
        """Bring clients up to date that are back, and have no part in the checkpoint from which the
        run goes on. Whom no training brings up to date takes part in the next one that starts.
        """
        behind = self.clients.aside = [*names, *self.clients.aside]
        for part in (getattr(self, name) for name in self.saved):
            if behind and hasattr(part, "catch_up"):
                part.catch_up(behind)

    @property
    def notices(self) -> list[str]:
        """What the user should know before the first round, a line each."""
        share, fewest = getattr(self.settings, "participation", 1.0), self.clients.fewest
        asked = round(share * len(self.clients.names))
        if asked >= fewest or self.secure == "none":
            return []
        return [
            f"participation={share:g} is {asked} of {len(self.clients.names)} clients; {fewest} "
            f"train in every round, since --secure {self.secure} reveals no sum of fewer"
        ]

    @abstractmethod
    def setup(self) -> None:
        """Prepare the first round. A resumed run skips it."""

    @abstractmethod
    def step(self) -> Row:
        """One round."""

    @abstractmethod
    def finish(self) -> Outcome:
        """Settle on the final weights and report."""

    def state(self) -> Payload:
        """Server-side state for a checkpoint."""
        known = {"aside": self.clients.aside, "dropped": self.clients.dropped}
        return {**saved_state(self, ("round", *self.saved)), **known}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.clients.aside = list(state.get("aside", ()))
        restore_state(self, ("round", *self.saved), state)
        self.clients.go_on_without(state.get("dropped", {}))

    def engine(self, recipe: Recipe | None = None, stage: str = "", **changes: Any) -> RoundEngine:
        """A training of a recipe that can be started; ``stage`` comes before the names of all sums,
        ``changes`` are settings that differ from the run's besides, such as ``rounds``.
        """
        recipe = recipe or Recipe()
        settings = recipe.apply(self.settings)
        way = way_of(self.ways, settings, recipe.sharing)
        settings = settings.model_copy(update=changes) if changes else settings
        return RoundEngine(way.server(self.clients, settings, self.seed), stage)

    def final_training(self, at: int, recipe: Recipe) -> RoundEngine:
        """The training of a finalist, by its number from 0 on."""
        return self.engine(recipe, stage=f"final-{at}-")


class SharedTraining(Method):
    """A method without a search: one training, in the first of its ways of sharing."""

    saved = ("training",)

    def __init__(
        self, federation: Federation, settings: Any, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self.training = Method.engine(self)

    @property
    def done(self) -> bool:
        """All rounds made, or no improvement for too long."""
        return super().done or self.training.out_of_patience

    def setup(self) -> None:
        """Have the clients build their networks."""
        self.training.start()

    def step(self) -> Row:
        """One round."""
        row = self.training.step()
        self.round = self.training.round
        return row

    def finish(self) -> Outcome:
        """Evaluate the last update too, then report on the weights that were kept."""
        return self.training.finish()
