"""The client side of FL-Gradient; :mod:`autofgl.methods.fl_darts` says what it does."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.darts_settings import DartsSettings
from autofgl.methods.fl_agcns_client import WORST_LOSS
from autofgl.methods.found_client import FoundClient
from autofgl.methods.optimiser_state import load_optimiser_state, optimiser_state
from autofgl.methods.search_space import make_space
from autofgl.methods.sums import average, weighted
from autofgl.nn.features import InputFeatures
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import SuperNet
from autofgl.nn.supernet.relaxed import RelaxedNetwork
from autofgl.seeding import torch_generator

#: No entry of a contributed gradient is larger: secure sums have a limited range.
LARGEST = 100.0


class DartsClient(FoundClient):
    """Holds the SuperNet and differentiates its relaxation, later the found network."""

    operations: ClassVar[frozenset[str]] = FoundClient.operations | {"weights", "architecture"}

    def __init__(
        self,
        context: Context,
        graph: ClientGraph,
        settings: DartsSettings,
        seed: int,
        secure: str,
    ) -> None:
        super().__init__(context, graph, settings, seed, secure)
        self._supernet = _supernet(graph, settings, seed)
        self._relaxed = RelaxedNetwork(self._supernet)
        self._optimiser = torch.optim.Adam(
            self._supernet.parameters(),
            lr=settings.search_lr or settings.lr,
            weight_decay=settings.search_weight_decay,
        )
        features = InputFeatures.from_client(graph.x)
        self._features = features.row_normalised() if settings.normalize_features else features
        self._structure = Structure.from_client(graph)
        self._labels = torch.from_numpy(graph.y.copy())
        self._train, self._val = (
            torch.from_numpy(np.flatnonzero(mask)) for mask in (graph.train_mask, graph.val_mask)
        )
        self._train_loss = 0.0

    def weights(self, payload: Payload) -> Payload:
        """One weights step: contribute the gradient of the mean training loss with respect to W.

        Payload: ``logits``; ``generation`` and ``step``; ``totals``, the federation's node counts;
        ``gradient``, the last step's sum, which is taken in first.
        """
        self._take_gradient(payload)
        at = (payload["generation"], payload["step"])
        generator = torch_generator(self._seed, "relaxed-dropout", self._graph.name, *at)
        named = dict(self._supernet.named_parameters())
        self._supernet.train()
        scores = self._scores(payload, self._train, generator)
        self._train_loss, found = self._differentiated(scores, self._train, list(named.values()))
        gradient, counts = bounded(dict(zip(named, found, strict=True)))
        share = counts * len(self._train) / max(payload["totals"][0], 1)
        tag = f"gradient-{at[0]}-{at[1]}"
        return {"gradient": self.sums.protect(tag, weighted(gradient, share), reveal="parties")}

    def architecture(self, payload: Payload) -> Payload:
        """Contribute the gradient of the mean validation loss with respect to the logits.

        Dropout is off: loss and accuracy of the relaxed network are then a by-product.
        """
        self._take_gradient(payload)
        totals = payload["totals"]
        share = len(self._val) / max(totals[1], 1)
        self._supernet.eval()
        logits = _logits(payload).requires_grad_()
        scores = self._scores(payload, self._val, None, logits)
        loss, (found,) = self._differentiated(scores, self._val, [logits])
        gradient, counts = bounded({"logits": found})
        right = (scores.argmax(1) == self._labels[self._val]) & scores.isfinite().all(1)
        correct = int(right.sum()) / max(len(self._val), 1)
        train_share = len(self._train) / max(totals[0], 1)
        figures = {
            "val": share * np.array([loss, correct, 1.0]),
            "train": train_share * np.array([self._train_loss, 1.0]),
            **weighted(gradient, counts * share),
        }
        tag = f"architecture-{payload['generation']}"
        return {"figures": self.sums.protect(tag, figures)}

    def state(self) -> Payload:
        """The SuperNet, its optimiser, and what the final training has."""
        state = super().state()
        state["supernet"] = {
            name: value.detach().numpy().copy()
            for name, value in self._supernet.state_dict().items()
        }
        state["supernet_moments"] = optimiser_state(self._optimiser)
        return state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        with torch.no_grad():
            for name, value in self._supernet.state_dict().items():
                value.copy_(torch.from_numpy(state["supernet"][name].copy()))
        load_optimiser_state(self._optimiser, state["supernet_moments"])

    def _take_gradient(self, payload: Payload) -> None:
        """All clients take the same step, so that all hold the same W without it being sent."""
        if "gradient" not in payload:
            return
        gradient = average(self.sums.open(payload["gradient"]))
        if not gradient:
            return
        for name, parameter in self._supernet.named_parameters():
            parameter.grad = torch.from_numpy(gradient[name])
        self._optimiser.step()
        self._optimiser.zero_grad()

    def _scores(
        self,
        payload: Payload,
        nodes: Tensor,
        generator: torch.Generator | None,
        logits: Tensor | None = None,
    ) -> Tensor:
        """Scores of the relaxed network at some nodes, ``[nodes, classes]``."""
        if not len(nodes):
            return torch.zeros(0, self._supernet.classes)
        at = _logits(payload) if logits is None else logits
        return self._relaxed(at, self._features, self._structure, generator)[nodes]

    def _differentiated(
        self, scores: Tensor, nodes: Tensor, wanted: list[Tensor]
    ) -> tuple[float, list[Any]]:
        """Mean loss, capped and finite, and its gradients; all zero without nodes."""
        if not len(nodes):
            return 0.0, [np.zeros(tuple(value.shape), np.float32) for value in wanted]
        loss = F.cross_entropy(scores, self._labels[nodes])
        # A convolution may have parameters that its output does not depend on.
        found = torch.autograd.grad(loss, wanted, materialize_grads=True, allow_unused=True)
        value = float(np.nan_to_num(loss.item(), nan=WORST_LOSS, posinf=WORST_LOSS))
        return min(value, WORST_LOSS), [gradient.numpy() for gradient in found]


def bounded(gradient: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """A gradient that every secure sum can take, and what it counts.

    One that is not finite becomes zero and does not count; one with an entry beyond
    :data:`LARGEST` is scaled down as a whole, so that its direction stays.
    """
    if not all(np.isfinite(value).all() for value in gradient.values()):
        return {name: np.zeros_like(value) for name, value in gradient.items()}, 0.0
    largest = max(float(np.abs(value).max(initial=0.0)) for value in gradient.values())
    scale = np.float32(LARGEST / max(largest, LARGEST))
    return {name: scale * value for name, value in gradient.items()}, 1.0


def _logits(payload: Payload) -> Tensor:
    return torch.tensor(payload["logits"], dtype=torch.float32)


def _supernet(graph: ClientGraph, settings: DartsSettings, seed: int) -> SuperNet:
    """The SuperNet, at initial weights that are the same at every client and for fl-agcns."""
    supernet = SuperNet(
        make_space(settings),
        graph.num_features,
        graph.classes,
        settings.hidden,
        dropout=settings.dropout,
        layer_dropout=settings.layer_dropout,
        fusion=settings.fusion,
    )
    supernet.reset_parameters(torch_generator(seed, "supernet"))
    return supernet
