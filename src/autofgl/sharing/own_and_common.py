"""SFGNN with a common network besides, so that every client can predict all classes.

A client's own network has learned from its own labels, so that it knows no other classes, and the
output layer cannot be borrowed: each client's embeddings mean something else. A network that is
common in all its parts knows every class, but has to tell those of all clients apart where each
client could leave most of them out. So both are trained in the same rounds: the own network as in
:mod:`autofgl.sharing.own_encoder`, the common one by averaging its weights. For predictions they
are one (:class:`~autofgl.nn.models.sfgnn.BlendedGNN`): the common network says whether a node is of
a class that the client has seen, the own network which of these.

The common network has met classes as often as the whole federation has labels of them, Q_s. What a
client is asked about is mostly its own: of the classes that it has seen with the probability
``own_prior``. By Bayes' rule that shifts the odds by::

    shift = logit(own_prior) − logit(Σ of Q_s over the classes seen here)
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import BLENDED_FAMILY, BlendedSpec
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.local_model import Weights
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.sharing import Sharing
from autofgl.sharing.own_encoder import OwnEncoderClient, OwnEncoderServer

_OWN, _COMMON = "own.", "common."
#: No share of the classes is taken for nothing or for all.
_LEAST = 1e-3


class OwnAndCommonClient(OwnEncoderClient):
    """Trains its own network and the common one; what it evaluates and keeps is both."""

    saved = (*OwnEncoderClient.saved, "own", "_common", "_shift")

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        build = partial(type(self.own), data.graph.name, data.inputs(settings.normalize_features))
        spec = blended_spec(data.graph, settings)
        self._common = build(spec.towers[1], settings, data.seed)
        self.local = build(spec, settings, data.seed)
        self._seen = (self._labels > 0).astype(np.float32)
        self._shift = 0.0
        self._mean = {**self._mean, **_under(_COMMON, self._common.weights())}
        self._assemble()
        self._evaluated = self._best = self.local.weights()

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """See :meth:`SharingClient.weigh_classes`."""
        for one in (self.own, self._common, self.local):
            one.loss = one.loss.with_weights(weights)

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Besides, take the mean of the common networks as it is."""
        super().take(payload, opened)
        if "mean" in payload:
            self._common.load_weights(_of(_COMMON, payload["mean"]))
            seen = float(np.asarray(payload["labels"]) @ self._seen)
            self._shift = _logit(self.settings.own_prior) - _logit(seen)
        self._assemble()

    def update(self, payload: Payload) -> dict[str, Any]:
        """Besides, the same steps of the common network, and its weights."""
        own = super().update(payload)
        self._common.train(self.settings.local_epochs, payload["round"])
        common = _under(_COMMON, self._common.weights())
        return {**own, **{name: own["share"] * value for name, value in common.items()}}

    def settle(self, payload: Payload) -> None:
        """The own network is that of its best round, which may be an early one; the common one is
        the last, the same for everybody.
        """
        super().settle(payload)
        common = _under(_COMMON, self._common.weights())
        self._best = {**self._best, **common, "shift": np.array([self._shift], np.float32)}
        self.local.load_weights(self._best)

    @property
    def diverged(self) -> bool:
        """Whether a network on trial has come to nothing here."""
        return super().diverged or getattr(self._common, "diverged", False)

    def _flags(self) -> dict[str, Any]:
        own = super()._flags()
        return {name: np.array([float(self.diverged)]) for name in own}

    def _assemble(self) -> None:
        """Make one network of both."""
        towers = _under(_OWN, self.own.weights()) | _under(_COMMON, self._common.weights())
        rest = {"seen": self._seen, "shift": np.array([self._shift], np.float32)}
        self.local.load_weights({**towers, **rest})


def blended_spec(graph: ClientGraph, settings: Any) -> BlendedSpec:
    """A client's own network and the common one."""
    return BlendedSpec(
        family=BLENDED_FAMILY,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        layers=settings.layers,
        dropout=settings.dropout,
        common_layers=settings.common_layers,
    )


def _under(prefix: str, weights: Mapping[str, Any]) -> Weights:
    return {f"{prefix}{name}": value for name, value in weights.items()}


def _of(prefix: str, weights: Mapping[str, Any]) -> Weights:
    return {n.removeprefix(prefix): one for n, one in weights.items() if n.startswith(prefix)}


def _logit(share: float) -> float:
    share = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(share / (1 - share))


OWN_AND_COMMON = Sharing("own-and-common", OwnEncoderServer, OwnAndCommonClient, blended_spec)
