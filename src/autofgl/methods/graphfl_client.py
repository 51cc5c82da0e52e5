"""The client side of GraphFL; :mod:`autofgl.methods.graphfl` says what it does."""

from typing import ClassVar

import numpy as np

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedavg_client import COUNT_UNIT
from autofgl.methods.graphfl_settings import GraphFLSettings
from autofgl.methods.meta_model import MetaModel
from autofgl.methods.method import Weights
from autofgl.methods.metrics import SIZE, Sums, scale_down
from autofgl.methods.sums import SummingParty, weighted
from autofgl.nn.networks import NetworkSpec

#: What is told of a client: its figures after adaptation, and without.
KINDS = ("adapted", "unadapted")
#: Who is told of: clients that may train, and those that never do.
GROUPS = ("seen", "new")


class GraphFLClient(SummingParty):
    """Meta-learns on its own graph from the weights that the server sends."""

    operations: ClassVar[frozenset[str]] = SummingParty.operations | {
        "start", "round", "conclude", "export",
    }  # fmt: skip

    def __init__(
        self,
        context: Context,
        graph: ClientGraph,
        spec: NetworkSpec,
        settings: GraphFLSettings,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold)
        self._graph = graph
        self._secure = secure
        self._local = MetaModel(graph, spec, settings, seed)

    def start(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Number of own training, validation and test nodes."""
        masks = (self._graph.train_mask, self._graph.val_mask, self._graph.test_mask)
        counts = np.array([mask.sum() for mask in masks], np.float64)
        return {"counts": self.sums.protect("start", {"counts": counts / COUNT_UNIT})}

    def round(self, payload: Payload) -> Payload:
        """Evaluate the weights, and contribute to the next average if asked to.

        Payload: ``round``; ``totals``, the federation's node counts; ``weights``, unless this
        client is a new one; ``train``; ``contribute``, false for an evaluation alone.
        With a secure mode a client that does not train contributes zeros, and so does a new one to
        the figures: masks need all parties. Without one they send nothing.
        """
        at, totals, seen = payload["round"], payload["totals"], "weights" in payload
        if not seen and self._secure == "none":
            return {}
        metrics = np.zeros(len(KINDS) * SIZE)
        if seen:
            self._receive(payload)
            metrics = self._figures(totals)
        told = {"metrics": metrics}
        if not payload["contribute"] or (self._secure == "none" and not payload["train"]):
            return {"metrics": self.sums.protect(f"metrics-{at}", told)}
        loss = self._learn(payload) if payload["train"] else 0.0
        share = self._local.taught_nodes / max(totals[0], 1) if payload["train"] else 0.0
        news = {**self._news(), "query_loss": np.array(loss, np.float32)}
        update = weighted(news, share)
        if self._secure != "none":  # a secure sum costs a round trip of its own: make one of two
            return {"update": self.sums.protect(f"update-{at}", {**told, **update})}
        return {
            "metrics": self.sums.protect(f"metrics-{at}", told),
            "update": self.sums.protect(f"update-{at}", update),
        }

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the final ``weights``; ``new`` says in which group of clients this one is."""
        self._receive(payload)
        metrics = np.zeros((len(GROUPS), len(KINDS) * SIZE))
        metrics[GROUPS.index("new" if payload["new"] else "seen")] = self._figures(
            payload["totals"]
        )
        seconds = np.array([self._local.inference_seconds(), 1.0])
        report = self.sums.protect("conclude", {"metrics": metrics, "seconds": seconds})
        return {"report": report, "own": self._own() if self._secure == "none" else {}}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The weights held now, and the network that they belong to."""
        return {"weights": self._local.weights(), "spec": self._local.spec.to_json()}

    def state(self) -> Payload:
        """Weights and the outer optimiser's moments."""
        return self._local.state()

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._local.load_state(state)

    def _receive(self, payload: Payload) -> None:
        """Take in the global weights of a message."""
        self._local.load_weights(payload["weights"])

    def _learn(self, payload: Payload) -> float:
        """Train for a round; the query loss."""
        return self._local.learn(payload["round"])

    def _news(self) -> Weights:
        """What the server averages."""
        return self._local.weights()

    def _figures(self, totals: list[int]) -> Sums:
        """Metrics of the present weights, of every kind, ``[18]``."""
        kinds = (self._local.evaluate_adapted(), self._local.evaluate())
        return np.concatenate([scale_down(sums, totals) for sums in kinds])

    def _own(self) -> Payload:
        """Sizes and metrics, as the client tells them in the clear."""
        return {
            "nodes": self._graph.num_nodes,
            "edges": self._graph.num_edges // 2,
            "metrics": self._local.evaluate_adapted(),
            "unadapted": self._local.evaluate(),
        }
