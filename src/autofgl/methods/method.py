"""What the run loop asks of a method."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.errors import FederationError, UserError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation, require
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.settings import TrainSettings, model_spec
from autofgl.secure import make_server

Weights: TypeAlias = dict[str, npt.NDArray[np.float32]]

#: One line of the history; ``round`` is always there.
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a finished method leaves behind.

    Attributes:
        test_accuracy, val_accuracy: Federated accuracies in [0, 1] of the chosen weights.
        per_client: Name, sizes and accuracies of each client, as far as the method reveals them.
        spec: JSON form of the network.
        models: Weights by name; one entry ``model`` unless every client has its own; none where
            they stay with the clients.
        parameters: Number of parameters of one network.
        inference_s: Seconds that a client needs to classify its nodes, mean over clients.
        architecture: The network in words.
        extra: More for ``result.json``.
        files: More for the run folder, by name.
        specs: JSON form of each of the networks in ``models``, where they differ.
    """

    test_accuracy: float
    val_accuracy: float
    per_client: list[dict[str, Any]]
    spec: dict[str, Any]
    models: dict[str, Weights]
    parameters: int
    inference_s: float
    architecture: str
    extra: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)


class Method(ABC):
    """A federated method: setup, then rounds until done, then an outcome.

    All that a resumed run needs is in :meth:`state` and in the parties' own states.
    """

    summary: ClassVar[str]
    Settings: ClassVar[type[TrainSettings]]
    #: Whether the method sums through :mod:`autofgl.secure`, so that a secure mode means something.
    sums_securely: ClassVar[bool] = False
    #: The secure mode of a run that names none.
    default_secure: ClassVar[str] = "none"

    def __init__(
        self, federation: Federation, settings: Any, seed: int, secure: str = "none"
    ) -> None:
        self.federation = federation
        self.settings = settings
        self.seed = seed
        self.secure = secure
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
        cls.check_network(clients[0], settings)
        if secure != "none" and not cls.sums_securely:
            raise UserError(f"nothing is summed here that --secure {secure} could protect")
        if secure != "none":
            threshold = settings.secure_threshold or None
            make_server(secure, parties=[graph.name for graph in clients], threshold=threshold)

    @classmethod
    def check_network(cls, graph: ClientGraph, settings: Any) -> None:
        """Refuse a network that cannot be built for a graph."""
        model_spec(graph, settings)

    @classmethod
    @abstractmethod
    def party(
        cls, graph: ClientGraph, settings: Any, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """Builds the client side on one client's graph."""

    @property
    def rounds(self) -> int:
        """Rounds that are planned, for the progress bar."""
        rounds: int = self.settings.rounds
        return rounds

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self._wrapped_up or self.round >= self.rounds

    def pace(self, spent: float) -> None:  # noqa: B027
        """Told before every round which share of the time budget is spent, where there is one."""

    def wrap_up(self) -> None:
        """The time budget is spent: come to an end, with all that a result needs."""
        self._wrapped_up = True

    def hold(self, graph: ClientGraph) -> None:  # noqa: B027
        """A graph that the server itself has; most methods have no use for one."""

    def work_in(self, folder: Path) -> None:  # noqa: B027
        """The run folder, before anything else is called; for files that a method keeps itself."""

    @property
    def milestone(self) -> bool:
        """Whether the round just made is worth a checkpoint of its own."""
        return False

    def connect(self) -> None:  # noqa: B027
        """Agree on keys or the like with the parties; also when a run is resumed."""

    def before_checkpoint(self) -> None:  # noqa: B027
        """Bring everything into a state that outlives the present keys."""

    def call_clients(
        self,
        op: str,
        payload: Payload,
        *,
        each: Mapping[str, Payload] | None = None,
        min_ok: int = 1,
        timeout: float = 0.0,
        wait_for_late: bool = False,
    ) -> Replies:
        """Call all clients and go on without those that are gone.

        Args:
            op: Name of the operation.
            payload: What every client receives.
            each: What each client receives besides.
            min_ok: Fewer good answers end the run.
            timeout: Seconds until an answer is late; 0: never.
            wait_for_late: Whether a late client may join again in the next call. It must not where
                it would then hold other weights than the rest.

        Raises:
            FederationError: A client failed, or too few are left.
        """
        replies = self.federation.call(op, payload, each=each, timeout=timeout or None)
        for name, failure in replies.failed.items():
            if failure.kind in ("exception", "refused"):
                raise FederationError(f"round {self.round}: {name}: {failure.message}")
            if failure.kind == "lost" or not wait_for_late:
                self.federation.drop(name)
        return require(op, replies, min_ok)

    @abstractmethod
    def setup(self) -> None:
        """Prepare the first round. A resumed run skips it."""

    @abstractmethod
    def step(self) -> Row:
        """One round."""

    @abstractmethod
    def finish(self) -> Outcome:
        """Settle on the final weights and report."""

    @abstractmethod
    def state(self) -> Payload:
        """Server-side state for a checkpoint."""

    @abstractmethod
    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
