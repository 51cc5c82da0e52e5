"""One common model by federated averaging, of parameters or of gradients, and personal ones.

*Parameters* (McMahan et al., 2017): every chosen client trains E local epochs from the global
weights, and the server averages the results. *Gradients* (FL-AGCNS, Eq. 2): every client sends its
weighted gradient in each epoch, the server adds them up, and all clients take the same optimizer
step, so that the weights themselves never travel until the final export.

Client i weighs n_i / Σ_j n_j, with n_i its training nodes, and applies the weight before it sends,
so the server only adds. The weight travels in the same sum: dividing by it makes the average right
whoever took part. One client with all nodes is exactly centralized training.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import ModelSpec, NetworkSpec, SearchedSpec
from autofgl.runtime.bounds import plausible_gradient, scale_vote
from autofgl.runtime.clients import Clients, average, weighted
from autofgl.runtime.local_model import ClientData, LocalModel, TrialModel, Weights
from autofgl.runtime.metrics import Metrics, scale_up
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import EXPORT, TAKE, Array, Form
from autofgl.runtime.reversal import Flat, FollowedAdam, flattened
from autofgl.runtime.settings import model_spec
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.secure.plain import readable

#: The smallest network of the search space: what a client has before it is given another.
SMALLEST = "identity | - | identity"


class CommonClient(SharingClient):
    """Trains the common network on its own graph; on trial, without test nodes, it may diverge."""

    saved: ClassVar[tuple[str, ...]] = ("local", "_best")

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        self.settings = settings
        gradients = self._gradients = settings.aggregate == "gradients"
        self.reveal = "parties" if gradients else "server"
        self.one_sum = secure != "none" and not gradients
        kind = TrialModel if trial else LocalModel
        spec = network_spec(data.graph, settings, recipe.network)
        inputs = data.inputs(settings.normalize_features)
        self.local = kind(data.graph.name, inputs, spec, settings, data.seed)
        self._best: Weights | None = None
        self._votes = gradients and secure != "none"

    def accepts(self, opened: Mapping[str, Any], late: bool) -> bool:
        """Whether a summed gradient can be one."""
        return plausible_gradient(opened, late)

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Take in the last average; first keep the present weights if they are the best so far."""
        if payload.get("keep"):
            self._best = self.local.weights()
        if not self._gradients and "weights" in payload:
            self.local.load_weights(payload["weights"])
        gradient = average(opened) if opened else {}
        if gradient and self.settings.dp_epsilon:
            self.local.descend(gradient)
        elif gradient:
            self.local.apply(gradient)

    def update(self, payload: Payload) -> dict[str, Any]:
        """The own gradient or weights, with the own share of the training nodes."""
        if not payload["train"]:
            return weighted(self.local.weights(), 0.0) | (scale_vote({}) if self._votes else {})
        share = self.local.train_nodes / max(payload["totals"][0], 1)
        if self.settings.aggregate == "gradients":
            gradient = self.local.gradient(payload["round"])
            votes = scale_vote(gradient) if self._votes else {}
            return weighted(gradient, share) | votes
        self.train(payload["round"])
        return weighted(self.local.weights(), share)

    def reference(self) -> Mapping[str, Any]:
        """The global weights, unless gradients are averaged."""
        return {} if self.settings.aggregate == "gradients" else self.local.weights()

    def train(self, at: int) -> None:
        """The local epochs of a round, from the global weights."""
        self.local.train(self.settings.local_epochs, at)

    def settle(self, payload: Payload) -> None:
        """Take the final weights: those given, or with gradients the best that were kept."""
        if not self._gradients:
            self.local.load_weights(payload["weights"])
        elif self._best is not None:
            self.local.load_weights(self._best)

    def common_state(self) -> Payload:
        """With gradients all clients have the same weights and moments, and the server has none."""
        return self.state() if self._gradients else {}

    def load_common(self, state: Payload) -> None:
        """Take the weights and moments of the others."""
        if self._gradients:
            self.load_state(state)


