"""One common model, with the figures of what clients make of it before it is averaged.

OpenFGL evaluates so: each client's model on its own nodes, after its local epochs and before the
average. It is a way to measure, and no other way to train: weights are those of a common model.
"""

from collections.abc import Mapping, Sequence
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
from autofgl.runtime.state import Saved
from autofgl.sharing.common import CommonClient, CommonServer, network_spec
from autofgl.sharing.personal import collected, with_models


class TrainedModel(Saved):
    """What a client made of the last weights that it got, and the best of these so far."""

    saved: ClassVar[tuple[str, ...]] = ("model", "next", "_best")

    def __init__(self, data: ClientData, local: LocalModel, settings: Any) -> None:
        inputs = data.inputs(settings.normalize_features)
        self.model = type(local)(data.graph.name, inputs, local.spec, settings, data.seed)
        self.next: Weights | None = None  # what was trained since the last evaluation
        self._best: Weights | None = None

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """Balance the loss."""
        self.model.loss = self.model.loss.with_weights(weights)

    def show_test(self, data: ClientData) -> None:
        """Figures are of test nodes too from now on."""
        self.model.show_test(data.inputs(self.model.settings.normalize_features))

    def take(self, payload: Payload) -> None:
        """Keep what was evaluated last if it is the best; evaluate what was trained since."""
        if payload.get("keep"):
            self._best = self.model.weights()
        if self.next is not None:
            self.model.load_weights(self.next)
            self.next = None

    def settled(self, payload: Payload) -> Weights:
        """What was kept, which the model has from now on."""
        if self._best is not None and not payload.get("keep"):
            self.model.load_weights(self._best)
        return self.model.weights()


class BeforeAveragingClient(CommonClient):
    """Trains the common network; its figures are of the weights after its last local epochs."""

    saved: ClassVar[tuple[str, ...]] = (*CommonClient.saved, "trained", "_common")

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        self.trained = TrainedModel(data, self.local, settings)
        self._common: Weights | None = None

    @property
    def evaluated(self) -> LocalModel:
        """The weights after the last local epochs."""
        return self.trained.model

    def weigh_classes(self, weights: Any) -> None:
        """Balance both losses."""
        super().weigh_classes(weights)
        self.trained.weigh_classes(weights)

    def show_test(self, data: ClientData) -> None:
        """Both networks' figures are of test nodes too from now on."""
        super().show_test(data)
        self.trained.show_test(data)

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Keep what was evaluated last if it is the best; evaluate what was trained since."""
        self.trained.take(payload)
        super().take(payload, opened)

    def train(self, at: int) -> None:
        """The local epochs of a round."""
        super().train(at)
        self.trained.next = self.local.weights()

    def settle(self, payload: Payload) -> None:
        """Take what was kept; the common weights are for the export."""
        super().settle(payload)
        self._common = self.local.weights()
        self.local.load_weights(self.trained.settled(payload))

    def about(self) -> Payload:
        """The own weights, if they are collected."""
        return collected(self.settings, self.trained.model)

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
