"""A model of one's own for each client, pulled towards the common one (Ditto, Li et al., 2021).

While all train the common weights w as in federated averaging, each client k trains its own v_k on
(Eq. 1 and Algorithm 1)::

    h_k(v; w) = F_k(v) + λ/2 · ‖v − w‖²

with w the common weights that the round began with: with λ = 0 every client is alone, with a large
one all have the common model. Figures are of the v_k; each client keeps the best one by its own
validation nodes. Only w is exchanged, so that secure modes hide what they hide of a common model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from autofgl.federation.payload import Payload
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import WEIGHTS, Form
from autofgl.runtime.reversal import Flat
from autofgl.runtime.sharing import Ending, Sharing
from autofgl.sharing.common import CommonClient, CommonServer, network_spec
from autofgl.sharing.own_choice import OwnChoice
from autofgl.sharing.personal import collected, with_models


class DittoClient(CommonClient):
    """Trains the common network, and one of its own near to it."""

    saved: ClassVar[tuple[str, ...]] = (*CommonClient.saved, "own", "_choice", "_common")

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        inputs, spec = data.inputs(settings.normalize_features), self.local.spec
        self.own = type(self.local)(data.graph.name, inputs, spec, settings, data.seed)
        self._choice = OwnChoice()
        self._common: Any = None

    @property
    def evaluated(self) -> LocalModel:
        """The own model."""
        return self.own

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """Balance both losses."""
        super().weigh_classes(weights)
        self.own.loss = self.own.loss.with_weights(weights)

    def show_test(self, data: ClientData) -> None:
        """Both networks' figures are of test nodes too from now on."""
        super().show_test(data)
        self.own.show_test(data.inputs(self.own.settings.normalize_features))

    def figures(self, payload: Payload) -> dict[str, Any]:
        """Figures of the own model, which is kept if it is the best so far."""
        if "round" in payload:
            self._choice.offer(self.own)
        return super().figures(payload)

    def update(self, payload: Payload) -> dict[str, Any]:
        """The own part of the common model; the own model takes its steps from h_k besides."""
        common = self.local.weights()
        update = super().update(payload)
        if payload["train"]:
            epochs = 1 if self._gradients else self.settings.local_epochs
            pull = self.own.pull(common, getattr(self.settings, "ditto_pull", 0.1))
            self.own.train(epochs, payload["round"], pull)
        return update

    def settle(self, payload: Payload) -> None:
        """Take the own model that was kept; the common one is for the export."""
        super().settle(payload)
        self._common = self.local.weights()
        self.own.load_weights(self._choice.weights or self.own.weights())
        self.local.load_weights(self.own.weights())

    def about(self) -> Payload:
        """The own model, if it is collected."""
        return collected(self.settings, self.own)

    def export(self) -> Payload:
        """The common weights: own ones stay here."""
        exported = super().export()
        if self._common is None:
            return exported
        return {**exported, "weights": self._shared(self._common)}


class DittoServer(CommonServer):
    """Averages the common model."""

    conclude_options: ClassVar[Mapping[str, Form]] = {"model": WEIGHTS}

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self.foretells = False  # reported losses are of other models

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:  # noqa: ARG002
        """The losses are of other models."""
        return None

    def outcome(self, end: Ending) -> Outcome:
        """The common model, or the clients' own ones, with the figures of the own ones."""
        return with_models(super().outcome(end), end)


DITTO = Sharing("ditto", DittoServer, DittoClient, network_spec)
