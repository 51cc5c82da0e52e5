"""Averages of the models of clients that are alike: FedGTA and FED-PUB.

In every round a client describes its model in a few numbers, the server compares these and makes an
average for each client, in which clients like it weigh more. It sees every single model and every
description, so that no secure mode can give it. Parameters are averaged, whatever ``aggregate``
says. The mean of all models is what a run leaves behind, unless the models are collected.

*FedGTA* (Li et al., 2023). Client i propagates the soft labels Ŷ that its model predicts, k = 1 … K
times (Eq. 3)::

    Ŷ^k = α Ŷ^0 + (1 − α) D̃^-1/2 Ã D̃^-1/2 Ŷ^(k-1)

and tells their moments (Eq. 5), over its nodes and for each class, of the orders 1 … R (those
beyond the first around the mean), and its smoothing confidence (Eq. 4), with D̃ the degrees::

    H = Σ_v D̃_v Σ_c (1/e + Ŷ^K_vc log Ŷ^K_vc)

Clients whose moments have a cosine of ε at least are averaged, each with the weight H (Eq. 6, 7).

*FED-PUB* (Baek et al., 2023). The mean output of a client's model on a random graph that all have
alike stands for what it computes, h_i; client j has the weight exp(τ cos(h_i, h_j)) in the average
of client i, over the sum of all (Eq. 3 and 4). Its sparse masks on weights are left out.

Figures are of the average that a client gets, and that is what it keeps. The papers report on each
client's model after its local epochs, as the one that it keeps:
``evaluate=local-before-averaging``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, symmetric_edges
from autofgl.runtime.client_data import ClientData, Inputs
from autofgl.runtime.clients import Clients
from autofgl.runtime.device import fetch
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import WEIGHTS, Array, Form, Number
from autofgl.runtime.reversal import Flat
from autofgl.runtime.sharing import Ending, Sharing
from autofgl.runtime.summing import average
from autofgl.seeding import numpy_generator
from autofgl.sharing.before_averaging import TrainedModel
from autofgl.sharing.common import CommonClient, CommonServer, network_spec
from autofgl.sharing.personal import collected, with_models

Matrix: TypeAlias = npt.NDArray[np.float64]

#: FedGTA: α, K, R and ε.
KEPT, STEPS, ORDERS, ALIKE = 0.5, 5, 2, 0.5
#: FED-PUB: τ, and the random graph: blocks, nodes in each, and the probabilities of edges in a
#: block and between two.
SHARPNESS = 5.0
BLOCKS, IN_BLOCK, WITHIN, BETWEEN = 5, 100, 0.1, 0.01
#: No number in a description is larger: sums and squares of such are finite.
LARGEST = 1e100


def keeps_trained(settings: Any) -> bool:
    """Whether clients keep what they make of their averages."""
    return getattr(settings, "evaluate", "own") == "local-before-averaging"


class LikenessClient(CommonClient):
    """Trains the average that is made for it, and describes what it has made of it; that is what it
    is evaluated by, and keeps, if the settings say so.
    """

    saved: ClassVar[tuple[str, ...]] = (*CommonClient.saved, "trained", "_common")

    def __init__(
        self,
        describe: Callable[["LikenessClient"], Payload],
        data: ClientData,
        recipe: Recipe,
        settings: Any,
        secure: str,
        trial: bool = False,
    ) -> None:
        settings = settings.model_copy(update={"aggregate": "parameters"})
        super().__init__(data, recipe, settings, secure, trial)
        self.data = data
        self._describe = describe
        self._random: Inputs | None = None
        kept = keeps_trained(settings)
        self.trained = TrainedModel(data, self.local, settings) if kept else None
        self._common: Weights | None = None

    @property
    def evaluated(self) -> LocalModel:
        """The average, or what was made of the last one."""
        return self.trained.model if self.trained else super().evaluated

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """Balance both losses."""
        super().weigh_classes(weights)
        if self.trained:
            self.trained.weigh_classes(weights)

    def show_test(self, data: ClientData) -> None:
        """Both networks' figures are of test nodes too from now on."""
        super().show_test(data)
        if self.trained:
            self.trained.show_test(data)

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Take the average; evaluate what was made of the last one."""
        if self.trained:
            self.trained.take(payload)
        super().take(payload, opened)

    def train(self, at: int) -> None:
        """The local epochs of a round."""
        super().train(at)
        if self.trained:
            self.trained.next = self.local.weights()

    def settle(self, payload: Payload) -> None:
        """Take the best average, or what was made of it; the average is for the export."""
        super().settle(payload)
        self._common = self.local.weights()
        if self.trained:
            self.local.load_weights(self.trained.settled(payload))

    def export(self) -> Payload:
        """The average."""
        exported = super().export()
        if self._common is None:
            return exported
        return {**exported, "weights": self._shared(self._common)}

    @property
    def random(self) -> Inputs:
        """The random graph of FED-PUB, laid out once."""
        if self._random is None:
            self._random = Inputs.of(random_graph(self.data), False).to(self.local.device)
        return self._random

    def after(self, payload: Payload) -> Payload:
        """What the server compares."""
        return self._describe(self) if payload["train"] and self.local.train_nodes else {}

    def about(self) -> Payload:
        """The own model, if it is collected."""
        return collected(self.settings, self.local)


class LikenessServer(CommonServer):
    """Makes an average for each client; ``mixing`` gives everybody's weights in it, ``[n, n]``."""

    saved: ClassVar[tuple[str, ...]] = (*CommonServer.saved, "_models", "_best_models")
    round_fields: ClassVar[Mapping[str, Form]] = {
        "moments": Array((None,), -LARGEST, LARGEST),
        "confidence": Number(0, LARGEST),
        "function": Array((None,), -LARGEST, LARGEST),
    }
    conclude_options: ClassVar[Mapping[str, Form]] = {"model": WEIGHTS}

    def __init__(
        self,
        mixing: Callable[[Sequence[Payload]], Matrix],
        clients: Clients,
        settings: Any,
        seed: int,
    ) -> None:
        super().__init__(clients, settings.model_copy(update={"aggregate": "parameters"}), seed)
        self._keeps = self._keeps or keeps_trained(settings)
        self._mixing = mixing
        self._models: dict[str, Weights] = {}
        self._best_models: dict[str, Weights] = {}

    def begin(self, replies: Mapping[str, Payload]) -> None:
        """All begin with the same weights."""
        super().begin(replies)
        weights: Weights = self._handout.pop("weights")
        self._models = dict.fromkeys(self.clients.names, weights)

    def handout_each(self, chosen: set[str]) -> dict[str, Payload]:
        """The average for each client; one that was not there before gets the mean of all."""
        return {
            name: {"train": name in chosen, "weights": self._model(name, self._models)}
            for name in self.clients.names
        }

    def center(self) -> Mapping[str, Any] | None:
        """Models may be far from each other."""
        return None

    def update_forms(self) -> dict[str, Form]:
        """Weights of the network's shapes."""
        first = next(iter(self._models.values()))
        return {name: Array(value.shape) for name, value in first.items()}

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:  # noqa: ARG002
        """There is no common step."""
        return None

    def keep(self, best: bool) -> None:
        """The averages that were just evaluated are the best so far, or not."""
        super().keep(best)
        if best:
            self._best_models = dict(self._models)

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:  # noqa: ARG002
        """The next averages, of those that trained."""
        parts = self.clients.own_parts(replies, "update")
        sent = {name: average(part) for name, part in parts.items()}
        tells = {name for name, reply in replies.items() if self.round_fields.keys() & reply.keys()}
        described = self._comparable(
            {name: replies[name] for name in sent if sent[name] and name in tells}
        )
        if described:
            mixing = self._mixing([replies[name] for name in described])
            for name, row in zip(described, mixing, strict=True):
                self._models[name] = weighted_mean([sent[other] for other in described], row)
        if self._keeps:
            self._handout = {"keep": self._kept}
        return {}

    def _comparable(self, described: Mapping[str, Payload]) -> list[str]:
        """Who described its model in as many numbers as most did; others are left out."""
        sizes = {
            name: tuple((at, np.size(reply[at])) for at in sorted(self.round_fields) if at in reply)
            for name, reply in described.items()
        }
        usual = Counter(sizes.values()).most_common(1)[0][0] if sizes else ()
        odd = {name for name, size in sizes.items() if size != usual}
        reason = "its model is described in another number of values than the others'"
        self.clients.leave_out(dict.fromkeys(odd, reason), len(described))
        return [name for name in described if name not in odd]

    def settle(self, last_is_best: bool) -> Payload:
        """Each has its own; see :meth:`settle_each`."""
        return {"keep": last_is_best} if self._keeps else {}

    def settle_each(self) -> dict[str, Payload]:
        """The best average of each client."""
        best = self._best_models
        return {name: {"weights": self._model(name, best)} for name in self.clients.names}

    def outcome(self, end: Ending) -> Outcome:
        """The mean of all models, or the models; the figures are of these."""
        self._best_weights = self._model("", self._best_models)
        return with_models(super().outcome(end), end)

    def _model(self, name: str, models: Mapping[str, Weights]) -> Weights:
        if name in models:
            return models[name]
        return weighted_mean(list(models.values()), np.full(len(models), 1 / len(models)))


