"""FedGraph: graph convolution across clients, with learned sampling (Chen et al., 2021).

Every client trains a GCN on its own nodes and aggregates neighbors that other clients hold
(:mod:`autofgl.sharing.across.forward`). The server averages the weights by mini-batch size (Eq. 8).
A round is one mini-batch of every client or several (``iterations``). Each takes as many calls as
clients have to wait for each other: one, and two more for every convolution that is shared, or one
where the sample is always the same.
docs/methods.md says where we differ from the paper.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from autofgl.errors import UserError
from autofgl.federation import Federation
from autofgl.federation.party import Context, PartyFactory, Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedgraph.policy import SamplingPolicy
from autofgl.methods.fedgraph.settings import FedGraphSettings, Phase, Schedule
from autofgl.nn.features import Scaling
from autofgl.nn.models.networks import GCN
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.sampling.neighborhood import NO_WEIGHTS_ACROSS
from autofgl.nn.structure import Structure
from autofgl.runtime.bounds import (
    ROUNDING,
    SumOutOfBounds,
    UsualDistance,
    metrics_form,
    model_distance,
    share_form,
)
from autofgl.runtime.client_data import input_features
from autofgl.runtime.details import (
    detail_forms,
    detailed,
    objective_forms,
    objective_of,
    with_objective,
)
from autofgl.runtime.local_model import Weights
from autofgl.runtime.method import Method
from autofgl.runtime.metrics import SIZE, BestRound, Metrics, client_accuracies, scale_up
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.replies import EXPORT, NOTHING, OWN, SECONDS_SUM, SUM, Array, Form, Record
from autofgl.runtime.rows import BOXES, delivered
from autofgl.runtime.summing import COUNT_UNIT, average
from autofgl.secure.noise import row_noise
from autofgl.sharing.across.client import COST_UNIT, AcrossClient
from autofgl.sharing.across.forward import exchanges
from autofgl.sharing.common import sized_spec
from autofgl.tasks.losses import balanced_weights

#: What a client answers at the end of a pass.
_REPORT = Record({"metrics": SUM, "own": OWN}, frozenset({"own"}))
_LAST = {"train": Record({"update": SUM}), "evaluate": _REPORT, "judge": _REPORT}
#: A mini-batch of so many nodes is all that a client has.
ALL_NODES = 2**31 - 1


class ServerTest:
    """Labeled nodes that the server has, kept from all clients, to judge weights by."""

    def __init__(self, graph: ClientGraph, spec: ModelSpec, scaling: Scaling) -> None:
        self._features = input_features(graph, scaling)
        self._structure = Structure.from_client(graph)
        self._nodes = np.flatnonzero(graph.y >= 0)
        self._labels = torch.from_numpy(graph.y[self._nodes])
        self._model = GCN(spec).eval()

    @torch.no_grad()
    def score(self, weights: Weights, settings: FedGraphSettings) -> float:
        """The objective: share of the nodes that are classified right, unless it is another."""
        self._model.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
        logits = self._model(self._features, self._structure)[self._nodes]
        accuracy = float((logits.argmax(1) == self._labels).double().mean())
        return objective_of(settings, logits, self._labels, accuracy)


class FedGraph(Method):
    """The server (Algorithm 3)."""

    Settings = FedGraphSettings
    saved = (
        "_schedule", "_spec", "_totals", "_initial", "_weights", "_best", "_best_weights",
        "_policy", "_usual", "_class_weights",
    )  # fmt: skip
    settings: FedGraphSettings

    def __init__(
        self, federation: Federation, settings: FedGraphSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._spec: dict[str, Any] = {}
        self._totals = [0, 0, 0]
        self._weights: Weights = {}
        self._initial: Weights = {}
        self._best = BestRound(settings.select)
        self._best_weights: Weights = {}
        self._schedule = Schedule.of(settings)
        self._server_graph: ClientGraph | None = None
        self._usual = UsualDistance()
        self._policy = make_policy(federation.parties, settings, seed)
        self._class_weights: list[float] = []
        self._back = False
        #: By purpose of a pass whose sample is always the same, who has asked for it.
        self._asked: dict[str, set[str]] = {}

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """See :meth:`Method.check`; a policy that cannot be read is found out here."""
        super().check(clients, settings, secure)
        weighted = [graph.name for graph in clients if graph.edge_weight is not None]
        if weighted:
            raise UserError(f"{weighted[0]}: {NO_WEIGHTS_ACROSS}")
        make_policy([graph.name for graph in clients], settings, seed=0)

    @classmethod
    def network(cls, graph: ClientGraph, settings: FedGraphSettings) -> ModelSpec:
        """The network that the settings ask for."""
        return sized_spec("gcn", graph, settings)

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: FedGraphSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        spec = sized_spec("gcn", graph, settings)

        def build(context: Context) -> AcrossClient:
            if context.device not in ("auto", "cpu"):
                why = "fedgraph's clients exchange rows within every pass, and compute on the CPU"
                raise UserError(f"{why}: leave --device {context.device} out")
            return AcrossClient(context, graph, spec, settings, seed, secure)

        return build

    @property
    def rounds(self) -> int:
        """Rounds of learning to sample, then those of the training."""
        return self._schedule.learning + self._schedule.training

    @property
    def done(self) -> bool:
        """All rounds made, or no improvement for too long."""
        patience = self.settings.patience
        return super().done or bool(patience and self._best.since_lower_loss >= patience)

    def wrap_up(self) -> None:
        """The budget is spent: learn no more and train; or, if training has begun, end."""
        self._wrapped_up = self.round >= self._schedule.learning
        self._schedule.hurry(self.round)

    def take_server_graph(self, graph: ClientGraph) -> None:
        """A graph that was kept from all clients, to judge weights by."""
        self._server_graph = graph

    def connect(self) -> None:
        """Have the clients agree on keys, for sums and with each other, and meet their peers."""
        super().connect()
        self.clients.connect_peers()
        self._asked.clear()

    def catch_up(self, names: Sequence[str]) -> None:
        """Every round hands the weights out; the axes of the policy come with the next one."""
        self._back = bool(names)

    def setup(self) -> None:
        """Count the nodes and take the common initial weights."""
        replies = self.clients.call("start", {}, reply=EXPORT.having(counts=SUM)).ok
        if self.settings.class_weight == "balanced":
            self._totals, labels = self.clients.count_labels("start", replies)
            self._class_weights = balanced_weights(labels)
        else:
            self._totals = self.clients.count_nodes("start", replies)
        first = self.clients.agreed(replies, ("spec", "weights"))
        self._spec, self._initial = first["spec"], first["weights"]
        self._weights = self._initial
        if self._policy is not None and self.settings.policy:
            self._policy.check_weights(self._initial)

    def step(self) -> Row:
        """One round: mini-batches at all clients, then Eq. 8, then the policy's turn."""
        self.round += 1
        fresh = self._schedule.begins_afresh(self.round)
        if fresh:
            self._weights = self._initial
        policies = self._policies(fresh)
        begin = time.perf_counter()
        try:
            replies, total = self._train(policies, fresh)
        except SumOutOfBounds as error:
            row = self._refuse(error)
            self._end_part()
            return row
        seconds = time.perf_counter() - begin
        cost, moments = round(float(total.pop("cost")) * COST_UNIT), total.pop("axes", None)
        mean = average(total)
        loss = float(mean.pop("loss")) if mean else 0.0
        self._weights = mean or self._weights
        row = {"round": self.round, "phase": self._phase, "train_loss": loss, "cost": cost}
        if self.clients.private:  # neither is told
            row |= {"train_loss": None, "cost": None}
        row |= {"train_s": seconds, "val_accuracy": None, "test_accuracy": None}
        evaluates = self.round % self.settings.evaluate_every == 0 or self.round == self.rounds
        if self._phase == "train" and evaluates and not self.clients.private:
            row |= self._judge(self.round)
        if self._policy is not None:
            delta = cost if self.settings.delta == "cost" else seconds
            row |= self._learn(self._policy, moments, len(replies.ok), delta)
            self._end_part()
            row["policies"] = {
                name: [policy["batch"], *(round(probability, 3) for probability in policy["keep"])]
                for name, policy in policies.items()
            }
        row["clients"] = len(replies.ok)
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def _refuse(self, error: SumOutOfBounds) -> Row:
        """A round whose sum is nonsense: the weights stay, and some clients are left aside."""
        self.clients.spoiled(error)
        row: Row = {"round": self.round, "phase": self._phase, "refused": str(error)}
        row |= dict.fromkeys(("train_loss", "val_accuracy", "test_accuracy"))
        return {**row, "clients": len(self.clients.names)}

    def finish(self) -> Outcome:
        """Report on the best weights; with differential privacy on the last, which alone are
        evaluated.
        """
        if self.clients.private:
            self._best.round, self._best_weights = self.round, self._weights
        if self._best.round < 0:
            self._judge(self.round)
        replies = self._evaluate(self._best_weights, "final", describe=True)
        forms = {} if self.clients.private else detail_forms(self.settings, self._totals)
        total = self._total(replies, "final", forms)
        metrics = Metrics.of(scale_up(np.asarray(total["metrics"]), self._totals))
        session = self.clients.session()
        timed = self.clients.call("conclude", session, reply=Record({"report": SUM})).ok
        tag, forms = f"conclude{session.get('session', '')}", {"seconds": SECONDS_SUM}
        seconds = self.clients.total(tag, timed, "report", forms)
        outcome = Outcome.of(
            metrics,
            {name: reply["own"] for name, reply in replies.items()},
            seconds["seconds"],
            self._best.round,
            self._spec,
            {"model": self._best_weights},
        )
        if not self.clients.private:
            parts = self.clients.own_parts(replies, "metrics")
            outcome = detailed(outcome, self.settings, total, parts)
        if self.settings.dp_rows_epsilon:
            outcome = replace(outcome, extra={**outcome.extra, "dp_rows": self._row_privacy()})
        if self._policy is None:
            return outcome
        return replace(outcome, files={"policy.afp": self._policy.to_bytes()})

    def _row_privacy(self) -> dict[str, Any]:
        """What is promised of every row that peers are shown."""
        settings = self.settings
        epsilon, delta, most = settings.dp_rows_epsilon, settings.dp_delta, settings.rows_of_a_node
        noise = row_noise(epsilon, delta, most)
        about = {"epsilon": epsilon, "delta": delta, "clip": settings.dp_rows_clip}
        return {**about, "noise": noise, "rows_of_a_node": most}

    @cached_property
    def _server_test(self) -> ServerTest | None:
        if self._server_graph is None:
            return None
        spec = ModelSpec.from_json(self._spec)
        return ServerTest(self._server_graph, spec, self.settings.normalize_features)

    @property
    def _phase(self) -> Phase:
        return self._schedule.phase(self.round)

    def _policies(self, fresh: bool) -> dict[str, Payload]:
        """Mini-batch size and probabilities of every client."""
        settings, policy = self.settings, self._policy
        if policy is None:
            batch = ALL_NODES if settings.sampler == "full" else settings.batch
            fixed: Payload = {"batch": batch, "keep": settings.keep_by_layer}
            return dict.fromkeys(self.clients.names, fixed)
        if self._phase == "profile":
            return policy.profile(self.round)
        if fresh:
            training = self._phase == "train"
            length = self.settings.rounds if training else self.settings.episode_rounds
            policy.begin_episode(self._initial, length)
        return policy.choose(explore=self._phase == "episode")

    def _learn(self, policy: SamplingPolicy, moments: Any, clients: int, delta: float) -> Row:
        """The policy's turn after a round (Algorithm 4, lines 9 to 14)."""
        if self._phase == "profile":
            relative = self.settings.profile == "full"
            policy.profiled(self._weights, delta, self._score() if relative else 0.0)
            return {}
        policy.observe(self._weights, moments, clients)
        if self._phase == "train":
            return {}
        accuracy = self._score()
        row = policy.learn(accuracy, delta)
        return {"episode": self._schedule.episode(self.round)[0], "accuracy": accuracy, **row}

    def _end_part(self) -> None:
        """The policy's profile or episode is over with its last round, also if that was refused."""
        policy = self._policy
        if policy is None:
            return
        if self._phase == "profile" and self.round == self._schedule.profile:
            policy.end_profile()
        elif self._phase == "episode":
            _, within = self._schedule.episode(self.round)
            if within == self._schedule.episode_rounds:
                policy.end_episode()

    def _score(self) -> float:
        """λ of the present weights: accuracy, or what the objective is, on the server's own nodes,
        or else by federated validation.
        """
        if self._server_test is not None:
            return self._server_test.score(self._weights, self.settings)
        tag = f"accuracy-{self.round}"
        return self._metrics(self._evaluate(self._weights, tag, "judge"), tag).score

    def _train(
        self, policies: Mapping[str, Payload], fresh: bool
    ) -> tuple[Replies, dict[str, Any]]:
        """The round's mini-batches; what the last one's replies sum up to."""
        report = f"update-{self.round}"
        back, self._back = self._back, False
        for turn in range(self.settings.iterations):
            message: dict[str, Any] = {
                "purpose": "train",
                "tag": f"{self._schedule.name(self.round)}-{turn}",
            }
            if turn == 0:
                message |= {"weights": self._weights, "fresh": fresh}
            if turn == 0 and (fresh or back) and self._policy and self._policy.axes:
                message["axes"] = self._policy.axes.to_payload()
            if turn == self.settings.iterations - 1:
                message["report"] = report
            replies = self._pass(message, policies)
        figures = {"cost": Array((), -ROUNDING), "share": share_form(self._totals[0] / COUNT_UNIT)}
        weights = {name: Array(value.shape) for name, value in self._weights.items()}
        forms = {**figures, **weights, "loss": Array((), -ROUNDING)}
        total = self.clients.total(report, replies.ok, "update", forms, ("cost", "axes"))
        if self.clients.private:  # clients tell the change of the weights alone
            share = total["share"]
            total |= {name: total[name] + share * one for name, one in self._weights.items()}
        elif self.secure != "none":
            self._require_near(report, total, replies)
        self.clients.cleared(replies.ok)
        return replies, dict(total)

    def _require_near(self, tag: str, total: Mapping[str, Any], replies: Replies) -> None:
        """Refuse an average that is farther away than training takes it."""
        mean = average({name: total[name] for name in ("share", *self._weights)})
        size = model_distance(self._weights, {})
        if mean and not self._usual.accepts(model_distance(mean, self._weights), size):
            raise SumOutOfBounds(tag, "the average is too far away", tuple(replies.ok))

    def _judge(self, at: int) -> Row:
        """Figures of the present weights, which are kept if they are the best so far."""
        tag = f"evaluation-{at}"
        replies = self._evaluate(self._weights, tag)
        metrics = self._metrics(replies, tag)
        if self._best.update(at, metrics):
            self._best_weights = self._weights
        row = metrics.row()
        del row["train_loss"]
        return row | client_accuracies(self.clients.own_parts(replies, "metrics"))

    def _evaluate(
        self, weights: Weights, tag: str, purpose: str = "evaluate", describe: bool = False
    ) -> Mapping[str, Payload]:
        message = {"purpose": purpose, "tag": tag, "report": tag, "totals": self._totals}
        return self._pass({**message, "weights": weights, "describe": describe}).ok

    def _metrics(self, replies: Mapping[str, Payload], tag: str) -> Metrics:
        total = self._total(replies, tag, objective_forms(self.settings, self._totals))
        metrics = Metrics.of(scale_up(np.asarray(total["metrics"]), self._totals))
        return with_objective(metrics, self.settings, total)

    def _total(
        self, replies: Mapping[str, Payload], tag: str, counts: Mapping[str, Form]
    ) -> Mapping[str, Any]:
        """Summed metrics, and counted predictions of these forms."""
        forms = {"metrics": metrics_form(SIZE), **counts}
        return self.clients.total(tag, replies, "metrics", forms)

    def _pass(self, message: Payload, each: Mapping[str, Payload] | None = None) -> Replies:
        """One pass at all clients, exchange by exchange."""
        if self._class_weights:
            message = {**message, "class_weights": self._class_weights}
        purpose, names = message["purpose"], set(self.clients.names)
        asks = not names <= self._asked.get(purpose, set())
        count = exchanges(self.settings.share, self.settings.layers, asks)
        last = _LAST[purpose] if "report" in message else NOTHING
        form, message = BOXES if count else last, {**message, "asks": asks}
        replies = self.clients.call("begin", message, each=each, reply=form)
        for turn in range(count):
            form = BOXES if turn < count - 1 else last
            boxes = delivered(replies.ok)
            replies = self.clients.call("advance", {}, each=boxes, reply=form)
        if purpose != "train" or self.settings.sampler == "full":
            self._asked[purpose] = names
        return replies


def make_policy(
    clients: Sequence[str], settings: FedGraphSettings, seed: int
) -> SamplingPolicy | None:
    """The policy of ``sampler=ddpg``, of its file if one is given; a UserError if that is unfit."""
    if settings.sampler != "ddpg":
        return None
    policy = SamplingPolicy(clients, settings, seed)
    if settings.policy:
        try:
            policy.load_bytes(Path(settings.policy).read_bytes())
        except OSError as error:
            reason = f"cannot read the policy {settings.policy}: {error.strerror}"
            raise UserError(reason) from error
    return policy
