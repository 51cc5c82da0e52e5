"""One common model, then a personal one: every client fine-tunes the common model in the end."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.bounds import metrics_form
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import SIZE, Metrics, scale_down, scale_up
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.replies import WEIGHTS, Form
from autofgl.runtime.sharing import Ending, Sharing
from autofgl.sharing.common import CommonClient, CommonServer, network_spec
from autofgl.sharing.gains import Rival
from autofgl.sharing.own_choice import OwnChoice

#: Local epochs of a fine-tuning at most, where the settings say nothing else.
PERSONAL_EPOCHS = 50
#: A fine-tuning ends when its loss has not improved for so many epochs.
PATIENCE = 10
#: Learning rates of the fine-tunings, as parts of the run's own.
RATES = (1.0, 0.1)


class PersonalClient(CommonClient):
    """Trains the common network, and fine-tunes it for itself in the end.

    Each rate of :data:`RATES` has a fine-tuning of its own, with an optimizer that begins anew: the
    moments of the last round belong to other weights than those of the best one, and a step along
    them leads away. :class:`OwnChoice` knows the best epoch of all; where it is not clearly better
    the common weights stay, so that nobody is worse off on its own validation nodes. Personal
    weights never leave their client, unless they are collected: the server learns the sums of their
    figures.
    """

    saved: ClassVar[tuple[str, ...]] = (*CommonClient.saved, "_common")
    _common: Weights | None = None

    def settle(self, payload: Payload) -> None:
        """Keep the common weights for the export, then fine-tune; ``round`` names the dropout."""
        super().settle(payload)
        common = self._common = self.local.weights()
        self._rival = Rival(self.local)
        # Without nodes to train on, or to choose an epoch by, nothing is fine-tuned.
        if self.local.train_nodes and self.local.val_nodes:
            choice = OwnChoice()
            choice.offer(self.local, "common")
            epochs = getattr(self.settings, "personal_epochs", PERSONAL_EPOCHS)
            for rate in RATES:
                self.local.load_weights(common)
                self.local.restart(rate * self.settings.lr)
                fine_tune(self.local, choice, epochs, payload["round"])
            if self.alone is not None:
                self.local.load_weights(self.alone.weights)
                choice.offer(self.local, "alone")
            best = choice.weights if choice.clear else None
            self.local.load_weights(best or common)

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Figures of the personal weights, and of the common ones."""
        common = scale_down(self._rival.sums, payload["totals"])
        return {**super().final_figures(payload), "common": common}

    def describe(self, graph: ClientGraph) -> Payload:
        """Sizes and figures, and what the fine-tuning gains this client."""
        return {**super().describe(graph), "common": self._rival.against(self.local)}

    def about(self) -> Payload:
        """The personal weights, if they are collected."""
        return collected(self.settings, self.local)

    def export(self) -> Payload:
        """The common weights: personal ones stay here."""
        common = super().export()
        if self._common is None:
            return common
        return {**common, "weights": self._shared(self._common)}


class PersonalServer(CommonServer):
    """As with one common model; the result compares personal and common figures."""

    conclude_options: ClassVar[Mapping[str, Form]] = {"model": WEIGHTS}

    def settle(self, last_is_best: bool) -> Payload:
        """The best weights, and a number beyond all rounds, for the fine-tuning's dropout."""
        return {**super().settle(last_is_best), "round": self.settings.rounds + 1}

    def final_forms(self, most: float) -> dict[str, Form]:
        """Figures of the personal weights, and of the common ones."""
        return {**super().final_forms(most), "common": metrics_form(SIZE, most)}

    def outcome(self, end: Ending) -> Outcome:
        """The common model, with the figures of the personal ones."""
        outcome = with_models(super().outcome(end), end)
        common = Metrics.of(scale_up(end.total["common"], end.totals))
        figures = {
            "common_val_accuracy": common.val_accuracy,
            "common_test_accuracy": common.test_accuracy,
        }
        return replace(outcome, extra={**outcome.extra, **figures})


def fine_tune(local: LocalModel, choice: OwnChoice, epochs: int, at: int) -> None:
    """Local epochs from the present weights on, each of which is offered; it ends early when none
    was the best of them for :data:`PATIENCE` epochs. Dropout is that of the rounds from ``at`` on.
    """
    own, since = OwnChoice(), 0
    own.offer(local)
    for epoch in range(epochs):
        local.train(1, at + epoch)
        choice.offer(local, "fine-tuned")
        since = 0 if own.offer(local) else since + 1
        if since >= PATIENCE:
            return


def collected(settings: Any, local: LocalModel) -> Payload:
    """A client's own model for the server, if the settings say so."""
    return {"model": local.weights()} if getattr(settings, "collect_models", False) else {}


def with_models(outcome: Outcome, end: Ending) -> Outcome:
    """The clients' own models in place of the common one, if they are collected."""
    models = {name: reply["model"] for name, reply in end.replies.items() if "model" in reply}
    return replace(outcome, models=models) if models else outcome


PERSONAL = Sharing("personal", PersonalServer, PersonalClient, network_spec)
