"""The lines that every method is measured against: pooled, alone, and federated averaging."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from autofgl.federation import Federation
from autofgl.federation.party import Context, PartyFactory
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import pool
from autofgl.nn.models.spec import NetworkSpec
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.details import detailed, plain_sum, shapes, with_objective
from autofgl.runtime.device import choose_device
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.method import Method, SharedTraining
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.replies import export_form
from autofgl.runtime.settings import AloneSettings
from autofgl.runtime.specs import model_spec, own_code
from autofgl.sharing.alone import CONCLUDE, ROUND, AloneClient
from autofgl.sharing.ways import WAYS


class FedAvg(SharedTraining):
    """Federated averaging of one common network (:mod:`autofgl.sharing.common`)."""

    Settings = FederatedSettings
    ways: ClassVar = WAYS


class Separate(Method):
    """Every client alone: no weights are exchanged until its model is put into the run folder."""

    Settings = AloneSettings
    sums_securely: ClassVar[bool] = False
    saved = ("_all_stopped",)

    def __init__(
        self, federation: Federation, settings: AloneSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._all_stopped = False

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: Any, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        del secure  # nothing is summed that would need it

        def build(context: Context) -> AloneClient:
            return AloneClient(ClientData(graph, seed, choose_device(context.device)), settings)

        return build

    @classmethod
    def network(cls, graph: ClientGraph, settings: Any) -> NetworkSpec:
        """The network that the settings ask for."""
        return model_spec(graph, settings)

    @property
    def done(self) -> bool:
        """All rounds made, or every client stopped."""
        return super().done or self._all_stopped

    def connect(self) -> None:
        """There are no keys to agree on."""

    def setup(self) -> None:
        """Nothing to agree on."""

    def step(self) -> Row:
        """One epoch at every client."""
        self.round += 1
        replies = self._alike(self.clients.call("round", {"round": self.round}, reply=ROUND).ok)
        metrics = Metrics.of(np.sum([reply["metrics"] for reply in replies.values()], axis=0))
        metrics = with_objective(metrics, self.settings, plain_sum(replies, "val_"))
        self._all_stopped = all(reply["stopped"] for reply in replies.values())
        return {"round": self.round, **metrics.row(), "clients": len(replies)}

    def finish(self) -> Outcome:
        """Report on every client's best weights."""
        replies = self.clients.call("conclude", {"round": self.round}, reply=CONCLUDE).ok
        form = export_form(own_code(self.settings))
        exports = self.clients.call("export", {}, reply=form).ok
        replies = {name: reply for name, reply in replies.items() if name in exports}
        replies = self._alike(replies)
        exports = {name: one for name, one in exports.items() if name in replies}
        alone = len(exports) == 1
        models = {"model" if alone else name: one["weights"] for name, one in exports.items()}
        seconds = [reply["seconds"] for reply in replies.values()]
        outcome = Outcome.of(
            Metrics.of(np.sum([reply["own"]["metrics"] for reply in replies.values()], axis=0)),
            {name: reply["own"] for name, reply in replies.items()},
            (float(np.mean(seconds)), 1.0),
            max(reply["best_round"] for reply in replies.values()),
            next(iter(exports.values()))["spec"],
            models,
        )
        return detailed(outcome, self.settings, plain_sum(replies), replies)

    def _alike(self, replies: Mapping[str, Payload]) -> dict[str, Payload]:
        """Replies with counts of the same shapes; who has others is a bad client."""
        self.clients.agreed(
            {name: {"shapes": shapes(one)} for name, one in replies.items()}, ["shapes"]
        )
        return {name: one for name, one in replies.items() if name not in self.clients.dropped}


class Centralized(Separate):
    """As :class:`Separate`, with one client that has all graphs, cross-client edges included."""

    pools: ClassVar[bool] = True

    @classmethod
    def arrange(cls, clients: Sequence[ClientGraph]) -> list[ClientGraph]:
        """One client that has everything, named as a federation of one names its client."""
        return [replace(pool(clients), name="client-0")]
