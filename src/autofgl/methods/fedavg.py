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

from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedavg_client import COUNT_UNIT, FedAvgClient
from autofgl.methods.method import Method, Outcome, Row, Weights
from autofgl.methods.metrics import BestRound, Metrics, by_client, scale_up
from autofgl.methods.outcome import Report, outcome
from autofgl.methods.settings import FederatedSettings, FederatedTraining, model_spec
from autofgl.methods.sums import FederatedSums, average
from autofgl.seeding import numpy_generator


class FedAvg(Method):
    """The server of federated averaging.

    A round takes in the last average, evaluates it and makes the next one, in a single call to
    each client. The figures of round t are thus those of the weights after t-1 averages.

    Args:
        federation: Its parties are :class:`FedAvgClient`.
        settings: How to train.
        seed: Root seed.
        secure: How sums are protected.
        stage: Put before the names of all sums, where one run trains several networks.
        sums: Those of the method that owns this, whose keys are then used; else it makes its own.
    """

    summary: ClassVar[str] = "federated averaging of parameters or gradients"
    Settings: ClassVar[type[FederatedSettings]] = FederatedSettings
    sums_securely: ClassVar[bool] = True
    settings: FederatedTraining

    def __init__(
        self,
        federation: Federation,
        settings: FederatedTraining,
        seed: int,
        secure: str = "none",
        stage: str = "",
        sums: FederatedSums | None = None,
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._stage = stage
        self._sums = sums or FederatedSums(federation, secure, settings.secure_threshold)
        self._totals = [0, 0, 0]
        self._news: Payload = {}
        self._best = BestRound(settings.select)
        self._best_weights: Weights | None = None

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: FederatedSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        spec = model_spec(graph, settings)
        return lambda context: FedAvgClient(context, graph, spec, settings, seed, secure)

    @property
    def done(self) -> bool:
        """All rounds made, or patience lost."""
        patience = self.settings.patience
        return super().done or bool(patience and self._best.since_lower_loss >= patience)

    @property
    def best(self) -> BestRound:
        """The best round so far, with its validation figures."""
        return self._best

    def connect(self) -> None:
        """Agree on keys."""
        self._sums.setup()

    def setup(self) -> None:
        """Count the nodes; with ``parameters``, take the common initial weights."""
        replies = self._call("start", {"stage": self._stage}).ok
        total = self._sums.total(f"{self._stage}start", replies, "counts")
        counts = total["counts"] * COUNT_UNIT
        self._totals = [round(float(count)) for count in counts]
        if self.settings.aggregate == "parameters":
            self._news = {"weights": self._export()["weights"]}

    def step(self) -> Row:
        """One round."""
        self.round += 1
        chosen = self._participants()
        replies = self._round(chosen)
        update = self._update(replies.ok)
        if "metrics" in update:
            metrics = self._figures(update.pop("metrics"))
        else:
            metrics = self._metrics(replies.ok)
        keep = self._judge(self.round - 1, metrics)
        self._news = self._next(update)
        if self.settings.aggregate == "gradients":
            self._news["keep"] = keep
        row = {"round": self.round, **asdict(metrics), "clients": len(chosen & set(replies.ok))}
        del row["val_nodes"]
        row |= by_client(self._sums.own_parts(replies.ok, "metrics"))
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def before_checkpoint(self) -> None:
        """Let the clients take in a gradient that only the present keys can open."""
        if self.secure != "none" and "gradient" in self._news:
            self._call("absorb", self._news)
            self._news = {}

    def evaluate_last(self) -> Metrics:
        """Evaluate the last average too; no round can follow."""
        self.round += 1
        metrics = self._metrics(self._round(set(), last=True).ok)
        self.round -= 1
        self._judge(self.round, metrics)
        return metrics

    def finish(self) -> Outcome:
        """Evaluate the last average too, then report on the best weights."""
        self.evaluate_last()
        last_is_best = self._best.round == self.round
        final: Payload = {"totals": self._totals, "stage": self._stage}
        if self.settings.aggregate == "parameters":
            final["weights"] = self._best_weights
        elif last_is_best:
            self._call("absorb", {"keep": True})
        replies = self._call("conclude", final).ok
        exported = self._export()
        total = self._sums.total(f"{self._stage}conclude", replies, "report")
        report = Report(
            metrics=self._figures(total["metrics"]),
            clients={name: reply["own"] for name, reply in replies.items()},
            inference_s=float(total["seconds"][0] / total["seconds"][1]),
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
        message = {"stage": self._stage, "round": self.round, "totals": self._totals}
        return self._call(
            "round",
            {**self._news, **message, "contribute": not last},
            each={name: {"train": name in chosen} for name in self.federation.parties},
        )

    def _metrics(self, replies: Mapping[str, Payload]) -> Metrics:
        return self._figures(
            self._sums.total(f"{self._stage}metrics-{self.round}", replies, "metrics")["metrics"]
        )

    def _figures(self, scaled: Any) -> Metrics:
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

    def _update(self, replies: Mapping[str, Payload]) -> dict[str, Any]:
        """The summed updates: named arrays, or sealed for the clients; empty if nobody sent one."""
        tag = f"{self._stage}update-{self.round}"
        if not any("update" in reply for reply in replies.values()):
            return {}
        if self.settings.aggregate == "gradients":
            return {"sealed": self._sums.seal(tag, replies, "update")}
        return self._sums.total(tag, replies, "update")

    def _next(self, update: dict[str, Any]) -> Payload:
        """What the clients will take in: the average, or the sealed sum that they will average."""
        if "sealed" in update:
            return {"gradient": update["sealed"]}
        weights = average(update) if update else {}
        if weights:
            return {"weights": weights}
        return {key: value for key, value in self._news.items() if key == "weights"}

    def _export(self) -> Payload:
        first = self.federation.parties[0]
        return self.federation.call("export", to=[first], min_ok=1).ok[first]

    def _call(self, op: str, payload: Payload, **how: Any) -> Replies:
        """A client late with parameters joins again; one late with gradients is out of step."""
        return self.call_clients(
            op,
            payload,
            min_ok=self.settings.min_clients,
            timeout=self.settings.timeout,
            wait_for_late=self.settings.aggregate == "parameters",
            **how,
        )
