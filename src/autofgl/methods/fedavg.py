"""Federated averaging, of parameters or of gradients.

*Parameters* (McMahan et al., 2017): every chosen client trains E local epochs from the global
weights, and the server averages the results. *Gradients* (FL-AGCNS, Eq. 2): every client sends its
weighted gradient in each epoch, the server adds them up, and all clients take the same optimiser
step, so that the weights themselves never travel until the final export.

Client i weighs n_i / Σ_j n_j, with n_i its training nodes, and applies the weight before it sends,
so the server only adds. The weight travels in the same sum: dividing by it makes the average right
whoever took part. One client with all nodes is exactly centralised training.

Who learns what: with ``secure=none`` the server sees each client's weighted parameters or
gradients, its node counts and its accuracies. With the other modes it sees only their sums, and
with gradients not even those: the clients alone open the summed gradient. Clients see the averages.
Nobody sees features, labels or edges of another.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import FederationError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation, require
from autofgl.federation.party import Context, Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Method, Outcome, Row, Weights
from autofgl.methods.metrics import BestRound, Metrics, scale_down, scale_up
from autofgl.methods.outcome import Report, describe, outcome
from autofgl.methods.settings import FederatedSettings
from autofgl.methods.sums import FederatedSums, SummingParty, average, weighted
from autofgl.seeding import numpy_generator

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
        settings: FederatedSettings,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold)
        self._graph = graph
        self._settings = settings
        self._secure = secure
        self._local = LocalModel(graph, settings, seed)
        self._best: Weights | None = None

    def start(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Number of own training, validation and test nodes."""
        counts = self._local.evaluate().reshape(-1, 3)[:, 2]
        return {"counts": self.sums.protect("start", {"counts": counts / COUNT_UNIT})}

    def round(self, payload: Payload) -> Payload:
        """Take in the news, evaluate it, and contribute to the next average if asked to.

        Payload: ``round``; ``weights`` or ``gradient``, once there are any; ``keep`` if the weights
        held until now are the best so far; ``totals``, the federation's node counts; ``train``.
        With a secure mode a client that does not train contributes zeros: masks need all parties.
        """
        self.absorb(payload)
        at, train = payload["round"], payload["train"]
        reply = {"metrics": self._metrics(f"metrics-{at}", payload["totals"])}
        if train or (self._secure != "none" and payload["contribute"]):
            share = self._local.train_nodes / max(payload["totals"][0], 1) if train else 0.0
            reply["update"] = self.sums.protect(
                f"update-{at}", weighted(self._update(at, train), share), reveal=self._reveal
            )
        return reply

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
        seconds = np.array([self._local.inference_seconds(), 1.0])
        reply = {
            "metrics": self._metrics("conclude-metrics", payload["totals"]),
            "seconds": self.sums.protect("conclude-seconds", {"seconds": seconds}),
        }
        own = describe(self._graph, self._local) if self._secure == "none" else {}
        return {**reply, "own": own}

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

    @property
    def _reveal(self) -> Any:
        return "parties" if self._settings.aggregate == "gradients" else "server"

    def _metrics(self, tag: str, totals: list[int]) -> Payload:
        scaled = scale_down(self._local.evaluate(), totals)
        return self.sums.protect(tag, {"metrics": scaled})

    def _update(self, at: int, train: bool) -> Weights:
        if not train:
            return self._local.weights()
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
    sums_securely: ClassVar[bool] = True
    settings: FederatedSettings

    def __init__(
        self, federation: Federation, settings: FederatedSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._sums = FederatedSums(federation, secure, settings.secure_threshold)
        self._totals = [0, 0, 0]
        self._news: Payload = {}
        self._best = BestRound(settings.select)
        self._best_weights: Weights | None = None

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: FederatedSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        return lambda context: FedAvgClient(context, graph, settings, seed, secure)

    @property
    def done(self) -> bool:
        """All rounds made, or patience lost."""
        patience = self.settings.patience
        return super().done or bool(patience and self._best.since_lower_loss >= patience)

    def connect(self) -> None:
        """Agree on keys."""
        self._sums.setup()

    def setup(self) -> None:
        """Count the nodes; with ``parameters``, take the common initial weights."""
        replies = self._call("start", {}).ok
        counts = self._sums.total("start", replies, "counts")["counts"] * COUNT_UNIT
        self._totals = [round(float(count)) for count in counts]
        if self.settings.aggregate == "parameters":
            self._news = {"weights": self._export()["weights"]}

    def step(self) -> Row:
        """One round."""
        self.round += 1
        chosen = self._participants()
        replies = self._round(chosen)
        metrics = self._metrics(f"metrics-{self.round}", replies.ok)
        keep = self._judge(self.round - 1, metrics)
        self._news = self._average(replies.ok)
        if self.settings.aggregate == "gradients":
            self._news["keep"] = keep
        row = {"round": self.round, **asdict(metrics), "clients": len(chosen & set(replies.ok))}
        del row["val_nodes"]
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def before_checkpoint(self) -> None:
        """Let the clients take in a gradient that only the present keys can open."""
        if self.secure != "none" and "gradient" in self._news:
            self._call("absorb", self._news)
            self._news = {}

    def finish(self) -> Outcome:
        """Evaluate the last average too, then report on the best weights."""
        self.round += 1
        metrics = self._metrics(f"metrics-{self.round}", self._round(set(), last=True).ok)
        self.round -= 1
        last_is_best = self._judge(self.round, metrics)
        final: Payload = {"totals": self._totals}
        if self.settings.aggregate == "parameters":
            final["weights"] = self._best_weights
        elif last_is_best:
            self._call("absorb", {"keep": True})
        replies = self._call("conclude", final).ok
        exported = self._export()
        seconds = self._sums.total("conclude-seconds", replies, "seconds")["seconds"]
        report = Report(
            metrics=self._metrics("conclude-metrics", replies),
            clients={name: reply["own"] for name, reply in replies.items()},
            inference_s=float(seconds[0] / seconds[1]),
            best_round=self._best.round,
        )
        return outcome(report, exported["spec"], {"model": exported["weights"]})

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {
            "round": self.round,
            "totals": self._totals,
            "news": self._news,
            "best": asdict(self._best),
        }
        return state if self._best_weights is None else {**state, "weights": self._best_weights}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._totals, self._news = state["round"], state["totals"], state["news"]
        self._best = BestRound(**state["best"])
        self._best_weights = state.get("weights")

    def _round(self, chosen: set[str], last: bool = False) -> Replies:
        message = {"round": self.round, "totals": self._totals, "contribute": not last}
        return self._call(
            "round",
            {**self._news, **message},
            each={name: {"train": name in chosen} for name in self.federation.parties},
        )

    def _metrics(self, tag: str, replies: Mapping[str, Payload]) -> Metrics:
        scaled = self._sums.total(tag, replies, "metrics")["metrics"]
        return Metrics.of(scale_up(scaled, self._totals))

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
        """The next news: the average itself, or the sealed sum that the clients will average."""
        tag = f"update-{self.round}"
        unchanged = {key: value for key, value in self._news.items() if key == "weights"}
        if not any("update" in reply for reply in replies.values()):
            return unchanged
        if self.settings.aggregate == "gradients":
            return {"gradient": self._sums.seal(tag, replies, "update")}
        weights = average(self._sums.total(tag, replies, "update"))
        return {"weights": weights} if weights else unchanged

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
