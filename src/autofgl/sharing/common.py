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

*FedProx* (Li et al., 2020): with ``prox`` = μ local epochs minimize F_i(w) + μ/2 · ‖w − w_t‖², with
w_t the global weights (Eq. 2).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import ModelSpec, NetworkSpec, SearchedSpec
from autofgl.runtime.bounds import VOTES, plausible_gradient, scale_vote
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import Metrics, scale_up
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import TAKE, Array, Form, Number, export_form
from autofgl.runtime.reversal import Flat, FollowedAdam, flattened
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.specs import model_spec, own_code, own_layers
from autofgl.runtime.state import restore_state, saved_state
from autofgl.runtime.summing import average, weighted
from autofgl.runtime.trial_model import TrialModel
from autofgl.secure.plain import readable
from autofgl.sharing.gains import Alone, alone_columns, alone_forms

#: The smallest network of the search space: what a client has before it is given another.
SMALLEST = "identity | - | identity"
#: Names of a client's own buffers, and of what else stays with it, in the sum of its final figures.
OWN_PART = "buffers/"


class CommonClient(SharingClient):
    """Trains the common network on its own graph; on trial, without test nodes, it may diverge."""

    saved: ClassVar[tuple[str, ...]] = ("local", "_best", "_next_own", "_own_gradient")

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        self.settings = settings
        self._data = data
        gradients = self._gradients = settings.aggregate == "gradients"
        self.reveal = "parties" if gradients else "server"
        self.one_sum = secure != "none" and not gradients
        kind = TrialModel if trial else LocalModel
        spec = network_spec(data.graph, settings, recipe.network)
        inputs = data.inputs(settings.normalize_features)
        self.local = kind(data.graph.name, inputs, spec, settings, data.seed)
        self._best: Weights | None = None
        self._votes = gradients and secure != "none"
        keeps = getattr(settings, "buffers", "average") == "local"
        #: Names of what never leaves this client: its buffers, and whatever a way keeps besides.
        self._own = frozenset(self.local.model.tracked_buffers if keeps else ())
        #: What the last training pass made of it, until the next round begins: that of the weights
        #: that were evaluated may yet turn out to be the best.
        self._next_own: Weights | None = None
        self._own_gradient: Weights | None = None
        self._final_own: Weights = {}
        #: What this client would have without a federation, if that is asked for; at the end.
        self.alone: Alone | None = None
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
        if self._next_own is not None:
            self.local.load_weights(self.local.weights() | self._next_own)
            self._next_own = None
        if not self._gradients and "weights" in payload:
            self._load(payload["weights"])
        buffers, gradient = self._split(average(opened) if opened else {})
        self.local.load_buffers(buffers)
        if gradient:
            gradient |= self._own_gradient or {}
        self._own_gradient = None
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
        train = payload["train"]
        share = self.local.train_nodes / max(payload["totals"][0], 1) if train else 0.0
        if not self._gradients:
            if train:
                before = self._own_part()
                self.train(payload["round"])
                vectors = self._shared(self.local.weights())
                self._keep_own(before)
            else:
                vectors = self._shared(self.local.weights())
            return weighted(vectors, share)
        gradient, buffers = self._gradient(payload["round"], train)
        votes = self._vote(gradient if train else {}, buffers if train else {})
        return weighted({**gradient, **buffers}, share) | votes

    def _gradient(self, at: int, train: bool) -> tuple[Weights, Weights]:
        """The gradient and the buffers that go into the sum; what stays here waits for it."""
        before = self.local.buffers()
        gradient = self.local.gradient(at) if train else self.local.no_gradient()
        buffers = self.local.buffers()
        if train:
            own = {name: gradient[name] for name in gradient if name in self._own}
            self._own_gradient = own or None
            self._keep_own({name: before[name] for name in before if name in self._own})
            self.local.load_buffers(before)
        return self._shared(gradient), self._shared(buffers if train else before)

    def reference(self) -> Mapping[str, Any]:
        """The global weights, unless gradients are averaged."""
        return {} if self._gradients else self._shared(self.local.weights())

    def train(self, at: int) -> None:
        """The local epochs of a round, from the global weights."""
        prox = getattr(self.settings, "prox", 0.0)
        adjust = self.local.pull(self.local.weights(), prox) if prox else None
        self.local.train(self.settings.local_epochs, at, adjust)

    def settle(self, payload: Payload) -> None:
        """Take the final weights: those given, or with gradients the best that were kept."""
        if self._best is not None and not payload.get("keep"):
            self.local.load_weights(self._best)
        if not self._gradients:
            self._load(payload["weights"])
        self._final_own = self._own_part()
        if getattr(self.settings, "compare_alone", False):
            self.alone = Alone(self._data, self.local.spec, self.settings)

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Figures of the final weights, and of those alone; what stays here for a mean of it."""
        totals = payload["totals"]
        alone = self.alone.figures(self.local, totals) if self.alone else {}
        return {**self.figures(payload), **self.own_for_export(totals), **alone}

    def describe(self, graph: ClientGraph) -> Payload:
        """Sizes and figures, and what the federation gains this client."""
        alone = {"alone": self.alone.rival.against(self.local)} if self.alone else {}
        return {**super().describe(graph), **alone}

    def own_for_export(self, totals: list[int]) -> dict[str, Any]:
        """What a client that keeps parts of the network adds to those of the common model."""
        if not self._final_own:
            return {}
        share = self.local.train_nodes / max(totals[0], 1)
        own = weighted(self._final_own, share)
        return {f"{OWN_PART}{name}": value for name, value in own.items()}

    def export(self) -> Payload:
        """The weights that all clients have alike, and the network that they belong to."""
        exported = super().export()
        return {**exported, "weights": self._shared(exported["weights"])}

    def common_state(self) -> Payload:
        """With gradients all clients have the same weights and moments, and the server has none."""
        if not self._gradients:
            return {}
        state = saved_state(self, ("local", "_best"))
        if self._own:
            moments = self._without_own(state["local"]["optimizer"])
            weights = self._shared(state["local"]["weights"])
            state["local"] = state["local"] | {"weights": weights, "optimizer": moments}
            state |= {"best": self._shared(state["best"])} if "best" in state else {}
        return state

    def load_common(self, state: Payload) -> None:
        """Take the weights and moments of the others; buffers that are a client's own stay."""
        if not self._gradients:
            return
        if self._own:
            own, local, mine = self._own_part(), state["local"], self.local.state()["optimizer"]
            moments = {at: mine[at] for at in mine.keys() - self._without_own(mine).keys()}
            parts = {
                "weights": own | local["weights"],
                "optimizer": moments | self._without_own(local["optimizer"]),
            }
            state = {**state, "local": {**local, **parts}}
            state |= {"best": own | state["best"]} if "best" in state else {}
        restore_state(self, ("local", "_best"), state)

    def _without_own(self, moments: Payload) -> Payload:
        """An optimizer's moments without those of parameters that stay here."""
        names = (name for name, _ in self.local.model.named_parameters())
        kept = {str(at) for at, name in enumerate(names) if name in self._own}
        return {at: one for at, one in moments.items() if at not in kept}

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
        return {name: value for name, value in weights.items() if name not in self._own}

    def _own_part(self) -> Weights:
        """What stays here."""
        weights = self.local.weights() if self._own else {}
        return {name: value for name, value in weights.items() if name in self._own}

    def _load(self, weights: Weights) -> None:
        """Take weights that all clients have alike."""
        self.local.load_weights(self._own_part() | weights)

    def _keep_own(self, before: Weights) -> None:
        """Keep what training has made of what stays here; that of before is back until the next
        round.
        """
        if self._own:
            self._next_own = self._own_part() if before else None
            self.local.load_weights(self.local.weights() | before)

    def _vote(self, gradient: Weights, buffers: Weights) -> dict[str, Any]:
        """Votes on the size of the own vectors, where nobody sees them."""
        if not self._votes:
            return {}
        votes = scale_vote(gradient)
        if buffers:
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
        self._keeps = getattr(settings, "buffers", "average") == "local"  # whether clients do
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

    def center(self) -> Mapping[str, Any] | None:
        """The last average; a gradient is near nothing."""
        weights: Mapping[str, Any] = self._handout.get("weights", {})
        return weights

    def update_forms(self) -> dict[str, Form]:
        """Weights of the network's shapes."""
        return {name: Array(value.shape) for name, value in (self.center() or {}).items()}

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
            kept = {"keep": self._kept} if self._keeps else {}
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
            kept = {"keep": last_is_best} if self._keeps else {}
            return {"weights": self._best_weights, **kept}
        if last_is_best:
            self.clients.call("take", {"keep": True}, reply=TAKE, everyone=True)
        return {}

    def final_forms(self, most: float) -> dict[str, Form]:
        """Those of a round, and of what clients would have alone."""
        alone = alone_forms(most, len(self.clients.names))
        compared = getattr(self.settings, "compare_alone", False)
        return {**super().final_forms(most), **(alone if compared else {})}

    def outcome(self, end: Ending) -> Outcome:
        """The common model and its federated figures."""
        exported = self._export()
        weights: Weights = self._best_weights or exported["weights"]
        outcome = Outcome.of(
            Metrics.of(scale_up(end.total["metrics"], end.totals)),
            end.own,
            end.total["seconds"],
            end.best_round,
            exported["spec"],
            {"model": {**weights, **mean_own(end.total)}},
        )
        if "alone" not in end.total:
            return outcome
        return replace(outcome, extra=outcome.extra | alone_columns(end.total, end.totals))

    def _export(self) -> Payload:
        return self.clients.first("export", export_form(own_code(self.settings)))


def mean_own(total: Mapping[str, Any]) -> Weights:
    """The mean of what clients kept for themselves, from their last sum."""
    own = {
        name.removeprefix(OWN_PART): np.asarray(value)
        for name, value in total.items()
        if name.startswith(OWN_PART)
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
