"""GraphFL: clients that meta-learn a network which adapts to few labels.

Wang et al., 2020, as Rezaei et al., 2024, use it (stages 2 to 4 of their section 3, without the
genetic algorithm). In a round the server draws some clients and sends them the global weights θ.
Each takes outer steps of MAML (:mod:`autofgl.methods.maml`): tasks split its labelled nodes into a
support set, to which θ adapts by gradient descent, and a query set, whose loss after the adaptation
is descended. The server averages the clients' weights by training nodes (FedAvg).

In the test phase every client adapts θ to its own labelled training nodes before it is evaluated.
So do *new clients*, which never train and may have labels that nobody trained on. Validation and
test nodes are neither in a task nor adapted to. With ``adapt=if-better`` nobody adapts where the
federation's validation accuracy is better without: a client's own few nodes could not tell.

Where we differ from the authors' code: the outer step is of second order unless ``first_order`` is
set; each client takes it on its own tasks, where that code takes one for all clients together and
then averages weights adapted to the support sets; the outer optimiser keeps its moments from round
to round; clients convolve over their own edges only; the last round counts, and not the one that is
best by test.

===========  =======================================================================================
Who          learns what
===========  =======================================================================================
Server       θ of each round, federated figures with and without adaptation, those of seen and of
             new clients apart, node counts; with ``secure=none`` also each client's weights, counts
             and figures. With a secure mode sums only: but where a single client trains in a
             round, or is the only new one, the sum is its own.
Clients      θ of each round and the federation's node counts; a new client only the final θ.
Nobody else  features, labels, edges, tasks and adapted weights, which never leave a client.
===========  =======================================================================================
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import FederationError, UserError
from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedavg_client import COUNT_UNIT
from autofgl.methods.graphfl_client import GROUPS, KINDS, GraphFLClient
from autofgl.methods.graphfl_settings import GraphFLSettings
from autofgl.methods.method import Method, Outcome, Row, Weights
from autofgl.methods.metrics import SIZE, BestRound, Metrics, by_client, scale_up
from autofgl.methods.outcome import Report, outcome
from autofgl.methods.settings import model_spec
from autofgl.methods.sums import FederatedSums, average
from autofgl.seeding import numpy_generator


class GraphFL(Method):
    """The server.

    As in :class:`~autofgl.methods.fedavg.FedAvg`, a round evaluates the weights that it begins
    with: the figures of round t are those of the weights after t-1 averages.
    """

    summary: ClassVar[str] = "clients meta-learn a network that adapts to few labels"
    Settings: ClassVar[type[GraphFLSettings]] = GraphFLSettings
    sums_securely: ClassVar[bool] = True
    settings: GraphFLSettings

    def __init__(
        self, federation: Federation, settings: GraphFLSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._sums = FederatedSums(federation, secure, settings.secure_threshold)
        self._new = new_clients(federation.parties, settings.new_clients)
        self._spec: dict[str, Any] = {}
        self._totals = [0, 0, 0]
        self._weights: Weights = {}
        self._best = BestRound(settings.select)
        self._best_weights: Weights = {}
        self._counts = "adapted"

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """See :meth:`Method.check`; somebody has to train."""
        super().check(clients, settings, secure)
        new_clients([graph.name for graph in clients], settings.new_clients)
        if settings.unseen_classes > clients[0].classes - 2:
            raise UserError(
                f"unseen_classes={settings.unseen_classes} leaves fewer than two of the "
                f"{clients[0].classes} classes to train on"
            )

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: GraphFLSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        spec = model_spec(graph, settings)
        return lambda context: GraphFLClient(context, graph, spec, settings, seed, secure)

    @property
    def done(self) -> bool:
        """All rounds made, or patience lost."""
        patience = self.settings.patience
        return super().done or bool(patience and self._best.since_lower_loss >= patience)

    def connect(self) -> None:
        """Agree on keys."""
        self._sums.setup()

    def setup(self) -> None:
        """Count the nodes and take the common initial weights."""
        replies = self._call("start", {}).ok
        counts = self._sums.total("start", replies, "counts")["counts"] * COUNT_UNIT
        self._totals = [round(float(count)) for count in counts]
        first = self.federation.parties[0]
        exported = self.federation.call("export", to=[first], min_ok=1).ok[first]
        self._weights, self._spec = exported["weights"], exported["spec"]

    def step(self) -> Row:
        """One round: outer steps at the drawn clients, then FedAvg."""
        self.round += 1
        chosen = self._participants()
        replies = self._round(chosen)
        total = self._total(replies.ok)
        row: Row = {"round": self.round, **self._judge(self.round - 1, total.pop("metrics"))}
        row["query_loss"] = self._absorb(total)
        row["clients"] = len(chosen & set(replies.ok))
        row |= by_client(self._sums.own_parts(replies.ok, "metrics"))
        row |= self._note(replies.ok)
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def finish(self) -> Outcome:
        """Evaluate the last average too, then report on the chosen weights."""
        self.round += 1
        last = self._sums.total(f"metrics-{self.round}", self._round(set(), True).ok, "metrics")
        self.round -= 1
        self._judge(self.round, last["metrics"])
        replies = self._call(
            "conclude",
            {"totals": self._totals, "weights": self._best_weights, **self._common()},
            each={name: {"new": name in self._new} for name in self.federation.parties},
        ).ok
        total = self._sums.total("conclude", replies, "report")
        groups = total["metrics"].reshape(len(GROUPS), len(KINDS) * SIZE)
        report = Report(
            metrics=self._metrics(groups.sum(0))[self._counts],
            clients={name: self._counted(reply["own"]) for name, reply in replies.items()},
            inference_s=float(total["seconds"][0] / total["seconds"][1]),
            best_round=self._best.round,
        )
        spec, weights = self._network()
        found = outcome(report, spec, {"model": weights})
        clients = [self._with_own(row, replies[row["name"]]["own"]) for row in found.per_client]
        apart = {**self._apart(groups), "adapted": self._counts == "adapted"}
        return replace(found, per_client=clients, extra={**found.extra, **apart})

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {
            "round": self.round,
            "new": sorted(self._new),
            "spec": self._spec,
            "totals": self._totals,
            "weights": self._weights,
            "best": asdict(self._best),
            "best_weights": self._best_weights,
            "counts": self._counts,
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._new = state["round"], frozenset(state["new"])
        self._spec, self._totals = state["spec"], state["totals"]
        self._weights, self._best_weights = state["weights"], state["best_weights"]
        self._best, self._counts = BestRound(**state["best"]), state["counts"]

    def _participants(self) -> set[str]:
        """Stage 2: all clients that may train have an equal chance."""
        names = self._trainable()
        count = max(1, round(self.settings.participation * len(names)))
        rng = numpy_generator(self.seed, "participation", self.round)
        return set(rng.choice(names, count, replace=False).tolist())

    def _trainable(self) -> list[str]:
        """Clients that are not new."""
        names = [name for name in self.federation.parties if name not in self._new]
        if not names:
            raise FederationError(f"round {self.round}: no client is left that may train")
        return names

    def _round(self, chosen: set[str], last: bool = False) -> Replies:
        each: dict[str, Payload] = {}
        for name in self.federation.parties:
            each[name] = {"train": name in chosen, **self._duty(name)}
            if name not in self._new:
                each[name]["weights"] = self._weights
        message = {"round": self.round, "totals": self._totals, "contribute": not last}
        message |= self._common()
        return self._call("round", message, each=each)

    def _common(self) -> Payload:
        """What every message of a round tells besides."""
        return {}

    def _duty(self, name: str) -> Payload:  # noqa: ARG002
        """What a client is to do in a round besides training."""
        return {}

    def _note(self, replies: Mapping[str, Payload]) -> Row:  # noqa: ARG002
        """Take in what clients say besides, and what the history has of it."""
        return {}

    def _network(self) -> tuple[dict[str, Any], Weights]:
        """The network that the run leaves behind."""
        return self._spec, self._best_weights

    def _absorb(self, total: Mapping[str, Any]) -> float:
        """FedAvg; the mean query loss."""
        mean = average(total) if total else {}
        if not mean:
            return 0.0
        loss = float(mean.pop("query_loss"))
        self._weights = mean
        return loss

    def _total(self, replies: Mapping[str, Payload]) -> dict[str, Any]:
        """Sums of figures and, if somebody trained, of weights; one secure sum has both."""
        total: dict[str, Any] = {}
        if self.secure == "none":
            total |= self._sums.total(f"metrics-{self.round}", replies, "metrics")
        if any("update" in reply for reply in replies.values()):
            total |= self._sums.total(f"update-{self.round}", replies, "update")
        return total

    def _judge(self, at: int, scaled: Any) -> Row:
        """Figures of the present weights, which are kept if they are the best so far."""
        kinds = self._metrics(scaled)
        better = kinds["unadapted"].val_accuracy > kinds["adapted"].val_accuracy
        counts = "unadapted" if better and self.settings.adapt == "if-better" else "adapted"
        if self._best.update(at, kinds[counts]):
            self._best_weights, self._counts = self._weights, counts
        row = asdict(kinds[counts])
        del row["val_nodes"]
        return row | _unadapted(kinds)

    def _metrics(self, scaled: Any) -> dict[str, Metrics]:
        """Federated figures by kind, from scaled sums ``[18]``."""
        rows = np.asarray(scaled).reshape(len(KINDS), SIZE)
        return {
            kind: Metrics.of(scale_up(row, self._totals))
            for kind, row in zip(KINDS, rows, strict=True)
        }

    def _apart(self, groups: Any) -> dict[str, Any]:
        """Figures without adaptation, and those of seen and new clients where there are both."""
        found: dict[str, Any] = _unadapted(self._metrics(groups.sum(0)))
        if not self._new:
            return found
        for group, sums in zip(GROUPS, groups, strict=True):
            kinds = self._metrics(sums)
            metrics = kinds[self._counts]
            found[group] = {
                "clients": sum(
                    (name in self._new) == (group == "new") for name in self.federation.parties
                ),
                "val_accuracy": metrics.val_accuracy,
                "test_accuracy": metrics.test_accuracy,
                **_unadapted(kinds),
            }
        return found

    def _counted(self, own: Payload) -> Payload:
        """What a client tells, with the figures of the kind that counts."""
        return {**own, "metrics": own["unadapted"]} if own and self._counts != "adapted" else own

    def _with_own(self, row: dict[str, Any], own: Payload) -> dict[str, Any]:
        """A client's line in the result: also its group and, if told, what adaptation is worth."""
        row = {**row, "new": row["name"] in self._new}
        if not own:
            return row
        return row | _unadapted({"unadapted": Metrics.of(own["unadapted"])})

    def _call(self, op: str, payload: Payload, **how: Any) -> Replies:
        """A client that is late joins again: all that counts comes with the next call."""
        return self.call_clients(
            op,
            payload,
            min_ok=self.settings.min_clients,
            timeout=self.settings.timeout,
            wait_for_late=True,
            **how,
        )


def new_clients(names: Sequence[str], count: int) -> frozenset[str]:
    """The last ``count`` clients.

    Raises:
        UserError: Nobody is left to train.
    """
    if count >= len(names):
        raise UserError(f"new_clients={count} leaves none of the {len(names)} clients to train")
    return frozenset(names[len(names) - count :])


def _unadapted(kinds: Mapping[str, Metrics]) -> dict[str, float]:
    metrics = kinds["unadapted"]
    return {
        "unadapted_val_accuracy": metrics.val_accuracy,
        "unadapted_test_accuracy": metrics.test_accuracy,
    }
