"""Every client alone: nothing is exchanged.

Each client trains on its own graph, keeps its own best weights by its own validation nodes and
stops by its own patience. The server starts the rounds and adds up the figures.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from autofgl.federation.party import Party, require_later
from autofgl.federation.payload import Payload
from autofgl.runtime.local_model import ClientData, LocalModel, Weights
from autofgl.runtime.metrics import BestRound, Metrics, MetricSums
from autofgl.runtime.replies import METRICS, OWN, SECONDS, Number, Record, Truth
from autofgl.runtime.settings import AloneSettings, model_spec
from autofgl.runtime.state import Saved

#: What a client answers to a round, and at the end.
ROUND = Record({"metrics": METRICS, "stopped": Truth()})
CONCLUDE = Record(
    {
        "own": replace(OWN, or_nothing=False),
        "seconds": SECONDS,
        "best_round": Number(-1, 2**62, True),
    }
)


class AloneClient(Saved, Party):
    """Trains on its own graph, keeps its own best weights and stops by its own patience."""

    operations: ClassVar[frozenset[str]] = frozenset({"round", "conclude", "export"})
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "new": {"round": "training", "conclude": "concluded"},
        "training": {"round": "training", "conclude": "concluded"},
        "concluded": {"export": "concluded"},
    }
    saved = ("phase", "_round", "_local", "_best", "_best_weights")

    def __init__(self, data: ClientData, settings: AloneSettings) -> None:
        graph = self._graph = data.graph
        self._settings = settings
        inputs, spec = data.inputs(settings.normalize_features), model_spec(graph, settings)
        self._local = LocalModel(graph.name, inputs, spec, settings, data.seed)
        self._best = BestRound(settings.select)
        self._best_weights: Weights = self._local.weights()
        self._round = 0

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a round that was there before."""
        if op == "round":
            require_later("round", payload["round"], self._round)

    def _keep_best(self, at: int, sums: MetricSums) -> None:
        if self._best.update(at, Metrics.of(sums)):
            self._best_weights = self._local.weights()

    @property
    def _stopped(self) -> bool:
        patience = self._settings.patience
        return bool(patience and self._best.since_lower_loss >= patience)

    def round(self, payload: Payload) -> Payload:
        """Evaluate, keep what is best, train an epoch."""
        at = self._round = payload["round"]
        sums = self._local.evaluate()
        if not self._stopped:
            self._keep_best(at - 1, sums)
            if not self._stopped:
                self._local.train(1, at)
        return {"metrics": sums, "stopped": self._stopped}

    def conclude(self, payload: Payload) -> Payload:
        """Report on the best weights; the last ones are looked at first."""
        if not self._stopped:
            self._keep_best(payload["round"], self._local.evaluate())
        self._local.load_weights(self._best_weights)
        own: Payload = {"nodes": self._graph.num_nodes, "edges": self._graph.num_edges // 2}
        own["metrics"] = self._local.evaluate()
        seconds = self._local.inference_seconds()
        return {"own": own, "seconds": seconds, "best_round": self._best.round}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The best weights, and the network that they belong to."""
        return {"weights": self._best_weights, "spec": self._local.spec.to_json()}
