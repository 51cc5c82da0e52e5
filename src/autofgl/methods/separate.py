"""Every client alone: the baseline without communication.

Each client trains on its own graph, keeps its own best weights by its own validation nodes and
stops by its own patience. The server starts the rounds and adds up the figures; no weights are
exchanged until each client's model is put into the run folder at the end.

Who learns what: the server sees each client's node counts and accuracies and, at the end, its
model.
"""

from dataclasses import asdict
from typing import ClassVar

import numpy as np

from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.party import Party
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Method, Outcome, Row, Weights
from autofgl.methods.metrics import BestRound, Metrics
from autofgl.methods.outcome import Report, describe, outcome
from autofgl.methods.settings import AloneSettings, model_spec


class SeparateClient(Party):
    """Trains on its own graph and listens to nobody."""

    operations: ClassVar[frozenset[str]] = frozenset({"round", "conclude", "export"})

    def __init__(self, graph: ClientGraph, settings: AloneSettings, seed: int) -> None:
        self._graph = graph
        self._settings = settings
        self._local = LocalModel(graph, model_spec(graph, settings), settings, seed)
        self._best = BestRound(settings.select)
        self._best_weights: Weights = self._local.weights()

    @property
    def _stopped(self) -> bool:
        patience = self._settings.patience
        return bool(patience and self._best.since_lower_loss >= patience)

    def round(self, payload: Payload) -> Payload:
        """Evaluate, keep what is best, train an epoch."""
        at = payload["round"]
        sums = self._local.evaluate()
        if not self._stopped:
            if self._best.update(at - 1, Metrics.of(sums)):
                self._best_weights = self._local.weights()
            if not self._stopped:
                self._local.train(1, at)
        return {"metrics": sums, "stopped": self._stopped}

    def conclude(self, payload: Payload) -> Payload:
        """Report on the best weights; the last ones are looked at first."""
        if not self._stopped:
            last = Metrics.of(self._local.evaluate())
            if self._best.update(payload["round"], last):
                self._best_weights = self._local.weights()
        self._local.load_weights(self._best_weights)
        told = describe(self._graph, self._local)
        seconds = self._local.inference_seconds()
        return {"own": told, "seconds": seconds, "best_round": self._best.round}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The best weights, and the network that they belong to."""
        return {"weights": self._best_weights, "spec": self._local.spec.to_json()}

    def state(self) -> Payload:
        """Weights, optimiser, best weights and where they came from."""
        best = {"best": asdict(self._best), "best_weights": self._best_weights}
        return {**self._local.state(), **best}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._local.load_state(state)
        self._best = BestRound(**state["best"])
        self._best_weights = state["best_weights"]


class Separate(Method):
    """Starts the rounds and adds up the figures."""

    summary: ClassVar[str] = "every client trains alone, nothing is exchanged"
    Settings: ClassVar[type[AloneSettings]] = AloneSettings

    def __init__(
        self, federation: Federation, settings: AloneSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._all_stopped = False

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: AloneSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        del secure  # nothing is summed that would need it
        return lambda _: SeparateClient(graph, settings, seed)

    @property
    def done(self) -> bool:
        """All rounds made, or every client stopped."""
        return super().done or self._all_stopped

    def setup(self) -> None:
        """Nothing to agree on."""

    def step(self) -> Row:
        """One epoch at every client."""
        self.round += 1
        replies = self.call_clients("round", {"round": self.round}).ok
        metrics = Metrics.of(np.sum([reply["metrics"] for reply in replies.values()], axis=0))
        self._all_stopped = all(reply["stopped"] for reply in replies.values())
        row = {"round": self.round, **asdict(metrics), "clients": len(replies)}
        del row["val_nodes"]
        return row

    def finish(self) -> Outcome:
        """Report on every client's best weights."""
        replies = self.call_clients("conclude", {"round": self.round}).ok
        exports = self.call_clients("export", {}).ok
        models = {name: export["weights"] for name, export in exports.items()}
        spec = next(iter(exports.values()))["spec"]
        if len(models) == 1:
            models = {"model": next(iter(models.values()))}
        sums = np.sum([reply["own"]["metrics"] for reply in replies.values()], axis=0)
        report = Report(
            metrics=Metrics.of(sums),
            clients={name: reply["own"] for name, reply in replies.items()},
            inference_s=float(np.mean([reply["seconds"] for reply in replies.values()])),
            best_round=max(reply["best_round"] for reply in replies.values()),
        )
        return outcome(report, spec, models)

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {"round": self.round, "all_stopped": self._all_stopped}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._all_stopped = state["round"], state["all_stopped"]
