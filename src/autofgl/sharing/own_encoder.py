"""Own message passing at every client, one common discriminator (ASFGNN, Zheng et al., 2020).

Every client has a GraphSAGE of its own depth that turns its nodes into embeddings (Algorithm 1) and
never leaves it, and a discriminator of two layers that turns embeddings into classes. In a round
(Algorithm 2) each client takes a local step on both and hands in its discriminator W_i, the label
counts N_i of its training nodes and its accuracy M_i; the server learns sums only::

    W_s = mean of W_i        Q_s = Σ N_i / ΣΣ N        M = mean of M_i

and sends W_s and Q_s back. A client whose labels are like everybody's takes W_s, one with other
labels keeps more of its own: W_i ← js_i · W_i + (1 − js_i) · W_s with js_i = JS(Q_i‖Q_s), or mixes
in another way (:mod:`autofgl.sharing.mixing`). One without training nodes takes W_s and has no say
in it. docs/methods.md says where we differ from the paper.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.party import Refused
from autofgl.federation.payload import Payload
from autofgl.nn.models.sfgnn import DISCRIMINATOR
from autofgl.nn.models.spec import network_summary, spec_from_json
from autofgl.runtime.bounds import ROUNDING, share_form
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.details import objective_kinds, to_units, with_objective
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import BestRound, Metrics, scale_down, scale_up
from autofgl.runtime.outcome import Outcome, Row, client_lines
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import (
    OWN,
    WEIGHTS,
    WHOLE,
    Array,
    Form,
    Named,
    Network,
    Number,
    Record,
)
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.summing import COUNT_UNIT, average, weighted
from autofgl.runtime.trial_model import TrialModel
from autofgl.sharing.common import sized_spec
from autofgl.sharing.mixing import class_wise, columns_by_class, distribution, divergence, mix


class OwnEncoderClient(SharingClient):
    """Keeps its message passing to itself and shares its discriminator."""

    one_sum = True
    saved: ClassVar[tuple[str, ...]] = (
        "local", "_evaluated", "_best", "_own_best", "_own_is_best", "_mean",
    )  # fmt: skip

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        del recipe, secure
        graph = data.graph
        self.settings = settings
        self._labels = np.bincount(graph.y[graph.train_mask], minlength=graph.classes)
        kind = TrialModel if trial else LocalModel
        inputs, spec = data.inputs(settings.normalize_features), own_encoder_spec(graph, settings)
        #: What is trained here, and what is evaluated and kept in the end: the same network.
        self.own = self.local = kind(graph.name, inputs, spec, settings, data.seed)
        self._evaluated = self._best = self.local.weights()
        self._own_best = BestRound(settings.select)
        self._own_is_best = False
        self._mean = discriminator(self._best)

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Keep the weights of the last evaluation if they are the best; mix in the last mean."""
        self._keep(payload["keep"])
        if "mean" in payload:
            self._mean = payload["mean"]
            self._mix(discriminator(self._mean), payload["labels"])

    def figures(self, payload: Payload) -> dict[str, Any]:
        """Sums for the federation's figures, and M_i, the client's own accuracies, ``[4]``.

        The latter are validation accuracy and whether there is one, and the same for test.
        """
        sums, counts = self.local.evaluate_counting(objective_kinds(self.settings), ["val"])
        judged = to_units(counts, "val_")
        metrics = with_objective(Metrics.of(sums), self.settings, judged)
        if "round" in payload:
            self._evaluated = self.local.weights()
            self._own_is_best = self._own_best.update(payload["round"] - 1, metrics)
        own = np.array([metrics.val_accuracy, 0.0, metrics.test_accuracy, 0.0])
        own[1::2] = sums.reshape(3, 3)[1:, 2] > 0
        scaled = scale_down(sums, payload["totals"])
        return {"metrics": scaled, "own": own, **judged, **self._flags()}

    def update(self, payload: Payload) -> dict[str, Any]:
        """Local steps; discriminator and label counts, as Algorithm 2 uploads them in line 13."""
        self.own.train(self.settings.local_epochs, payload["round"])
        own = discriminator(self.own.weights())
        sums = {"labels": self._labels.astype(np.float64) / COUNT_UNIT}
        if self.settings.mixes_by_class:
            sums["columns"] = columns_by_class(own, self._labels)
        return {**sums, **weighted(own, float(self.own.train_nodes > 0))}

    @property
    def diverged(self) -> bool:
        """Whether a network on trial has come to nothing here."""
        return getattr(self.own, "diverged", False)

    @property
    def own_best(self) -> BestRound:
        """The best round by the own validation nodes."""
        return self._own_best

    def reference(self) -> Mapping[str, Any]:
        """W_s of the round before."""
        return self._mean

    def settle(self, payload: Payload) -> None:
        """Take the weights that were kept."""
        self._keep(payload["keep"])
        self.local.load_weights(self._best)

    def about(self) -> Payload:
        """The network's description and size; its weights stay here."""
        size = sum(value.size for value in self._best.values())
        return {"spec": self.local.spec.to_json(), "parameters": size}

    def export(self) -> Payload:
        """The whole network, if the settings of this client allow it."""
        if not self.settings.collect_models:
            raise Refused("message passing stays with its client, unless collect_models is set")
        return {"weights": self._best}

    def _keep(self, best_for_all: bool) -> None:
        """Keep the weights of the last evaluation, if they are the best so far."""
        own = self.settings.chosen_by == "client"
        if self._own_is_best if own else best_for_all:
            self._best = self._evaluated

    def _flags(self) -> dict[str, Any]:
        """What figures say besides."""
        return self.own.flags()

    def _mix(self, mean: Weights, labels: Any) -> None:
        """Mix the mean discriminator with the own one."""
        weights = self.own.weights()
        self.own.load_weights(weights | mix(weights, mean, self._share_kept(labels)))

    def _share_kept(self, labels: Any) -> float:
        """How much of its own discriminator this client keeps."""
        if self.settings.mixing in ("none", "class") or not self.own.train_nodes:
            return 0.0
        if self.settings.mixing == "constant":
            return float(self.settings.keep)
        return divergence(distribution(self._labels), np.asarray(labels))