def weighted_mean(models: Sequence[Weights], weights: Sequence[float] | Matrix) -> Weights:
    """Σ weight · model."""
    pairs = list(zip(models, weights, strict=True))
    return {
        name: np.sum([np.float32(weight) * one[name] for one, weight in pairs], axis=0)
        for name in models[0]
    }


def soft_labels(client: LikenessClient) -> Matrix:
    """Probabilities of the classes that a client's model predicts for its nodes, ``[n, C]``."""
    return np.asarray(fetch(client.local.logits().double().softmax(1)), np.float64)


def moments_of(client: LikenessClient) -> Payload:
    """FedGTA's description: mixed moments and smoothing confidence."""
    moments, confidence = mixed_moments(client.data.graph, soft_labels(client))
    return {"moments": moments, "confidence": confidence}


def mixed_moments(graph: ClientGraph, labels: Matrix) -> tuple[Matrix, float]:
    """FedGTA's Eq. 3 to 5 on a graph, from soft labels ``[n, C]``: moments ``[K R C]``, and H."""
    n = graph.num_nodes
    source, target = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    ends = (np.append(target, np.arange(n)), np.append(source, np.arange(n)))
    adjacency = sp.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    degree = np.asarray(adjacency.sum(axis=1)).reshape(-1)
    scale = sp.diags_array(degree**-0.5)
    spread, moments = labels, []
    for _ in range(STEPS):
        spread = KEPT * labels + (1 - KEPT) * (scale @ (adjacency @ (scale @ spread)))
        mean = spread.mean(0)
        moments += [mean, *(((spread - mean) ** order).mean(0) for order in range(2, ORDERS + 1))]
    inner = np.exp(-1) + spread * np.log(np.maximum(spread, 1e-12))
    return np.concatenate(moments), float(max((degree[:, None] * inner).sum(), 0.0))


