"""One common model by federated averaging, of parameters or of gradients, and personal ones.

*Parameters* (McMahan et al., 2017): every chosen client trains E local epochs from the global
weights, and the server averages the results. *Gradients* (FL-AGCNS, Eq. 2): every client sends its
weighted gradient in each epoch, the server adds them up, and all clients take the same optimizer
step, so that the weights themselves never travel until the final export.

Client i weighs n_i / Σ_j n_j, with n_i its training nodes, and applies the weight before it sends,
so the server only adds. The weight travels in the same sum: dividing by it makes the average right
whoever took part. One client with all nodes is exactly centralized training.

*Buffers*, such as BatchNorm's running statistics, change with every training pass and have no
gradient. With ``buffers=average`` they are averaged in the same sums, by training nodes too; whole
numbers are rounded. With ``buffers=local`` every client trains and is evaluated with its own, as in
SiloBN (Andreux et al., 2020; FedBN keeps BatchNorm's scale and shift local besides), and hands over
nothing of them until the end: then their mean goes into the common model that is left behind.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import ModelSpec, NetworkSpec, SearchedSpec
from autofgl.runtime.bounds import VOTES, plausible_gradient, scale_vote
from autofgl.runtime.clients import Clients, average, weighted
from autofgl.runtime.local_model import ClientData, LocalModel, TrialModel, Weights
from autofgl.runtime.metrics import Metrics, scale_up
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import TAKE, Array, Form, Number, export_form
from autofgl.runtime.reversal import Flat, FollowedAdam, flattened
from autofgl.runtime.settings import model_spec, own_code, own_layers
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.secure.plain import readable

#: The smallest network of the search space: what a client has before it is given another.
SMALLEST = "identity | - | identity"
#: Names of a client's own buffers in the sum of its final figures begin so.
BUFFERS = "buffers/"


class CommonClient(SharingClient):
    """Trains the common network on its own graph; on trial, without test nodes, it may diverge."""

    saved: ClassVar[tuple[str, ...]] = ("local", "_best", "_next_buffers")

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
        self._keeps_buffers = getattr(settings, "buffers", "average") == "local"
        #: What the last training pass made of the buffers, until the next round begins: those of
        #: the weights that were evaluated may yet turn out to be the best.
        self._next_buffers: Weights | None = None
        #: While the server asks what summed gradients foretell: the last step, and what the
        #: gradient after it says of it.
        self._foretells = False
        self._step: Weights = {}
        self._foretold: float | None = None

    def fingerprint(self) -> str:
        """Names and shapes of the network's parameters in short, where its code is not ours."""
        return self.local.model.fingerprint()

    def accepts(self, opened: Mapping[str, Any], late: bool) -> bool:
        """Whether a summed gradient can be one, and summed buffers what clients say they are."""
        buffers, rest = self._split(opened)
        votes = {"share": rest.get("share"), "scale": rest.pop(VOTES[1], None)}
        sound = not buffers or plausible_gradient({**buffers, **votes}, late)
        return sound and plausible_gradient(rest, late)

    def on_grid(self, opened: Mapping[str, Any]) -> Mapping[str, Any]:
        """Gradients, and no buffers."""
        return self._split(opened)[1]

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Take in the last average; first keep the present weights if they are the best so far."""
        if payload.get("keep"):
            self._best = self.local.weights()
        if "round" in payload:
            self._foretells = payload.get("foretell", False)
        if self._next_buffers is not None:
            self.local.load_buffers(self._next_buffers)
            self._next_buffers = None
        if not self._gradients and "weights" in payload:
            self._load(payload["weights"])
        buffers, gradient = self._split(average(opened) if opened else {})
        self.local.load_buffers(buffers)
        if gradient and self.settings.dp_epsilon:
            self.local.descend(gradient)
        elif gradient and self._foretells:
            self._foretell(gradient)
        elif gradient:
            self.local.apply(gradient)
            self._step = {}

    def after(self, payload: Payload) -> Payload:
        """What the last summed gradient says of the step before it, if the server asks."""
        broadcast, self._foretold = self._foretold, None
        return {} if broadcast is None or not payload.get("foretell") else {"foretold": broadcast}

    def update(self, payload: Payload) -> dict[str, Any]:
        """The own gradient or weights, with the own share of the training nodes."""
        train, before = payload["train"], self.local.buffers()
        share = self.local.train_nodes / max(payload["totals"][0], 1) if train else 0.0
        if self._gradients:
            at = payload["round"]
            vectors = self.local.gradient(at) if train else self.local.no_gradient()
        else:
            if train:
                self.train(payload["round"])
            vectors = self._shared(self.local.weights())
        buffers = self._keep_buffers(before) if train else before
        if not self._gradients:
            return weighted(vectors, share)
        votes = self._vote(vectors if train else {}, buffers if train else {})
        return weighted({**vectors, **({} if self._keeps_buffers else buffers)}, share) | votes

    def reference(self) -> Mapping[str, Any]:
        """The global weights, unless gradients are averaged."""
        return {} if self._gradients else self._shared(self.local.weights())

    def train(self, at: int) -> None:
        """The local epochs of a round, from the global weights."""
        self.local.train(self.settings.local_epochs, at)

    def settle(self, payload: Payload) -> None:
        """Take the final weights: those given, or with gradients the best that were kept."""
        if self._best is not None and not payload.get("keep"):
            self.local.load_weights(self._best)
        if not self._gradients:
            self._load(payload["weights"])
        self._final_buffers = self.local.buffers() if self._keeps_buffers else {}

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Figures of the final weights, and the own buffers for a mean of them."""
        return {**self.figures(payload), **self.buffers_for_export(payload["totals"])}

    def buffers_for_export(self, totals: list[int]) -> dict[str, Any]:
        """What a client that keeps its buffers adds to those of the common model."""
        if not self._final_buffers:
            return {}
        share = self.local.train_nodes / max(totals[0], 1)
        own = weighted(self._final_buffers, share)
        return {f"{BUFFERS}{name}": value for name, value in own.items()}

    def export(self) -> Payload:
        """The weights that all clients have alike, and the network that they belong to."""
        exported = super().export()
        return {**exported, "weights": self._shared(exported["weights"])}

    def common_state(self) -> Payload:
        """With gradients all clients have the same weights and moments, and the server has none."""
        if not self._gradients:
            return {}
        state = self.state()
        if self._keeps_buffers:
            state.pop("next_buffers", None)
            state["local"] = state["local"] | {"weights": self._shared(state["local"]["weights"])}
            state |= {"best": self._shared(state["best"])} if "best" in state else {}
        return state

    def load_common(self, state: Payload) -> None:
        """Take the weights and moments of the others; buffers that are a client's own stay."""
        if not self._gradients:
            return
        if self._keeps_buffers:
            own, local = self.local.buffers(), state["local"]
            state = {**state, "local": {**local, "weights": own | local["weights"]}}
            state |= {"best": own | state["best"]} if "best" in state else {}
        self.load_state(state)

    def _foretell(self, gradient: Weights) -> None:
        """A step along a summed gradient, which says of the step before how the loss changed.

        Where statistics of a normalization are evaluated, gradients are of another loss.
        """
        before = self.local.weights()
        self.local.apply(gradient)
        if self._step and not self.local.model.tracked_buffers:
            broadcast = sum(float(np.vdot(gradient[name], one)) for name, one in self._step.items())
            self._foretold = broadcast if np.isfinite(broadcast) else None
        after = self.local.weights()
        self._step = {name: after[name] - before[name] for name in gradient}

    def _split(self, vectors: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Buffers, and the rest."""
        names = set(self.local.model.tracked_buffers) & vectors.keys()
        buffers = {name: vectors[name] for name in vectors if name in names}
        return buffers, {name: value for name, value in vectors.items() if name not in names}

    def _shared(self, weights: Weights) -> Weights:
        """Without what stays here."""
        return self._split(weights)[1] if self._keeps_buffers else weights

    def _load(self, weights: Weights) -> None:
        """Take weights that all clients have alike."""
        self.local.load_weights((self.local.buffers() if self._keeps_buffers else {}) | weights)

    def _keep_buffers(self, before: Weights) -> Weights:
        """What training has made of the buffers; those of before stay until the next round."""
        buffers = self.local.buffers()
        if self._gradients or self._keeps_buffers:
            self.local.load_buffers(before)
        if self._keeps_buffers and buffers:
            self._next_buffers = buffers
        return buffers

    def _vote(self, gradient: Weights, buffers: Weights) -> dict[str, Any]:
        """Votes on the size of the own vectors, where nobody sees them."""
        if not self._votes:
            return {}
        votes = scale_vote(gradient)
        if self.local.model.tracked_buffers and not self._keeps_buffers:
            votes[VOTES[1]] = scale_vote(buffers)["scale"]
        return votes


class CommonServer(SharingServer):
    """Averages what the clients send, or seals the summed gradient for them."""

    saved: ClassVar[tuple[str, ...]] = ("_handout", "_best_weights", "_followed")
    begins_anew = True
    round_fields: ClassVar[Mapping[str, Form]] = {"foretold": Number()}

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._gradients = settings.aggregate == "gradients"
        # A client late with parameters joins again; one late with gradients is out of step.
        self.waits_for_late = not self._gradients
        self.common_at_clients = self._gradients
        self.reveal = "parties" if self._gradients else "server"
        self.one_sum = clients.secure != "none" and not self._gradients
        self.foretells = self._gradients and clients.secure != "none"
        self._handout: Payload = {}
        self._keeps_buffers = getattr(settings, "buffers", "average") == "local"
        self._kept = False
        self._best_weights: Weights | None = None
        self._followed = FollowedAdam(settings.lr, settings.weight_decay, settings.decoupled)

    def begin(self, replies: Mapping[str, Payload]) -> None:  # noqa: ARG002
        """With ``parameters``, take the common initial weights."""
        self._handout, self._best_weights, self._kept = {}, None, False
        if not self._gradients:
            self._handout = {"weights": self._export()["weights"]}

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
            kept = {"keep": self._kept} if self._keeps_buffers else {}
            self._handout = {"weights": weights, **kept}
        return {}

    def before_checkpoint(self) -> None:
        """Let the clients take in a gradient that only the present keys can open."""
        if self.clients.secure != "none" and "gradient" in self._handout:
            self.clients.call("take", self._handout, reply=TAKE, everyone=True)
            self._handout = {}

    def settle(self, last_is_best: bool) -> Payload:
        """The best weights, if the server has them."""
        if not self._gradients:
            kept = {"keep": last_is_best} if self._keeps_buffers else {}
            return {"weights": self._best_weights, **kept}
        if last_is_best:
            self.clients.call("take", {"keep": True}, reply=TAKE, everyone=True)
        return {}

    def outcome(self, end: Ending) -> Outcome:
        """The common model and its federated figures."""
        exported = self._export()
        weights: Weights = self._best_weights or exported["weights"]
        return Outcome.of(
            Metrics.of(scale_up(end.total["metrics"], end.totals)),
            end.own,
            end.total["seconds"],
            end.best_round,
            exported["spec"],
            {"model": {**weights, **mean_buffers(end.total)}},
        )

    def _export(self) -> Payload:
        return self.clients.first("export", export_form(own_code(self.settings)))


def mean_buffers(total: Mapping[str, Any]) -> Weights:
    """The mean of buffers that clients kept for themselves, from their last sum."""
    own = {
        name.removeprefix(BUFFERS): np.asarray(value)
        for name, value in total.items()
        if name.startswith(BUFFERS)
    }
    return average(own) if own else {}


def without_figures(total: Mapping[str, Any]) -> dict[str, Any]:
    """The summed update alone."""
    return {name: value for name, value in total.items() if name != "metrics"}


def network_spec(graph: ClientGraph, settings: Any, network: str = "") -> NetworkSpec:
    """The network of a recipe: a searched one as text, a fixed one by its family, or the fixed one
    of the settings.
    """
    if "model" in type(settings).model_fields and "|" not in network:
        return model_spec(graph, settings)
    if network and "|" not in network:
        heads = math.gcd(settings.hidden, ModelSpec.heads)  # those of gat have to fit the width
        sizes = {"hidden": settings.hidden, "dropout": settings.dropout, "heads": heads}
        return ModelSpec(network, graph.num_features, graph.classes, **sizes)
    return SearchedSpec(
        genotype=network or SMALLEST,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        dropout=settings.dropout,
        layer_dropout=getattr(settings, "layer_dropout", 0.0),
        fusion=getattr(settings, "fusion", "all"),
        own_layers=own_layers(settings),
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
