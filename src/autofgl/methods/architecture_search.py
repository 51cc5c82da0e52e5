"""What all architecture searches have in common: one set of keys, and the final training."""

from typing import Any, ClassVar

from autofgl.federation.federation import Federation
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.choice import Judged, most_accurate_first
from autofgl.methods.final_training import FinalTraining
from autofgl.methods.found_client import found_spec
from autofgl.methods.method import Method, Outcome
from autofgl.methods.search_settings import SpaceSettings
from autofgl.methods.sums import FederatedSums


class ArchitectureSearch(Method):
    """A search of the space A(L), then the training of what it found."""

    sums_securely: ClassVar[bool] = True

    def __init__(
        self, federation: Federation, settings: SpaceSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self.sums = FederatedSums(federation, secure, settings.secure_threshold)
        self._final = FinalTraining(federation, settings, seed, secure, self.sums, self.choose)

    @classmethod
    def check_network(cls, graph: ClientGraph, settings: SpaceSettings) -> None:
        """Refuse a training protocol that no network of the space can have."""
        found_spec(graph, settings, "identity | - | identity")

    @property
    def done(self) -> bool:
        """All that was found is trained."""
        return self._final.done

    def connect(self) -> None:
        """Agree on keys, for search and training."""
        self.sums.setup()

    def choose(self, outcomes: list[Outcome]) -> int:
        """Which of the trained networks is the best, by federated validation."""
        networks = [Judged(one.val_accuracy, one.extra["val_loss"]) for one in outcomes]
        return most_accurate_first(networks)[0]

    def _call(self, op: str, payload: Payload, **how: Any) -> Replies:
        """A client that misses a step has other weights than the rest and must go."""
        least, timeout = self.settings.min_clients, self.settings.timeout
        return self.call_clients(op, payload, min_ok=least, timeout=timeout, **how)