def alike_by_moments(described: Sequence[Payload]) -> Matrix:
    """FedGTA's weights: confidence, over the clients whose moments are alike."""
    likeness = cosines([one["moments"] for one in described])
    confidence = np.array([one["confidence"] for one in described])
    weights = np.where(likeness >= ALIKE, np.maximum(confidence, 1e-12), 0.0)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def function_of(client: LikenessClient) -> Payload:
    """FED-PUB's description: the mean output on the random graph."""
    model = client.local.model
    model.eval()
    output = model(client.random.features, client.random.structure).detach()
    return {"function": np.asarray(fetch(output.mean(0)), np.float64)}


def random_graph(data: ClientData) -> ClientGraph:
    """A stochastic block model with normal features, the same for all clients of a run."""
    rng, nodes = numpy_generator(data.seed, "likeness"), BLOCKS * IN_BLOCK
    block = np.arange(nodes) // IN_BLOCK
    chance = np.where(block[:, None] == block, WITHIN, BETWEEN)
    low, high = np.nonzero(np.triu(rng.random((nodes, nodes)) < chance, 1))
    x = rng.standard_normal((nodes, data.graph.num_features)).astype(np.float32)
    edges, unknown = symmetric_edges(low, high, nodes), np.full(nodes, -1)
    return ClientGraph.unsplit("random", x, edges, unknown, data.graph.classes)


def alike_by_function(described: Sequence[Payload]) -> Matrix:
    """FED-PUB's weights: exp(τ cos), over all clients."""
    weights = np.exp(SHARPNESS * cosines([one["function"] for one in described]))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def cosines(vectors: Sequence[Any]) -> Matrix:
    """Of all pairs, ``[n, n]``."""
    rows = np.stack([np.asarray(one, np.float64) for one in vectors])
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return np.asarray(rows @ rows.T)


FEDGTA = Sharing(
    "fedgta",
    partial(LikenessServer, alike_by_moments),
    partial(LikenessClient, moments_of),
    network_spec,
    "every client's weights, and moments of its predicted labels",
)
FED_PUB = Sharing(
    "fed-pub",
    partial(LikenessServer, alike_by_function),
    partial(LikenessClient, function_of),
    network_spec,
    "every client's weights, and what its model gives on a random graph",
)
