"""GraphFL's way of sharing: outer steps of MAML at some clients, then FedAvg (Wang et al., 2020).

In a round the server chooses some clients and sends them the global weights θ. Each takes outer
steps of MAML (:mod:`autofgl.sharing.meta.model`): tasks split its labeled nodes into a support set,
to which θ adapts by gradient descent, and a query set, whose loss after the adaptation is lowered.
The server averages the clients' weights by training nodes.

In the test phase every client adapts θ to its own labeled training nodes before it is evaluated. So
do *new clients*, which never train and may have labels that nobody trained on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import FederationError, UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.bounds import ROUNDING, metrics_form
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.details import (
    DETAILED,
    detail_kinds,
    objective_kinds,
    to_units,
    with_objective,
)
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import SIZE, Metrics, MetricSums, scale_down, scale_up
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import METRICS, OWN, Array, Form, export_form
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.specs import model_spec, own_code
from autofgl.runtime.summing import average, weighted
from autofgl.sharing.meta.model import MetaModel
from autofgl.tasks.counts import Counts

#: What a client's figures are of: after adaptation, and without.
KINDS = ("adapted", "unadapted")
#: Whose they are: clients that may train, and those that never do.
GROUPS = ("seen", "new")


class MetaClient(SharingClient):
    """Meta-learns on its own graph from the weights that the server sends."""

    local: MetaModel

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        del recipe, trial
        self.data = data
        self.settings = settings
        self.secure = secure
        self.one_sum = secure != "none"
        inputs, spec = data.inputs(settings.normalize_features), model_spec(data.graph, settings)
        self.local = MetaModel(data.graph.name, inputs, spec, settings, data.seed)
        self._seen = True

    def fingerprint(self) -> str:
        """Names and shapes of the network's parameters in short, where its code is not ours."""
        return self.local.model.fingerprint()

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Take in the global weights; a new client is given none before the end."""
        self._seen = "weights" in payload
        if self._seen:
            self.receive(payload)

    def receive(self, payload: Payload) -> None:
        """The global weights of a message."""
        self.local.load_weights(payload["weights"])

    def figures(self, payload: Payload) -> dict[str, Any]:
        """Metrics of every kind, ``[18]``; a new client has none, or zeros: masks need all."""
        if not self._seen and self.secure == "none":
            return {}
        metrics, counts = self._kinds(payload["totals"], objective_kinds(self.settings), ["val"])
        figures = {"metrics": metrics, **to_units(counts, "val_")}
        if self._seen:
            return figures
        return {name: np.zeros_like(value) for name, value in figures.items()}

    def update(self, payload: Payload) -> dict[str, Any]:
        """Outer steps; the weights with the own share of the training nodes."""
        train = payload["train"]
        loss = self.learn(payload) if train else 0.0
        share = self.local.taught_nodes / max(payload["totals"][0], 1) if train else 0.0
        vectors = {**self.vectors(), "query_loss": np.array(loss, np.float32)}
        return weighted(vectors, share)

    def reference(self) -> Mapping[str, Any]:
        """The global weights."""
        return self.vectors()

    def learn(self, payload: Payload) -> float:
        """Train for a round; the query loss."""
        return self.local.learn(payload["round"])

    def vectors(self) -> Weights:
        """What the server averages."""
        return self.local.weights()

    def settle(self, payload: Payload) -> None:
        """Take the final weights; ``new`` says in which group of clients this one is."""
        self.receive(payload)

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Figures by group and kind, ``[2, 18]``."""
        metrics = np.zeros((len(GROUPS), len(KINDS) * SIZE))
        group = GROUPS.index("new" if payload["new"] else "seen")
        metrics[group], _ = self._kinds(payload["totals"], [], [])
        return {"metrics": metrics}

    def details(self) -> dict[str, Any]:
        """Counted predictions of every kind, one after the other."""
        _, counts = self._kinds([1, 1, 1], detail_kinds(self.settings), DETAILED)
        return to_units(counts)

    def describe(self, graph: ClientGraph) -> Payload:
        """Sizes and metrics, as the client tells them in the clear."""
        return {
            "nodes": graph.num_nodes,
            "edges": graph.num_links,
            "metrics": self.local.evaluate_adapted(),
            "unadapted": self.local.evaluate(),
        }

    def _kinds(
        self, totals: list[int], counted: Sequence[str], splits: Sequence[str]
    ) -> tuple[MetricSums, dict[str, Counts]]:
        """Metrics of every kind, and their predictions, counted in some ways."""
        kinds = (self.local.adapted_logits(), self.local.logits())
        sums = [scale_down(self.local.loss_sums(logits), totals) for logits in kinds]
        counts = [self.local.counts_of(logits, counted, splits) for logits in kinds]
        stacked = {kind: np.concatenate([one[kind] for one in counts]) for kind in counted}
        return np.concatenate(sums), stacked


