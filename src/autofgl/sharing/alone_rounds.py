"""Every client alone, on the round engine, so that it can be raced against ways of sharing.

As :mod:`autofgl.sharing.alone`, each client trains on its own graph, keeps its own best weights by
its own validation nodes and stops by its own patience. Only figures are summed, so that a secure
mode hides those of a single client; weights stay where they are.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from autofgl.federation.party import Refused
from autofgl.federation.payload import Payload
from autofgl.nn.models.spec import network_summary, spec_from_json
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.details import objective_kinds, to_units, with_objective
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.metrics import BestRound, Metrics, scale_down, scale_up
from autofgl.runtime.outcome import Outcome, Row, client_lines
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import OWN, WHOLE, Form, Network
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.trial_model import TrialModel
from autofgl.sharing.common import network_spec
from autofgl.tasks.losses import balanced_weights


class AloneRoundsClient(SharingClient):
    """Trains for itself; the figures that it reports are those of its best weights so far."""

    saved: ClassVar[tuple[str, ...]] = ("local", "_best", "_best_weights", "_best_figures")

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        del secure
        self.settings = settings
        kind = TrialModel if trial else LocalModel
        spec = network_spec(data.graph, settings, recipe.network)
        inputs = data.inputs(settings.normalize_features)
        self.local = kind(data.graph.name, inputs, spec, settings, data.seed)
        if (
            settings.class_weight == "balanced"
        ):  # by its own nodes: it has nothing to do with others
            self.local.loss = self.local.loss.with_weights(balanced_weights(data.label_counts()))
        self._best = BestRound(settings.select)
        self._best_weights = self.local.weights()
        self._best_figures: Payload = {}

    def weigh_classes(self, weights: Any) -> None:
        """The loss stays balanced by the client's own training nodes."""

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Nobody hands out anything."""

    def figures(self, payload: Payload) -> dict[str, Any]:
        """Evaluate the present weights, and report on the best so far."""
        if not self._stopped or not self._best_figures:
            self._evaluate(payload["round"] - 1)
        totals, best = payload["totals"], dict(self._best_figures)
        figures = {"metrics": scale_down(best.pop("sums"), totals)}
        tempered = best.pop("tempered")
        if payload.get("calibrate"):
            figures["tempered"] = tempered / max(totals[1], 1)
        return {**figures, **best, **self.local.flags()}

    def update(self, payload: Payload) -> dict[str, Any]:
        """An epoch, of which nobody hears."""
        if payload["train"] and not self._stopped:
            self.local.train(1, payload["round"])
        return {}

    def settle(self, payload: Payload) -> None:  # noqa: ARG002
        """Take the best weights."""
        self.local.load_weights(self._best_weights)

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Those of the best weights."""
        return super().figures(payload)

    def about(self) -> Payload:
        """The network's description and size; its weights stay here."""
        return {"spec": self.local.spec.to_json(), "parameters": self.local.parameters}

    def export(self) -> Payload:
        """No other party gets these weights."""
        raise Refused("who trains alone keeps its weights to itself")

    @property
    def _stopped(self) -> bool:
        patience = self.settings.patience
        return bool(patience and self._best.since_lower_loss >= patience)

    def _evaluate(self, at: int) -> None:
        sums, counts = self.local.evaluate_counting(objective_kinds(self.settings), ["val"])
        judged = to_units(counts, "val_")
        metrics = with_objective(Metrics.of(sums), self.settings, judged)
        if self._best.update(at, metrics) or not self._best_figures:
            self._best_weights = self.local.weights()
            self._best_figures = {"sums": sums, "tempered": self.local.tempered(), **judged}


class AloneRoundsServer(SharingServer):
    """Starts the rounds and adds up the figures."""

    waits_for_late = True
    conclude_fields: ClassVar[Mapping[str, Form]] = {
        "own": OWN, "spec": Network(), "parameters": WHOLE,
    }  # fmt: skip

    def participants(self, at: int) -> set[str]:  # noqa: ARG002
        """Everybody."""
        return set(self.clients.names)

    def handout(self) -> Payload:
        """Nothing."""
        return {}

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:  # noqa: ARG002
        """There is nothing to add up but figures."""
        return {}

    def outcome(self, end: Ending) -> Outcome:
        """The federated figures; no weights."""
        metrics = Metrics.of(scale_up(end.total["metrics"], end.totals))
        first = next(iter(end.replies.values()))
        return Outcome(
            test_accuracy=metrics.test_accuracy,
            val_accuracy=metrics.val_accuracy,
            per_client=client_lines(end.own),
            spec=first["spec"],
            models={},
            parameters=first["parameters"],
            inference_s=float(end.total["seconds"][0] / end.total["seconds"][1]),
            architecture=network_summary(spec_from_json(first["spec"])),
            extra={"best_round": end.best_round, "val_loss": metrics.val_loss},
        )


ALONE = Sharing("alone", AloneRoundsServer, AloneRoundsClient, network_spec)
