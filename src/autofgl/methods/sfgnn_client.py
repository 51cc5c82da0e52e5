"""The client side of SFGNN and ASFGNN; :mod:`autofgl.methods.sfgnn` says what it does."""

from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.party import Context, Refused
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.candidate_client import TrialModel
from autofgl.methods.fedavg_client import COUNT_UNIT
from autofgl.methods.label_mixing import distribution, divergence, mixed
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Weights
from autofgl.methods.metrics import BestRound, Metrics, Sums, scale_down
from autofgl.methods.outcome import describe
from autofgl.methods.sfgnn_settings import SFGNNSettings, own_settings, sfgnn_spec
from autofgl.methods.sums import SummingParty, weighted
from autofgl.nn.models.sfgnn import DISCRIMINATOR


class SFGNNClient(SummingParty):
    """Keeps its message passing to itself and shares its discriminator."""

    #: Weights of the last evaluation, and the best so far.
    _held: Weights
    _best: Weights
    #: This client's own best round, and whether the last evaluation was it.
    _own_best: BestRound
    _own_held: bool

    operations: ClassVar[frozenset[str]] = SummingParty.operations | {
        "begin", "round", "conclude", "export",
    }  # fmt: skip

    def __init__(
        self, context: Context, graph: ClientGraph, settings: SFGNNSettings, seed: int, secure: str
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold)
        self._graph = graph
        self._settings = settings
        self._seed = seed
        self._secure = secure
        self._models: dict[bool, LocalModel] = {}
        self._labels = np.bincount(graph.y[graph.train_mask], minlength=graph.classes)
        self._adopt({}, trial=False)

    def begin(self, payload: Payload) -> Payload:
        """Begin with a network at its initial weights; tells the number of own nodes.

        Payload: ``stage``, put before the names of all sums; ``hyper``, this client's
        hyper-parameters; ``trial``, whether test nodes are left alone and it may diverge.
        """
        self._adopt(payload["hyper"], payload["trial"])
        masks = (self._graph.train_mask, self._graph.val_mask, self._graph.test_mask)
        counts = np.array([mask.sum() for mask in masks], np.float64)
        return {
            "told": self.sums.protect(f"{payload['stage']}begin", {"nodes": counts / COUNT_UNIT})
        }

    def round(self, payload: Payload) -> Payload:
        """Algorithm 2: mix in the last mean, evaluate, take local steps, contribute to the next.

        Payload: ``stage``; ``round``; ``totals``, the federation's node counts; ``mean`` and
        ``labels``, W_s and Q_s, once there are any; ``keep`` if the weights of the last evaluation
        are the best so far; ``contribute``, false for an evaluation alone.
        """
        self._keep(payload["keep"])
        if "mean" in payload:
            self._mix(payload["mean"], payload["labels"])
        sums = self._local.evaluate()
        self._held = self._local.weights()
        self._own_held = self._own_best.update(payload["round"] - 1, Metrics.of(sums))
        told: dict[str, Any] = self._figures(sums, payload["totals"])
        if payload["contribute"]:
            self._local.train(self._settings.local_epochs, payload["round"])
            told |= self._update()
        return {"told": self.sums.protect(f"{payload['stage']}round-{payload['round']}", told)}

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the weights that were kept.

        Payload: ``stage``; ``totals``; ``keep`` if those of the last evaluation are the best.
        """
        self._keep(payload["keep"])
        self._local.load_weights(self._best)
        told = self._figures(self._local.evaluate(), payload["totals"])
        told["seconds"] = np.array([self._local.inference_seconds(), 1.0])
        own = describe(self._graph, self._local) if self._secure == "none" else {}
        size = sum(value.size for value in self._best.values())
        return {
            "told": self.sums.protect(f"{payload['stage']}conclude", told),
            "own": own,
            "spec": self._local.spec.to_json(),
            "parameters": size,
        }

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The whole network, if the settings of this client allow it."""
        if not self._settings.collect_models:
            raise Refused("message passing stays with its client, unless collect_models is set")
        return {"weights": self._best}

    def state(self) -> Payload:
        """The network and what was kept of it."""
        return {
            "hyper": self._hyper,
            "trial": self._trial,
            "held": self._held,
            "best": self._best,
            "own_best": asdict(self._own_best),
            "own_held": self._own_held,
            **self._local.state(),
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._adopt(state["hyper"], state["trial"])
        self._held, self._best = state["held"], state["best"]
        self._own_best, self._own_held = BestRound(**state["own_best"]), state["own_held"]
        self._local.load_state(state)

    def _keep(self, all_say_so: bool) -> None:
        """Keep the weights of the last evaluation, if they are the best so far."""
        own = self._settings.chosen_by == "client"
        if self._own_held if own else all_say_so:
            self._best = self._held

    def _adopt(self, hyper: Payload, trial: bool) -> None:
        """Build the network; what is known of the graph is laid out once."""
        settings = own_settings(self._settings, hyper)
        spec = sfgnn_spec(self._graph, settings)
        if trial in self._models:
            self._models[trial].begin(spec, settings)
        else:
            kind = TrialModel if trial else LocalModel
            self._models[trial] = kind(self._graph, spec, settings, self._seed)
        self._hyper, self._trial = dict(hyper), trial
        self._local = self._models[trial]
        self._held = self._local.weights()
        self._best = self._held
        self._own_best, self._own_held = BestRound(settings.select), False

    def _mix(self, mean: Weights, labels: Any) -> None:
        """Lines 22 to 24 of Algorithm 2. Without training nodes the mean is taken as it is."""
        weights = self._local.weights()
        self._local.load_weights(weights | mixed(weights, mean, self._share(labels)))

    def _share(self, labels: Any) -> float:
        """How much of its own discriminator this client keeps."""
        if self._settings.mixing == "none" or not self._local.train_nodes:
            return 0.0
        if self._settings.mixing == "constant":
            return self._settings.keep
        return divergence(distribution(self._labels), np.asarray(labels))

    def _update(self) -> dict[str, Any]:
        """Discriminator and label counts, as Algorithm 2 uploads them in line 13.

        A client without training nodes has no say in the mean.
        """
        own = {
            name: value
            for name, value in self._local.weights().items()
            if name.startswith(DISCRIMINATOR)
        }
        labels = self._labels.astype(np.float64) / COUNT_UNIT
        return {"labels": labels, **weighted(own, float(self._local.train_nodes > 0))}

    def _figures(self, sums: Sums, totals: list[int]) -> dict[str, Any]:
        """Sums for the federation's figures, and M_i, the client's own accuracies.

        The latter is ``[4]``: validation accuracy and whether there is one, the same for test.
        """
        counts = sums.reshape(3, 3)[1:, 2] > 0
        metrics = Metrics.of(sums)
        own = np.array([metrics.val_accuracy, 0.0, metrics.test_accuracy, 0.0])
        own[1::2] = counts
        return {"metrics": scale_down(sums, totals), "own": own}