class OwnEncoderServer(SharingServer):
    """W_s, Q_s and M from the clients' sum (Algorithm 2, lines 16 to 19)."""

    saved = ("_handout",)
    one_sum = True
    waits_for_late = True  # a client mixes whatever it has with the next mean
    conclude_fields: ClassVar = {"own": OWN, "spec": Network(), "parameters": WHOLE}
    conclude_options: ClassVar = {"hyper": Named(Number())}

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._handout: Payload = {"keep": False}

    def participants(self, at: int) -> set[str]:  # noqa: ARG002
        """Everybody."""
        return set(self.clients.names)

    def handout(self) -> Payload:
        """W_s and Q_s, once there are any; ``keep`` if the last evaluation was the best so far."""
        return self._handout

    def handout_each(self, chosen: set[str]) -> dict[str, Payload]:  # noqa: ARG002
        """Nothing for one alone."""
        return {}

    def figure_forms(self, most: float) -> dict[str, Form]:
        """Accuracies of at most 1 of each client that has such nodes, at most all of them."""
        most_clients = len(self.clients.names) + ROUNDING

        def fault(own: Any) -> str:
            right, clients = own.reshape(2, 2).T
            wrong = (right > clients + ROUNDING) | (clients > most_clients)
            return "is out of bounds" if wrong.any() else ""

        return {**super().figure_forms(most), "own": Array((4,), -ROUNDING, also=fault)}

    def share_form(self, most: float) -> Form:  # noqa: ARG002
        """Every client with training nodes counts as one."""
        return share_form(len(self.clients.names))

    def update_forms(self) -> dict[str, Form]:
        """Label counts, and a discriminator of the last one's shapes."""
        mean = {name: Array(value.shape) for name, value in self.center().items()}
        columns = {"columns": Array((None, None))} if self.settings.mixes_by_class else {}
        return {"labels": Array((None,), -ROUNDING), **columns, **mean}

    def center(self) -> Mapping[str, Any]:
        """The last mean."""
        mean: Mapping[str, Any] = self._handout.get("mean", {})
        return mean

    def skip(self) -> None:
        """What was evaluated last is not known to be any good."""
        self._handout["keep"] = False

    def judge(self, figures: Mapping[str, Any], totals: list[int]) -> tuple[Row, Metrics]:
        """Figures by nodes; rounds compete by M, or by another objective over all nodes."""
        metrics = Metrics.of(scale_up(figures["metrics"], totals))
        metrics = with_objective(metrics, self.settings, figures)
        means = client_means(figures["own"])
        by_mean = replace(metrics, val_accuracy=means["mean_val_accuracy"])
        return {**metrics.row(), **means}, by_mean

    def keep(self, best: bool) -> None:
        """The weights just evaluated are the best so far, or not."""
        self._handout["keep"] = best

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:  # noqa: ARG002
        """The next mean, unless nobody has training nodes."""
        aside = ("metrics", "own", "labels", "columns")
        mean = average({name: value for name, value in total.items() if name not in aside})
        if mean and self.settings.mixes_by_class:
            mean = class_wise(mean, total["columns"], total["labels"])
        if mean:
            self._handout |= {"mean": mean, "labels": distribution(total["labels"])}
        return {}

    def settle(self, last_is_best: bool) -> Payload:  # noqa: ARG002
        """Whether the last evaluation was the best."""
        return {"keep": self._handout["keep"]}

    def outcome(self, end: Ending) -> Outcome:
        """Every client's network in words; its weights only if they may be collected."""
        metrics = Metrics.of(scale_up(end.total["metrics"], end.totals))
        specs = {name: reply["spec"] for name, reply in end.replies.items()}
        models = self._models() if self.settings.collect_models else {}
        told = {name: reply["hyper"] for name, reply in end.replies.items() if "hyper" in reply}
        return Outcome(
            test_accuracy=metrics.test_accuracy,
            val_accuracy=metrics.val_accuracy,
            per_client=client_lines(end.own),
            spec=next(iter(specs.values())),
            specs=specs,
            models=models,
            parameters=max(reply["parameters"] for reply in end.replies.values()),
            inference_s=float(end.total["seconds"][0] / end.total["seconds"][1]),
            architecture="; ".join(
                f"{name}: {network_summary(spec_from_json(spec))}" for name, spec in specs.items()
            ),
            extra={
                "best_round": end.best_round,
                "val_loss": metrics.val_loss,
                **client_means(end.total["own"]),
                **({"client_hyperparameters": told} if told else {}),
            },
        )

    def _models(self) -> dict[str, Any]:
        models = self.clients.call("export", {}, reply=Record({"weights": WEIGHTS})).ok
        return {name: reply["weights"] for name, reply in models.items()}


def discriminator(weights: Weights) -> Weights:
    """What of a network all clients share."""
    return {name: value for name, value in weights.items() if name.startswith(DISCRIMINATOR)}


def client_means(own: Any) -> dict[str, float]:
    """M: the mean over clients of their own accuracies, from the sum ``[4]`` of their figures."""
    right, clients = np.asarray(own).reshape(2, 2).T
    val, test = (right / np.maximum(clients, 1.0)).tolist()
    return {"mean_val_accuracy": val, "mean_test_accuracy": test}


#: The network of a client.
own_encoder_spec = partial(sized_spec, "sfgnn")
OWN_ENCODER = Sharing("own-encoder", OwnEncoderServer, OwnEncoderClient, own_encoder_spec)
