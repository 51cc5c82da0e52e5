"""Every client alone: nothing is exchanged.

Each client trains on its own graph, keeps its own best weights by its own validation nodes and
stops by its own patience. The server starts the rounds and adds up the figures. A balanced loss is
balanced by the client's own training nodes.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from autofgl.federation.party import Party, require_later
from autofgl.federation.payload import Payload
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.details import (
    COUNTED,
    DETAILED,
    detail_kinds,
    kind_form,
    objective_kinds,
    to_units,
    with_objective,
)
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import BestRound, Metrics
from autofgl.runtime.replies import METRICS, OWN, SECONDS, Number, Record, Truth
from autofgl.runtime.settings import AloneSettings
from autofgl.runtime.specs import model_spec
from autofgl.runtime.state import Saved
from autofgl.tasks.losses import balanced_weights

#: What a client answers to a round, and at the end.
ROUND = Record({"metrics": METRICS, "stopped": Truth()}).perhaps(
    {f"val_{kind}": kind_form(kind, [math.inf]) for kind in COUNTED}
)
CONCLUDE = Record(
    {
        "own": replace(OWN, or_nothing=False),
        "seconds": SECONDS,
        "best_round": Number(-1, 2**62, True),
    }
).perhaps({kind: kind_form(kind, [math.inf] * len(DETAILED)) for kind in COUNTED})


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
        if settings.class_weight == "balanced":  # by its own nodes: it knows no others
            weights = balanced_weights(data.label_counts())
            self._local.loss = self._local.loss.with_weights(weights)
        self._best = BestRound(settings.select)
        self._best_weights: Weights = self._local.weights()
        self._round = 0

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a round that was there before."""
        if op == "round":
            require_later("round", payload["round"], self._round)

    def _evaluate(self) -> Payload:
        kinds = objective_kinds(self._settings)
        sums, counts = self._local.evaluate_counting(kinds, ["val"])
        return {"metrics": sums, **to_units(counts, "val_")}

    def _keep_best(self, at: int, figures: Payload) -> None:
        metrics = with_objective(Metrics.of(figures["metrics"]), self._settings, figures)
        if self._best.update(at, metrics):
            self._best_weights = self._local.weights()

    @property
    def _stopped(self) -> bool:
        patience = self._settings.patience
        return bool(patience and self._best.since_lower_loss >= patience)

    def round(self, payload: Payload) -> Payload:
        """Evaluate, keep what is best, train an epoch."""
        at = self._round = payload["round"]
        figures = self._evaluate()
        if not self._stopped:
            self._keep_best(at - 1, figures)
            if not self._stopped:
                self._local.train(1, at)
        return {**figures, "stopped": self._stopped}

    def conclude(self, payload: Payload) -> Payload:
        """Report on the best weights; the last ones are looked at first."""
        if not self._stopped:
            self._keep_best(payload["round"], self._evaluate())
        self._local.load_weights(self._best_weights)
        own: Payload = {"nodes": self._graph.num_nodes, "edges": self._graph.num_links}
        kinds = detail_kinds(self._settings)
        own["metrics"], counts = self._local.evaluate_counting(kinds, DETAILED)
        seconds = self._local.inference_seconds()
        about = {"own": own, "seconds": seconds, "best_round": self._best.round}
        return {**about, **to_units(counts)}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The best weights, and the network that they belong to."""
        return {"weights": self._best_weights, "spec": self._local.spec.to_json()}
