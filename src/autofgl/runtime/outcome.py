"""The outcome of a run, and a row of its history."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from autofgl.federation.payload import Payload
from autofgl.nn.models.networks import parameter_count
from autofgl.nn.models.spec import network_summary, spec_from_json
from autofgl.runtime.local_model import Weights
from autofgl.runtime.metrics import Metrics

#: One line of the history; ``round`` is always there.
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a finished method leaves behind.

    Attributes:
        test_accuracy, val_accuracy: Federated accuracies in [0, 1] of the chosen weights.
        per_client: Name, sizes and accuracies of each client, as far as the method reveals them.
        spec: JSON form of the network.
        models: Weights by name; one entry ``model`` unless every client has its own; none where
            they stay with the clients.
        parameters: Number of parameters of one network.
        inference_s: Seconds that a client needs to classify its nodes, mean over clients.
        architecture: The network in words.
        extra: More for ``result.json``.
        files: More for the run folder, by name.
        specs: JSON form of each of the networks in ``models``, where they differ.
        objective: What was compared on validation nodes.
        metrics: Figures of validation and of test nodes by name; none with differential privacy.
        features: How features are scaled, where a search chose it.
        scalings: The same for each of the networks in ``models``, where they differ.
        ensembles: Means of some of the networks in ``models``, by name: ``members``, their
            ``temperatures``, and ``shifts`` of their outputs, if any.
        across: Those in ``models`` that take in neighbors at other clients, where they differ in
            that.
    """

    test_accuracy: float
    val_accuracy: float
    per_client: list[dict[str, Any]]
    spec: dict[str, Any]
    models: dict[str, Weights]
    parameters: int
    inference_s: float
    architecture: str
    extra: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    objective: str = "accuracy"
    metrics: dict[str, Any] = field(default_factory=dict)
    features: str | bool | None = None
    scalings: dict[str, str | bool] = field(default_factory=dict)
    ensembles: dict[str, dict[str, Any]] = field(default_factory=dict)
    across: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        """What networks are compared by on validation nodes: the more, the better."""
        if self.objective == "accuracy":
            return self.val_accuracy
        return float(self.metrics["val"].get(self.objective, 0.0))

    @classmethod
    def of(
        cls,
        metrics: Metrics,
        clients: Mapping[str, Payload],
        seconds: Any,
        best_round: int,
        spec: dict[str, Any],
        models: dict[str, Weights],
    ) -> "Outcome":
        """Sum a run up: figures of the chosen weights, what clients say of themselves (nothing
        where that is their own affair), their seconds of inference and how many they are.
        """
        one_model = next(iter(models.values()))
        return cls(
            test_accuracy=metrics.test_accuracy,
            val_accuracy=metrics.val_accuracy,
            per_client=client_lines(clients),
            spec=spec,
            models=models,
            parameters=parameter_count(spec_from_json(spec), one_model),
            inference_s=float(seconds[0] / seconds[1]),
            architecture=network_summary(spec_from_json(spec)),
            extra={"best_round": best_round, "val_loss": metrics.val_loss},
        )


def client_lines(clients: Mapping[str, Payload]) -> list[dict[str, Any]]:
    """A line for each client from its sizes and figures; its name alone without those."""
    return [_client(name, own) for name, own in clients.items()]


def _client(name: str, own: Payload) -> dict[str, Any]:
    if not own:
        return {"name": name}
    metrics = Metrics.of(own["metrics"])
    train, val, test = (int(count) for count in own["metrics"].reshape(3, 3)[:, 2])
    return {
        "name": name,
        "nodes": own["nodes"],
        "edges": own["edges"],
        "train": train,
        "val": val,
        "test": test,
        "val_accuracy": metrics.val_accuracy,
        "test_accuracy": metrics.test_accuracy,
        **(_against("alone", "gain", metrics, own["alone"]) if "alone" in own else {}),
        **(_against("common", "over_common", metrics, own["common"]) if "common" in own else {}),
    }


def _against(who: str, gain: str, metrics: Metrics, rival: Payload) -> dict[str, Any]:
    """What a client gains over other weights, in accuracy, with 95 % intervals on test nodes."""
    theirs = Metrics.of(rival["metrics"])
    better, worse = rival["paired"][1]
    low, high = paired_interval(better, worse, int(rival["metrics"].reshape(3, 3)[2, 2]))
    return {
        f"{who}_val_accuracy": theirs.val_accuracy,
        f"{who}_test_accuracy": theirs.test_accuracy,
        f"{gain}_val": metrics.val_accuracy - theirs.val_accuracy,
        gain: metrics.test_accuracy - theirs.test_accuracy,
        f"{gain}_low": low,
        f"{gain}_high": high,
    }


def paired_interval(better: float, worse: float, nodes: int) -> tuple[float, float]:
    """95 % interval of the difference of two accuracies on the same nodes (Agresti and Min, 2005):
    ``better`` are right in the first only, ``worse`` in the second only; half a node is added to
    each of the four cells, so that no interval is empty.
    """
    b, c, n = better + 0.5, worse + 0.5, nodes + 2.0
    middle, width = (b - c) / n, 1.96 * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return float(max(middle - width, -1.0)), float(min(middle + width, 1.0))
