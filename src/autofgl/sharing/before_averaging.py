"""One common model, with the figures of what clients make of it before it is averaged.

OpenFGL evaluates so: each client's model on its own nodes, after its local epochs and before the
average. It is a way to measure, and no other way to train: weights are those of a common model.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from autofgl.federation.payload import Payload
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import WEIGHTS, Form
from autofgl.runtime.reversal import Flat
from autofgl.runtime.sharing import Ending, Sharing
from autofgl.sharing.common import CommonClient, CommonServer, network_spec
from autofgl.sharing.personal import collected, with_models


class BeforeAveragingClient(CommonClient):
    """Trains the common network; its figures are of the weights after its last local epochs."""

    saved: ClassVar[tuple[str, ...]] = (
        *CommonClient.saved, "trained", "_next_trained", "_best_trained", "_common",
    )  # fmt: skip

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        inputs, spec = data.inputs(settings.normalize_features), self.local.spec
        self.trained = type(self.local)(data.graph.name, inputs, spec, settings, data.seed)
        self._next_trained: Weights | None = None
        self._best_trained: Weights | None = None
        self._common: Weights | None = None

    @property
    def evaluated(self) -> LocalModel:
        """The weights after the last local epochs."""
        return self.trained

    def weigh_classes(self, weights: Any) -> None:
        """Balance both losses."""
        super().weigh_classes(weights)
        self.trained.loss = self.trained.loss.with_weights(weights)

    def show_test(self, data: ClientData) -> None:
        """Both networks' figures are of test nodes too from now on."""
        super().show_test(data)
        self.trained.show_test(data.inputs(self.trained.settings.normalize_features))

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Keep what was evaluated last if it is the best; evaluate what was trained since."""
        if payload.get("keep"):
            self._best_trained = self.trained.weights()
        if self._next_trained is not None:
            self.trained.load_weights(self._next_trained)
            self._next_trained = None
        super().take(payload, opened)

    def train(self, at: int) -> None:
        """The local epochs of a round."""
        super().train(at)
        self._next_trained = self.local.weights()

    def settle(self, payload: Payload) -> None:
        """Take what was kept; the common weights are for the export."""
        super().settle(payload)
        self._common = self.local.weights()
        if self._best_trained is not None and not payload.get("keep"):
            self.trained.load_weights(self._best_trained)
        self.local.load_weights(self.trained.weights())

    def about(self) -> Payload:
        """The own weights, if they are collected."""
        return collected(self.settings, self.trained)

    def export(self) -> Payload:
        """The common weights."""
        exported = super().export()
        if self._common is None:
            return exported
        return {**exported, "weights": self._shared(self._common)}


class BeforeAveragingServer(CommonServer):
    """Averages parameters."""

    conclude_options: ClassVar[Mapping[str, Form]] = {"model": WEIGHTS}

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._keeps = True

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:  # noqa: ARG002
        """The losses are of other weights."""
        return None

    def outcome(self, end: Ending) -> Outcome:
        """The common model, or what clients made of it, with the figures of the latter."""
        return with_models(super().outcome(end), end)


BEFORE_AVERAGING = Sharing(
    "before-averaging", BeforeAveragingServer, BeforeAveragingClient, network_spec
)
