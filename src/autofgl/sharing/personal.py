"""One common model, then a personal one: every client fine-tunes the common model in the end."""

from dataclasses import replace
from typing import Any, ClassVar

from autofgl.federation.payload import Payload
from autofgl.runtime.bounds import metrics_form
from autofgl.runtime.details import objective_kinds, to_units, with_objective
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import SIZE, BestRound, Metrics, scale_down, scale_up
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.replies import Form
from autofgl.runtime.sharing import Ending, Sharing
from autofgl.sharing.common import CommonClient, CommonServer, network_spec

#: Local epochs of the fine-tuning, where the settings say nothing else.
PERSONAL_EPOCHS = 20


class PersonalClient(CommonClient):
    """Trains the common network, and fine-tunes it for itself in the end.

    It takes ``personal_epochs`` local epochs and keeps the one with the lowest loss on its own
    validation nodes (with ``select=objective`` the best objective), or the common weights if none
    gains. Personal weights never leave their
    client: the server learns the sums of their figures.
    """

    saved: ClassVar[tuple[str, ...]] = (*CommonClient.saved, "_common")
    _common: Weights | None = None

    def settle(self, payload: Payload) -> None:
        """Keep the common weights for the export, then fine-tune; ``round`` names the dropout."""
        super().settle(payload)
        self._common = self.local.weights()
        self._common_figures = scale_down(self.local.evaluate(), payload["totals"])
        by = self.settings.select if self.settings.select == "objective" else "loss"
        best, weights = BestRound(by), self.local.weights()
        epochs = getattr(self.settings, "personal_epochs", PERSONAL_EPOCHS)
        # Without nodes to train on, or to choose an epoch by, nothing is fine-tuned.
        can_choose = self.local.train_nodes and self.local.val_nodes
        for epoch in range(epochs + 1 if can_choose else 0):
            if best.update(epoch, self._own_metrics()):
                weights = self.local.weights()
            self.local.train(1, payload["round"] + epoch)
        self.local.load_weights(weights)

    def _own_metrics(self) -> Metrics:
        """Figures on the own nodes alone."""
        sums, counts = self.local.evaluate_counting(objective_kinds(self.settings), ["val"])
        return with_objective(Metrics.of(sums), self.settings, to_units(counts, "val_"))

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Figures of the personal weights, and of the common ones."""
        return {**super().final_figures(payload), "common": self._common_figures}

    def export(self) -> Payload:
        """The common weights: personal ones stay here."""
        common = super().export()
        if self._common is None:
            return common
        return {**common, "weights": self._shared(self._common)}


class PersonalServer(CommonServer):
    """As with one common model; the result compares personal and common figures."""

    def settle(self, last_is_best: bool) -> Payload:
        """The best weights, and a number beyond all rounds, for the fine-tuning's dropout."""
        return {**super().settle(last_is_best), "round": self.settings.rounds + 1}

    def final_forms(self, most: float) -> dict[str, Form]:
        """Figures of the personal weights, and of the common ones."""
        return {**super().final_forms(most), "common": metrics_form(SIZE, most)}

    def outcome(self, end: Ending) -> Outcome:
        """The common model, with the figures of the personal ones."""
        outcome = super().outcome(end)
        common = Metrics.of(scale_up(end.total["common"], end.totals))
        figures = {
            "common_val_accuracy": common.val_accuracy,
            "common_test_accuracy": common.test_accuracy,
        }
        return replace(outcome, extra={**outcome.extra, **figures})


PERSONAL = Sharing("personal", PersonalServer, PersonalClient, network_spec)