class CommonServer(SharingServer):
    """Averages what the clients send, or seals the summed gradient for them."""

    saved = ("_handout", "_best_weights", "_followed")

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._gradients = settings.aggregate == "gradients"
        # A client late with parameters joins again; one late with gradients is out of step.
        self.waits_for_late = not self._gradients
        self.common_at_clients = self._gradients
        self.reveal = "parties" if self._gradients else "server"
        self.one_sum = clients.secure != "none" and not self._gradients
        self._handout: Payload = {}
        self._kept = False
        self._best_weights: Weights | None = None
        self._followed = FollowedAdam(settings.lr, settings.weight_decay)

    def begin(self, replies: Mapping[str, Payload]) -> None:  # noqa: ARG002
        """With ``parameters``, take the common initial weights."""
        if not self._gradients:
            self._handout = {"weights": self.clients.first("export", EXPORT)["weights"]}

    def handout(self) -> Payload:
        """The average, or the sealed sum that clients will average."""
        return self._handout

    def center(self) -> Mapping[str, Any]:
        """The last average; a gradient is near nothing."""
        weights: Mapping[str, Any] = self._handout.get("weights", {})
        return weights

    def update_forms(self) -> dict[str, Form]:
        """Weights of the network's shapes."""
        return {name: Array(value.shape) for name, value in self.center().items()}

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:
        """To the next average, or along the summed gradient."""
        if "sealed" in total:
            gradient = average(readable(total["sealed"]))
            return self._followed.step(flattened(gradient)) if gradient else None
        mean = average(without_figures(total)) if "share" in total else {}
        center = self.center()
        return flattened(mean) - flattened(center) if mean and center else None

    def skip(self) -> None:
        """Nothing new: clients have taken in the last gradient already."""
        if self._gradients:
            self._handout = {}

    def keep(self, best: bool) -> None:
        """The server keeps the weights that it has; those of gradients are kept by the clients."""
        self._kept = best
        if best and "weights" in self._handout:
            self._best_weights = self._handout["weights"]

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:  # noqa: ARG002
        """The next average; the last one stays if nobody trained."""
        if self._gradients:
            sealed = {"gradient": total["sealed"]} if "sealed" in total else {}
            self._handout = {**sealed, "keep": self._kept}
            return {}
        update = without_figures(total)
        weights = average(update) if update else {}
        if weights:
            self._handout = {"weights": weights}
        return {}

    def before_checkpoint(self) -> None:
        """Let the clients take in a gradient that only the present keys can open."""
        if self.clients.secure != "none" and "gradient" in self._handout:
            self.clients.call("take", self._handout, reply=TAKE, everyone=True)
            self._handout = {}

    def settle(self, last_is_best: bool) -> Payload:
        """The best weights, if the server has them."""
        if not self._gradients:
            return {"weights": self._best_weights}
        if last_is_best:
            self.clients.call("take", {"keep": True}, reply=TAKE, everyone=True)
        return {}

    def outcome(self, end: Ending) -> Outcome:
        """The common model and its federated figures."""
        exported = self.clients.first("export", EXPORT)
        return Outcome.of(
            Metrics.of(scale_up(end.total["metrics"], end.totals)),
            end.own,
            end.total["seconds"],
            end.best_round,
            exported["spec"],
            {"model": self._best_weights or exported["weights"]},
        )


def without_figures(total: Mapping[str, Any]) -> dict[str, Any]:
    """The summed update alone."""
    return {name: value for name, value in total.items() if name != "metrics"}


def network_spec(graph: ClientGraph, settings: Any, network: str = "") -> NetworkSpec:
    """The network of a recipe: a searched one as text, or the fixed one of the settings."""
    if "model" in type(settings).model_fields and "|" not in network:
        return model_spec(graph, settings)
    return SearchedSpec(
        genotype=network or SMALLEST,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        dropout=settings.dropout,
        layer_dropout=getattr(settings, "layer_dropout", 0.0),
        fusion=getattr(settings, "fusion", "all"),
    )


def sized_spec(family: str, graph: ClientGraph, settings: Any) -> ModelSpec:
    """A network of a family that has no choices but width, depth and dropout, sized for a graph."""
    return ModelSpec(
        family=family,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        layers=settings.layers,
        dropout=settings.dropout,
    )


COMMON = Sharing("common", CommonServer, CommonClient, network_spec)
