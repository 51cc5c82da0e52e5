"""What a federation gains a client: the same network, trained by the client alone, beside its own.

A client trains as ``separate`` has it, from the same initial weights, for as many epochs as it made
in the federation, and keeps its best weights by its own validation nodes. Both networks are
compared on the same nodes, so that a client can say who of the two is right where they differ.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.nn.models.spec import NetworkSpec
from autofgl.runtime.bounds import ROUNDING, metrics_form
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.details import objective_kinds, to_units, with_objective
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import SIZE, BestRound, Metrics, scale_down, scale_up
from autofgl.runtime.outcome import Row
from autofgl.runtime.replies import Array, Form
from autofgl.tasks.losses import balanced_weights

#: Clients whose validation accuracy is better than alone, the same, and worse.
_VERDICTS = 3


class Rival:
    """What the present weights of a network predict on a client's nodes, for a comparison."""

    def __init__(self, local: LocalModel) -> None:
        self.sums, self._hits = local.evaluate(), local.hits()

    def against(self, local: LocalModel) -> Payload:
        """For the own line: its sums, and on validation and test nodes how many only the network of
        the federation has right, and how many only this one, ``[2, 2]``.
        """
        pairs = list(zip(local.hits(), self._hits, strict=True))[1:]
        paired = [[float((a & ~b).sum()), float((b & ~a).sum())] for a, b in pairs]
        return {"metrics": self.sums, "paired": np.array(paired)}


class Alone:
    """A network that a client has trained alone: its ``weights``, and what they predict."""

    def __init__(self, data: ClientData, spec: NetworkSpec, settings: Any) -> None:
        inputs = data.inputs(settings.normalize_features)
        local = LocalModel(data.graph.name, inputs, spec, settings, data.seed)
        if settings.class_weight == "balanced":  # by its own nodes: it knows no others
            local.loss = local.loss.with_weights(balanced_weights(data.label_counts()))
        self.weights = trained_alone(local, settings)
        local.load_weights(self.weights)
        self.rival = Rival(local)

    def figures(self, local: LocalModel, totals: list[int]) -> dict[str, Any]:
        """For the sum over all clients: its sums, and whether this client gains."""
        sums = self.rival.sums
        gain = Metrics.of(local.evaluate()).val_accuracy - Metrics.of(sums).val_accuracy
        verdict = np.array([gain > 0, gain == 0, gain < 0], np.float64)
        return {"alone": scale_down(sums, totals), "gains": verdict}


def trained_alone(local: LocalModel, settings: Any) -> Weights:
    """The best weights of a client that trains by itself, epoch by epoch."""
    each = settings.local_epochs if settings.aggregate == "parameters" else 1
    best, weights = BestRound(settings.select), local.weights()
    for epoch in range(settings.rounds * each + 1):
        sums, counts = local.evaluate_counting(objective_kinds(settings), ["val"])
        metrics = with_objective(Metrics.of(sums), settings, to_units(counts, "val_"))
        if best.update(epoch, metrics):
            weights = local.weights()
        if settings.patience and best.since_lower_loss >= settings.patience * each:
            break
        local.train(1, epoch + 1)
    return weights


def alone_forms(most: float, clients: int) -> dict[str, Form]:
    """What the sums can be."""
    verdicts = Array((_VERDICTS,), -ROUNDING, clients + ROUNDING)
    return {"alone": metrics_form(SIZE, most), "gains": verdicts}


def alone_columns(total: Mapping[str, Any], totals: Sequence[int]) -> Row:
    """What a result says of all clients together."""
    alone = Metrics.of(scale_up(np.asarray(total["alone"]), totals))
    better, same, worse = (round(float(count)) for count in total["gains"])
    return {
        "alone_val_accuracy": alone.val_accuracy,
        "alone_test_accuracy": alone.test_accuracy,
        "clients_better": better,
        "clients_same": same,
        "clients_worse": worse,
    }
