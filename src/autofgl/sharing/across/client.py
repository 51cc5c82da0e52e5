"""The client half of convolution across clients (FedGraph, Algorithm 1)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from autofgl.errors import AutoFGLError
from autofgl.federation.party import Context, Party, Refused
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, Ints
from autofgl.nn.features import NodeInput
from autofgl.nn.models.networks import GCN
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.sampling.neighborhood import Neighborhood
from autofgl.nn.sampling.rules import Everything, Fanout, Importance, Keep, Rule, draw_batch
from autofgl.nn.structure import Structure
from autofgl.runtime.client_data import input_features, label_counts
from autofgl.runtime.details import DETAILED, detail_kinds, objective_kinds, to_units
from autofgl.runtime.device import fetch
from autofgl.runtime.local_model import Weights, count_up, median_seconds
from autofgl.runtime.metrics import SPLITS, scale_down
from autofgl.runtime.private import noise_file
from autofgl.runtime.state import restore_state, saved_state
from autofgl.runtime.summing import COUNT_UNIT, Summing, weighted
from autofgl.secure.noise import NoiseRecord, RowNoise
from autofgl.seeding import numpy_generator, torch_generator
from autofgl.sharing.across.forward import Exchange, Listener, Pass, Surroundings
from autofgl.sharing.across.weight_state import Axes
from autofgl.tasks.counts import prediction_counts
from autofgl.tasks.losses import NodeLoss

#: Sampled edges times width are summed in units of so many, for the secure modes' range.
COST_UNIT = 1e6


class AcrossClient(Summing, Party):
    """Samples, convolves across clients and trains; what peers need goes with a pass's calls."""

    operations: ClassVar[frozenset[str]] = Summing.operations | {
        "agree", "introduce", "meet", "start", "begin", "advance", "conclude",
    }  # fmt: skip
    #: The common weights are handed out before the first pass; then sums tell all.
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "new": {"start": "ready", "begin": "passing"},
        "ready": {"begin": "passing"},
        "passing": {"begin": "passing", "advance": "passing", "conclude": "concluded"},
        "concluded": {},
    }

    def __init__(
        self,
        context: Context,
        graph: ClientGraph,
        spec: ModelSpec,
        settings: Any,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold, settings)
        self._name = graph.name
        self._settings = settings
        self._seed = seed
        self._exchange = Exchange(context)
        self._secure = secure
        self._size = (graph.num_nodes, graph.num_links)
        self._structure = Structure.from_client(graph)
        self._features = input_features(graph, settings.normalize_features)
        near = Neighborhood.from_client(graph)
        self._around = Surroundings(
            near,
            near.internal(),
            self._rows,
            self._exchange,
            {},
            settings.share,
            _row_noise(context, settings),
        )
        masks = (graph.train_mask, graph.val_mask, graph.test_mask)
        self._nodes = [np.flatnonzero(mask) for mask in masks]
        self._labels = torch.from_numpy(graph.y)
        balanced = settings.class_weight == "balanced"
        self._label_counts = label_counts(graph) if balanced else None
        self._loss = NodeLoss.of(settings)
        self.model = GCN(spec)
        self.model.reset_parameters(torch_generator(seed, "weights"))
        self._values = self.model.state_dict()
        self._optimizer = self._fresh_optimizer()
        passes = ("train", "evaluate", "judge")
        self._full = {name: [Everything() for _ in range(settings.layers)] for name in passes}
        self._last_rows: dict[str, tuple[Ints, NodeInput]] = {}  # by purpose
        self._pass: Pass | None = None
        self._steps: Iterator[None] = iter(())
        self._wanted: dict[str, dict[int, dict[str, Ints]]] = {}  # by purpose
        self._ask: Payload = {}
        self._cost = 0
        self._axes: Axes | None = None
        self._reference: Weights = {}
        self._tags: set[str] = set()

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a pass that was made before, and to go on with one that is over."""
        if op == "begin" and payload["tag"] in self._tags:
            raise Refused(f"pass '{payload['tag']}' was made before")
        if op == "advance" and self._pass is None:
            raise Refused("no pass has begun")

    def listen(self, listener: Listener) -> None:
        """Show somebody every row that this client receives from others; for audits."""
        self._around = replace(self._around, listener=listener)

    def agree(self, payload: Payload) -> Payload:
        """Answer a phase of the key exchange with the peers."""
        return self._exchange.agree(payload)

    def introduce(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Tell the owners of external neighbors which of their nodes matter here."""
        near = self._around.neighborhood
        owners = enumerate(near.owners) if self._settings.share != "none" else ()
        wishes = {name: near.remote[near.owner == index] for index, name in owners}
        self._exchange.publish("meet", {name: own for name, own in wishes.items() if len(own)})
        return self._exchange.sent()

    def meet(self, payload: Payload) -> Payload:
        """Learn which own nodes matter elsewhere."""
        self._exchange.take(payload["boxes"])
        self._exchange.meet(self._around.neighborhood.own)
        self._wanted.clear()
        return {}

    def start(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Number of own training, validation and test nodes, and the common initial weights."""
        counts = np.array([len(nodes) for nodes in self._nodes], np.float64)
        return {
            "counts": self.count("start", counts, self._label_counts),
            "weights": self._weights(),
            "spec": self.model.spec.to_json(),
        }

    def begin(self, payload: Payload) -> Payload:
        """Begin a pass: take in what is new, and go on to the first exchange.

        Payload: ``tag`` of the pass; ``weights`` if they are new; ``fresh`` if training starts
        afresh; ``axes`` along which to say where the weights are; ``purpose``, ``train``,
        ``evaluate`` or ``judge``, an evaluation of validation nodes; for training ``batch`` and
        ``keep``, this client's policy (Algorithm 1, line 2); ``report``, the tag of the sum to
        contribute to, if any; for an evaluation ``totals``, the federation's node counts;
        ``class_weights`` if the loss is balanced; ``asks``, whether clients ask each other for
        nodes, or the sample is that of an earlier pass for the same purpose.
        """
        self._tags.add(payload["tag"])
        if "weights" in payload:
            self._load_weights(payload["weights"])
            self._reference = self._weights() if self.private else {}
            self._cost = 0
        if "axes" in payload:
            self._axes = Axes.from_payload(payload["axes"])
        if payload.get("fresh"):
            self._optimizer = self._fresh_optimizer()
        if "class_weights" in payload:
            self._loss = self._loss.with_weights(payload["class_weights"])
        self._ask = payload
        self._pass = self._training() if payload["purpose"] == "train" else self._evaluation()
        self._steps = self._pass.steps()
        return self.advance({"boxes": {}})

    def advance(self, payload: Payload) -> Payload:
        """Go on to the next exchange, with what peers sent in the last, or to the end of the pass.

        Payload: ``boxes``, if there are any for this client.
        """
        self._exchange.take(payload.get("boxes", {}))
        training = self._ask["purpose"] == "train"
        with torch.set_grad_enabled(training):
            if next(self._steps, "over") is None:
                return self._exchange.sent()
            done, self._pass = self._pass, None
            assert done is not None
            self._wanted[self._ask["purpose"]] = done.wanted
            return self._learn(done) if training else self._report(done)

    def conclude(self, payload: Payload) -> Payload:
        """Seconds of a pass over all own nodes, without waiting for others."""
        self.model.eval()
        with torch.no_grad():
            seconds = median_seconds(lambda: self.model(self._features, self._structure))
        report = {"seconds": np.array([seconds, 1.0])}
        return {"report": self.contribute(f"conclude{payload.get('session', '')}", report)}

    def state(self) -> Payload:
        """Weights, moments, and the last rows of other clients."""
        rows = {str(k): rows.numpy() for k, rows in self._around.last_rows.items()}
        own = saved_state(self, ("phase", "_optimizer"))
        state = {"weights": self._weights(), "rows": rows, **own}
        if self.private is not None:
            state["noise"] = self.private.record.state()
        if self._around.noise is not None:
            state["row_noise"] = self._around.noise.record.state()
        return state if self._axes is None else {**state, "axes": self._axes.to_payload()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._load_weights(state["weights"])
        restore_state(self, ("phase", "_optimizer"), state)
        self._tags.clear()
        rows = {int(k): torch.from_numpy(rows.copy()) for k, rows in state["rows"].items()}
        self._around.last_rows.update(rows)
        if self.private is not None:
            self.private.record.load_state(state["noise"])
        if self._around.noise is not None:
            self._around.noise.record.load_state(state["row_noise"])
        if "axes" in state:
            self._axes = Axes.from_payload(state["axes"])

    def _training(self) -> Pass:
        """A pass over a mini-batch (Algorithm 2, line 1); the batch is empty without labels."""
        tag = self._ask["tag"]
        rng = numpy_generator(self._seed, "sampling", self._name, tag)
        nodes = self._nodes[SPLITS.index("train")]
        batch = np.sort(draw_batch(nodes, min(self._ask["batch"], len(nodes)), rng))
        generator = torch_generator(self._seed, "dropout", self._name, tag)
        self.model.train()
        rules, known = self._rules(), self._known()
        return Pass(self.model, self._around, rules, batch, tag, rng, generator, known)

    def _evaluation(self) -> Pass:
        nodes = np.unique(np.concatenate(self._evaluated()))
        self.model.eval()
        tag, rules = self._ask["tag"], self._full[self._ask["purpose"]]
        rng = numpy_generator(0)
        return Pass(self.model, self._around, rules, nodes, tag, rng, wanted=self._known())

    def _known(self) -> dict[int, dict[str, Ints]] | None:
        """What peers ask for in this pass, if they do not say so again."""
        return None if self._ask["asks"] else self._wanted.get(self._ask["purpose"], {})

    def _evaluated(self) -> list[Ints]:
        """Nodes of each split that count: all, or those of validation alone to judge a policy."""
        if self._ask["purpose"] == "evaluate":
            return self._nodes
        return [
            nodes[: len(nodes) * (split == "val")]
            for split, nodes in zip(SPLITS, self._nodes, strict=True)
        ]

    def _rules(self) -> Sequence[Rule]:
        settings = self._settings
        match settings.sampler:
            case "full":
                return self._full["train"]
            case "sage":
                return [Fanout(count) for count in settings.fanout_by_layer]
            case "fastgcn":
                return [Importance(settings.layer_size)] * settings.layers
        return [Keep(probability) for probability in self._ask["keep"]]

    def _learn(self, done: Pass) -> Payload:
        """Eqs. 5 and 6; after the last mini-batch of a round, contribute to Eq. 8."""
        loss = 0.0
        if len(done.batch):
            self._optimizer.zero_grad()
            mean = self._loss.mean(done.output, self._labels[done.batch])
            mean.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            loss = float(mean.detach())
        if not np.isfinite(loss):
            raise AutoFGLError(f"the loss of {self._name} is no longer finite: lower 'lr'")
        self._cost += done.cost
        if "report" not in self._ask:
            return {}
        weights = {name: value.numpy() for name, value in self._values.items()}
        vectors = {**weights, "loss": np.array(loss, np.float32)}
        update = weighted(vectors, len(done.batch) / COUNT_UNIT)
        update["cost"] = np.array(self._cost / COST_UNIT, np.float32)
        if self._axes is not None:
            update["axes"] = self._axes.moments(weights).astype(np.float32)
        reference = self._reference
        return {"update": self.contribute(self._ask["report"], update, reference=reference)}

    def _report(self, done: Pass) -> Payload:
        """Metrics of all labeled nodes."""
        sums = np.zeros((len(SPLITS), 3))
        for row, nodes in zip(sums, self._evaluated(), strict=True):
            logits = done.output[np.searchsorted(done.batch, nodes)]
            row[:] = count_up(logits, self._labels[nodes], self._loss)
        metrics = sums.reshape(-1)
        figures = {"metrics": scale_down(metrics, self._ask["totals"]), **self._counts(done)}
        report: Payload = {"metrics": self.contribute(self._ask["report"], figures)}
        if not self._ask.get("describe"):
            return report
        own = {"nodes": self._size[0], "edges": self._size[1], "metrics": metrics}
        return {**report, "own": own if self._secure == "none" else {}}

    def _counts(self, done: Pass) -> dict[str, Any]:
        """Counted predictions: all in the end, unless no noise covers them, else those that the
        objective takes.
        """
        settings, final = self._settings, bool(self._ask.get("describe"))
        if self.private is not None:
            return {}
        kinds = detail_kinds(settings) if final else objective_kinds(settings)
        rows = []
        for split in DETAILED if final else ("val",):
            nodes = self._nodes[SPLITS.index(split)]
            logits = fetch(done.output[np.searchsorted(done.batch, nodes)])
            labels = fetch(self._labels[nodes])
            rows.append(prediction_counts(logits, labels, kinds, settings.score_bins))
        counts = {kind: np.stack([row[kind] for row in rows]) for kind in kinds}
        return to_units(counts, "" if final else "val_")

    def _rows(self, nodes: Ints) -> NodeInput:
        if len(nodes) == self._features.shape[0]:
            return self._features
        purpose = self._ask["purpose"]
        last = self._last_rows.get(purpose)
        if last is None or not np.array_equal(last[0], nodes):
            last = nodes, self._features.rows(torch.from_numpy(nodes))
            self._last_rows[purpose] = last
        return last[1]

    def _fresh_optimizer(self) -> torch.optim.Adam:
        settings = self._settings
        return torch.optim.Adam(
            self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )

    def _weights(self) -> Weights:
        return {name: value.numpy().copy() for name, value in self._values.items()}

    def _load_weights(self, weights: Weights) -> None:
        for name, value in self._values.items():
            np.copyto(value.numpy(), weights[name], casting="same_kind")


def _row_noise(context: Context, settings: Any) -> RowNoise | None:
    """Noise on the rows that peers are shown, if settings ask for it."""
    if not settings.dp_rows_epsilon:
        return None
    record = NoiseRecord(noise_file(context.ledger, "rows"))
    return RowNoise(
        settings.dp_rows_epsilon,
        settings.dp_delta,
        settings.dp_rows_clip,
        settings.rows_of_a_node,
        record,
    )
