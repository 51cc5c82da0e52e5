"""Federated averaging, of parameters or of gradients.

*Parameters* (McMahan et al., 2017): every chosen client trains E local epochs from the global
weights, and the server averages the results. *Gradients* (FL-AGCNS, Eq. 2): every client sends its
weighted gradient in each epoch, the server adds them up, and all clients take the same optimiser
step, so that the weights themselves never travel until the final export.

Client i weighs n_i / Σ_j n_j, with n_i its training nodes, and applies the weight before it sends,
so the server only adds. The weight travels in the same sum: dividing by it makes the average right
whoever took part. One client with all nodes is exactly centralised training.

Who learns what: the server sees each client's weighted parameters or gradients, its node counts
and its accuracies. Clients see the averages. Nobody sees features, labels or edges of another.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import FederationError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation, require
from autofgl.federation.party import Party, Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Method, Outcome, Row, Weights
from autofgl.methods.metrics import BestRound, Metrics
from autofgl.methods.outcome import describe, outcome
from autofgl.methods.settings import FederatedSettings
from autofgl.seeding import numpy_generator


class FedAvgClient(Party):
    """Trains on its own graph from what the server sends."""

    operations: ClassVar[frozenset[str]] = frozenset({"start", "round", "conclude", "export"})

    def __init__(self, graph: ClientGraph, settings: FederatedSettings, seed: int) -> None:
        self._graph = graph
        self._settings = settings
        self._local = LocalModel(graph, settings, seed)
        self._best: Weights | None = None

    def start(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Number of own training nodes."""
        return {"train": self._local.train_nodes}

    def round(self, payload: Payload) -> Payload:
        """Take in the news, evaluate it, and contribute to the next average if asked to.

        Payload: ``round``; ``weights`` or ``gradient``, once there are any; ``keep`` if the weights
        held until now are the best so far; ``total``, the federation's training nodes; ``train``.
        """
        self._take_in(payload)
        reply: Payload = {"metrics": self._local.evaluate()}
        if payload["train"]:
            share = self._local.train_nodes / max(payload["total"], 1)
            update = self._update(payload["round"])
            reply["share"] = share
            reply["update"] = {name: np.float32(share) * value for name, value in update.items()}
        return reply

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the final weights: those given, or the best that were kept."""
        if "weights" in payload:
            self._local.load_weights(payload["weights"])
        elif self._best is not None:
            self._local.load_weights(self._best)
        return describe(self._graph, self._local)

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

    def _take_in(self, payload: Payload) -> None:
        if payload.get("keep"):
            self._best = self._local.weights()
        if "weights" in payload:
            self._local.load_weights(payload["weights"])
        if "gradient" in payload:
            self._local.apply(payload["gradient"])

    def _update(self, at: int) -> Weights:
        if self._settings.aggregate == "gradients":
            return self._local.gradient(at)
        self._local.train(self._settings.local_epochs, at)
        return self._local.weights()


class FedAvg(Method):
    """The server of federated averaging.

    A round takes in the last average, evaluates it and makes the next one, in a single call to
    each client. The figures of round t are thus those of the weights after t-1 averages.
    """

    summary: ClassVar[str] = "federated averaging of parameters or gradients"
    Settings: ClassVar[type[FederatedSettings]] = FederatedSettings
    settings: FederatedSettings

    def __init__(self, federation: Federation, settings: FederatedSettings, seed: int) -> None:
        super().__init__(federation, settings, seed)
        self._total = 0
        self._news: Payload = {}
        self._best = BestRound(settings.select)
        self._best_weights: Weights | None = None

    @classmethod
    def party(cls, graph: ClientGraph, settings: FederatedSettings, seed: int) -> PartyFactory:
        """The client side."""
        return lambda _: FedAvgClient(graph, settings, seed)

    @property
    def done(self) -> bool:
        """All rounds made, or patience lost."""
        patience = self.settings.patience
        return super().done or bool(patience and self._best.since_lower_loss >= patience)

    def setup(self) -> None:
        """Count the training nodes; with ``parameters``, take the common initial weights."""
        replies = self._call("start", {})
        self._total = sum(reply["train"] for reply in replies.ok.values())
        if self.settings.aggregate == "parameters":
            self._news = {"weights": self._export()["weights"]}

    def step(self) -> Row:
        """One round."""
        self.round += 1
        chosen = self._participants()
        replies = self._call(
            "round",
            {**self._news, "round": self.round, "total": self._total},
            each={name: {"train": name in chosen} for name in self.federation.parties},
        )
        metrics = Metrics.of(_sum(reply["metrics"] for reply in replies.ok.values()))
        keep = self._judge(self.round - 1, metrics)
        self._news = self._average(replies.ok)
        if self.settings.aggregate == "gradients":
            self._news["keep"] = keep
        row = {"round": self.round, **asdict(metrics), "clients": len(chosen & set(replies.ok))}
        del row["val_nodes"]
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def finish(self) -> Outcome:
        """Evaluate the last average too, then report on the best weights."""
        news = {**self._news, "round": self.round + 1, "total": self._total, "train": False}
        replies = self._call("round", news)
        metrics = Metrics.of(_sum(reply["metrics"] for reply in replies.ok.values()))
        last_is_best = self._judge(self.round, metrics)
        if self.settings.aggregate == "gradients":
            if last_is_best:
                self._call("round", {"keep": True, "round": 0, "total": 0, "train": False})
            replies = self._call("conclude", {})
        else:
            replies = self._call("conclude", {"weights": self._best_weights})
        exported = self._export()
        return outcome(
            replies.ok, exported["spec"], {"model": exported["weights"]}, self._best.round
        )

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {
            "round": self.round,
            "total": self._total,
            "news": self._news,
            "best": asdict(self._best),
        }
        return state if self._best_weights is None else {**state, "weights": self._best_weights}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._total, self._news = state["round"], state["total"], state["news"]
        self._best = BestRound(**state["best"])
        self._best_weights = state.get("weights")

    def _judge(self, at: int, metrics: Metrics) -> bool:
        """Whether the weights just evaluated are the best so far; the server keeps what it has."""
        best = self._best.update(at, metrics)
        if best and "weights" in self._news:
            self._best_weights = self._news["weights"]
        return best

    def _participants(self) -> set[str]:
        parties = list(self.federation.parties)
        count = max(1, round(self.settings.participation * len(parties)))
        rng = numpy_generator(self.seed, "participation", self.round)
        return set(rng.choice(parties, count, replace=False).tolist())

    def _average(self, replies: Mapping[str, Payload]) -> Payload:
        updates = [reply for reply in replies.values() if "update" in reply]
        share = sum(reply["share"] for reply in updates)
        if not share:
            return {key: value for key, value in self._news.items() if key == "weights"}
        kind = "weights" if self.settings.aggregate == "parameters" else "gradient"
        names = updates[0]["update"]
        average = {
            name: _sum(reply["update"][name] for reply in updates) / np.float32(share)
            for name in names
        }
        return {kind: average}

    def _export(self) -> Payload:
        first = self.federation.parties[0]
        return self.federation.call("export", to=[first], min_ok=1).ok[first]

    def _call(self, op: str, payload: Payload, **how: Any) -> Replies:
        """Call all clients and go on without those that are gone.

        A client that misses a round of gradients is out of step with the others and is dropped too;
        with parameters it simply joins again in the next round.
        """
        replies = self.federation.call(op, payload, timeout=self.settings.timeout or None, **how)
        for name, failure in replies.failed.items():
            if failure.kind in ("exception", "refused"):
                raise FederationError(f"round {self.round}: {name}: {failure.message}")
            if failure.kind == "lost" or self.settings.aggregate == "gradients":
                self.federation.drop(name)
        return require(op, replies, self.settings.min_clients)


def _sum(values: Any) -> Any:
    """Sum in the order of the parties, keeping the dtype."""
    total, *rest = values
    for value in rest:
        total = total + value
    return total
