"""The client side of federated averaging; :mod:`autofgl.methods.fedavg` says what it does."""

from typing import ClassVar

import numpy as np

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Weights
from autofgl.methods.metrics import scale_down
from autofgl.methods.outcome import describe
from autofgl.methods.settings import FederatedTraining, FederationSettings
from autofgl.methods.sums import SummingParty, average, weighted
from autofgl.nn.networks import NetworkSpec
from autofgl.secure import Reveal

#: Node counts are summed in units of so many nodes, to stay within every secure mode's range.
COUNT_UNIT = 4096


class FedAvgClient(SummingParty):
    """Trains on its own graph from what the server sends."""

    operations: ClassVar[frozenset[str]] = SummingParty.operations | {
        "start", "round", "absorb", "conclude", "export",
    }  # fmt: skip

    def __init__(
        self,
        context: Context,
        graph: ClientGraph,
        spec: NetworkSpec,
        settings: FederatedTraining,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold)
        self._graph = graph
        self._settings = settings
        self._seed = seed
        self._secure = secure
        self._best: Weights | None = None
        self._adopt(spec)

    def start(self, payload: Payload) -> Payload:
        """Number of own training, validation and test nodes."""
        masks = (self._graph.train_mask, self._graph.val_mask, self._graph.test_mask)
        counts = np.array([mask.sum() for mask in masks], np.float64)
        tag = f"{payload['stage']}start"
        return {"counts": self.sums.protect(tag, {"counts": counts / COUNT_UNIT})}

    def round(self, payload: Payload) -> Payload:
        """Take in the news, evaluate it, and contribute to the next average if asked to.

        Payload: ``stage``, put before the names of all sums; ``round``; ``weights`` or
        ``gradient``, once there are any; ``keep`` if the weights held until now are the best so
        far; ``totals``, the federation's node counts; ``train``; ``contribute``.
        With a secure mode a client that does not train contributes zeros: masks need all parties.
        """
        self.absorb(payload)
        at, totals, stage = payload["round"], payload["totals"], payload["stage"]
        metrics = {"metrics": scale_down(self._local.evaluate(), totals)}
        if not payload["train"] and (self._secure == "none" or not payload["contribute"]):
            return {"metrics": self.sums.protect(f"{stage}metrics-{at}", metrics)}
        share = self._local.train_nodes / max(totals[0], 1) if payload["train"] else 0.0
        update = weighted(self._update(at, payload["train"]), share)
        if one_sum(self._settings, self._secure):
            return {"update": self.sums.protect(f"{stage}update-{at}", {**metrics, **update})}
        reveal: Reveal = "parties" if self._settings.aggregate == "gradients" else "server"
        return {
            "metrics": self.sums.protect(f"{stage}metrics-{at}", metrics),
            "update": self.sums.protect(f"{stage}update-{at}", update, reveal=reveal),
        }

    def absorb(self, payload: Payload) -> Payload:
        """Take in the last average, and first keep the weights held until now if they are best."""
        if payload.get("keep"):
            self._best = self._local.weights()
        if "weights" in payload:
            self._local.load_weights(payload["weights"])
        if "gradient" in payload:
            gradient = average(self.sums.open(payload["gradient"]))
            if gradient:
                self._local.apply(gradient)
        return {}

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the final weights: those given, or the best that were kept."""
        if "weights" in payload:
            self._local.load_weights(payload["weights"])
        elif self._best is not None:
            self._local.load_weights(self._best)
        report = {
            "metrics": scale_down(self._local.evaluate(), payload["totals"]),
            "seconds": np.array([self._local.inference_seconds(), 1.0]),
        }
        own = describe(self._graph, self._local) if self._secure == "none" else {}
        return {"report": self.sums.protect(f"{payload['stage']}conclude", report), "own": own}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The weights held now, and the network that they belong to."""
        return {"weights": self._local.weights(), "spec": self._local.spec.to_json()}

    def state(self) -> Payload:
        """Weights, optimiser and best weights."""
        state = self._local.state()
        return state if self._best is None else {**state, "best": self._best}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._local.load_state(state)
        self._best = state.get("best")

    def _adopt(self, spec: NetworkSpec) -> None:
        """Begin with a network, at its initial weights."""
        self._local = LocalModel(self._graph, spec, self._settings, self._seed)
        self._best = None

    def _update(self, at: int, train: bool) -> Weights:
        if not train:
            return self._local.weights()
        if self._settings.aggregate == "gradients":
            return self._local.gradient(at)
        self._local.train(self._settings.local_epochs, at)
        return self._local.weights()


def one_sum(settings: FederationSettings, secure: str) -> bool:
    """Whether metrics and update travel in one sum: a secure sum costs a round trip of its own.

    They cannot where the update is not for the server, or where only some clients send one.
    """
    return secure != "none" and settings.aggregate == "parameters"
