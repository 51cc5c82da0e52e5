"""From the clients' last reports to the outcome of a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Outcome, Weights
from autofgl.methods.metrics import Metrics
from autofgl.nn.models import ModelSpec


def describe(graph: ClientGraph, local: LocalModel) -> Payload:
    """A client's last report: sizes, metrics and the time of one pass."""
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges // 2,
        "metrics": local.evaluate(),
        "inference_s": local.inference_seconds(),
    }


def outcome(
    reports: Mapping[str, Payload],
    spec: dict[str, Any],
    models: dict[str, Weights],
    best_round: int,
) -> Outcome:
    """Sum the reports up.

    Args:
        reports: :func:`describe` of each client.
        spec: JSON form of the network.
        models: Weights by name.
        best_round: After how many rounds the chosen weights were reached.
    """
    total = Metrics.of(np.sum([report["metrics"] for report in reports.values()], axis=0))
    one_model = next(iter(models.values()))
    return Outcome(
        test_accuracy=total.test_accuracy,
        val_accuracy=total.val_accuracy,
        per_client=[_client(name, report) for name, report in reports.items()],
        spec=spec,
        models=models,
        parameters=sum(value.size for value in one_model.values()),
        inference_s=max(report["inference_s"] for report in reports.values()),
        architecture=in_words(ModelSpec.from_json(spec)),
        extra={"best_round": best_round, "val_loss": total.val_loss},
    )


def in_words(spec: ModelSpec) -> str:
    """A fixed network on one line."""
    layers = "1 layer" if spec.layers == 1 else f"{spec.layers} layers"
    return f"{spec.family}, {layers}, {spec.in_features} → {spec.hidden} → {spec.classes}"


def _client(name: str, report: Payload) -> dict[str, Any]:
    metrics = Metrics.of(report["metrics"])
    train, val, test = (int(count) for count in report["metrics"].reshape(3, 3)[:, 2])
    return {
        "name": name,
        "nodes": report["nodes"],
        "edges": report["edges"],
        "train": train,
        "val": val,
        "test": test,
        "val_accuracy": metrics.val_accuracy,
        "test_accuracy": metrics.test_accuracy,
    }