class MetaServer(SharingServer):
    """Averages the clients' weights; knows new clients from those that train."""

    saved: ClassVar[tuple[str, ...]] = ("new", "spec", "weights", "best_weights", "_best_kind")
    waits_for_late = True  # all that counts comes with the next call
    conclude_fields: ClassVar = {"own": OWN.having(unadapted=METRICS)}
    kinds: ClassVar[int] = len(KINDS)

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self.one_sum = clients.secure != "none"
        self.new = new_clients(clients.names, settings.new_clients)
        self.spec: dict[str, Any] = {}
        self.weights: Weights = {}
        self.best_weights: Weights = {}
        self._kind = self._best_kind = "adapted"

    def begin(self, replies: Mapping[str, Payload]) -> None:  # noqa: ARG002
        """Take the common initial weights."""
        exported = self.clients.first("export", export_form(own_code(self.settings)))
        self.weights, self.spec = exported["weights"], exported["spec"]

    def participants(self, at: int) -> set[str]:
        """All clients that may train have an equal chance; nobody trains if a secure sum of those
        few would say too much.
        """
        names = self.trainable()
        return self.draw(names, at) if len(names) >= self.clients.fewest else set()

    def trainable(self) -> list[str]:
        """Clients that are not new."""
        names = [name for name in self.clients.names if name not in self.new]
        if not names:
            raise FederationError("no client is left that may train")
        return names

    def handout(self) -> Payload:
        """Nothing that new clients may have, too."""
        return {}

    def handout_each(self, chosen: set[str]) -> dict[str, Payload]:
        """Whether a client trains, and the global weights unless it is a new one."""
        each: dict[str, Payload] = {}
        for name in self.clients.names:
            each[name] = {"train": name in chosen}
            if name not in self.new:
                each[name]["weights"] = self.weights
        return each

    def figure_forms(self, most: float) -> dict[str, Form]:
        """Metrics of every kind."""
        return {"metrics": metrics_form(len(KINDS) * SIZE, most)}

    def final_forms(self, most: float) -> dict[str, Form]:
        """The same by group."""
        return {"metrics": metrics_form(None, most)}

    def update_forms(self) -> dict[str, Form]:
        """Weights of the network's shapes, and a loss."""
        weights = {name: Array(value.shape) for name, value in self.weights.items()}
        return {**weights, "query_loss": Array((), -ROUNDING)}

    def center(self) -> Mapping[str, Any] | None:
        """The last average."""
        return self.weights

    def judge(self, figures: Mapping[str, Any], totals: list[int]) -> tuple[Row, Metrics]:
        """Figures of the kind that counts: adapted, or not where that is better."""
        kinds = {
            kind: with_objective(metrics, self.settings, figures, KINDS.index(kind))
            for kind, metrics in kinds_of(figures["metrics"], totals).items()
        }
        better = kinds["unadapted"].score > kinds["adapted"].score
        unadapted = better and self.settings.adapt == "if-better"
        self._kind = "unadapted" if unadapted else "adapted"
        metrics = kinds[self._kind]
        return {**metrics.row(), **unadapted_row(kinds["unadapted"])}, metrics

    def keep(self, best: bool) -> None:
        """The weights just evaluated are the best so far, or not."""
        if best:
            self.best_weights, self._best_kind = self.weights, self._kind

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:  # noqa: ARG002
        """FedAvg; the mean query loss."""
        evaluated = self.figure_forms(0.0)
        update = {name: value for name, value in total.items() if name not in evaluated}
        return {"query_loss": self.average(update)}

    def average(self, update: Mapping[str, Any]) -> float:
        """Take the mean of the clients' weights; the mean query loss."""
        mean = average(update) if update else {}
        if not mean:
            return 0.0
        loss = float(mean.pop("query_loss"))
        self.weights = mean
        return loss

    def settle(self, last_is_best: bool) -> Payload:  # noqa: ARG002
        """The best weights."""
        return {"weights": self.best_weights}

    def settle_each(self) -> dict[str, Payload]:
        """Who is new."""
        return {name: {"new": name in self.new} for name in self.clients.names}

    def network(self) -> tuple[dict[str, Any], Weights]:
        """The network that the run leaves behind."""
        return self.spec, self.best_weights

    @property
    def result_kind(self) -> int:  # type: ignore[override]
        """The kind of the best round."""
        return KINDS.index(self._best_kind)

    def outcome(self, end: Ending) -> Outcome:
        """The global model; figures with and without adaptation, of seen and of new clients."""
        groups = end.total["metrics"].reshape(len(GROUPS), len(KINDS) * SIZE)
        spec, weights = self.network()
        own = end.own
        if self._best_kind != "adapted":
            own = {name: one and {**one, "metrics": one["unadapted"]} for name, one in own.items()}
        outcome = Outcome.of(
            kinds_of(groups.sum(0), end.totals)[self._best_kind],
            own,
            end.total["seconds"],
            end.best_round,
            spec,
            {"model": weights},
        )
        lines = [self.client_line(line, end.own[line["name"]]) for line in outcome.per_client]
        apart = {**self._apart(groups, end.totals), "adapted": self._best_kind == "adapted"}
        return replace(outcome, per_client=lines, extra={**outcome.extra, **apart})

    def client_line(self, line: dict[str, Any], own: Payload) -> dict[str, Any]:
        """A client's line in the result: also its group and what adaptation is worth."""
        line = {**line, "new": line["name"] in self.new}
        return line | unadapted_row(Metrics.of(own["unadapted"])) if own else line

    def _apart(self, groups: Any, totals: list[int]) -> dict[str, Any]:
        """Figures without adaptation, and those of seen and new clients where there are both."""
        apart: dict[str, Any] = unadapted_row(kinds_of(groups.sum(0), totals)["unadapted"])
        if not self.new:
            return apart
        for group, sums in zip(GROUPS, groups, strict=True):
            kinds = kinds_of(sums, totals)
            metrics = kinds[self._best_kind]
            members = [
                name for name in self.clients.names if (name in self.new) == (group == "new")
            ]
            apart[group] = {
                "clients": len(members),
                "val_accuracy": metrics.val_accuracy,
                "test_accuracy": metrics.test_accuracy,
                **unadapted_row(kinds["unadapted"]),
            }
        return apart


def new_clients(names: Sequence[str], count: int) -> frozenset[str]:
    """The last ``count`` clients; a UserError if nobody is left to train."""
    if count >= len(names):
        raise UserError(f"new_clients={count} leaves none of the {len(names)} clients to train")
    return frozenset(names[len(names) - count :])


def kinds_of(scaled: Any, totals: list[int]) -> dict[str, Metrics]:
    """Federated figures by kind, from scaled sums ``[18]``."""
    rows = np.asarray(scaled).reshape(len(KINDS), SIZE)
    return {kind: Metrics.of(scale_up(row, totals)) for kind, row in zip(KINDS, rows, strict=True)}


def unadapted_row(metrics: Metrics) -> dict[str, float]:
    """Columns of the figures without adaptation."""
    return {
        "unadapted_val_accuracy": metrics.val_accuracy,
        "unadapted_test_accuracy": metrics.test_accuracy,
    }


META = Sharing("meta", MetaServer, MetaClient, model_spec)
