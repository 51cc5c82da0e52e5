"""From the clients' last reports to the outcome of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Outcome, Weights
from autofgl.methods.metrics import Metrics
from autofgl.nn.networks import in_words, spec_from_json


@dataclass(frozen=True)
class Report:
    """What the server knows at the end.

    Attributes:
        metrics: Federated figures of the chosen weights.
        clients: What each client tells about itself; empty where that is its own affair.
        inference_s: Seconds that a client needs to classify its nodes, mean over clients.
        best_round: After how many rounds the chosen weights were reached.
    """

    metrics: Metrics
    clients: Mapping[str, Payload]
    inference_s: float
    best_round: int


def describe(graph: ClientGraph, local: LocalModel) -> Payload:
    """A client's sizes and metrics, as it tells them in the clear."""
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges // 2,
        "metrics": local.evaluate(),
    }


def outcome(report: Report, spec: dict[str, Any], models: dict[str, Weights]) -> Outcome:
    """Sum a run up.

    Args:
        report: The figures.
        spec: JSON form of the network.
        models: Weights by name.
    """
    one_model = next(iter(models.values()))
    return Outcome(
        test_accuracy=report.metrics.test_accuracy,
        val_accuracy=report.metrics.val_accuracy,
        per_client=client_lines(report.clients),
        spec=spec,
        models=models,
        parameters=sum(value.size for value in one_model.values()),
        inference_s=report.inference_s,
        architecture=in_words(spec_from_json(spec)),
        extra={"best_round": report.best_round, "val_loss": report.metrics.val_loss},
    )


def client_lines(clients: Mapping[str, Payload]) -> list[dict[str, Any]]:
    """A line for each client, with what :func:`describe` tells; its name alone without that."""
    return [_client(name, told) for name, told in clients.items()]


def _client(name: str, told: Payload) -> dict[str, Any]:
    if not told:
        return {"name": name}
    metrics = Metrics.of(told["metrics"])
    train, val, test = (int(count) for count in told["metrics"].reshape(3, 3)[:, 2])
    return {
        "name": name,
        "nodes": told["nodes"],
        "edges": told["edges"],
        "train": train,
        "val": val,
        "test": test,
        "val_accuracy": metrics.val_accuracy,
        "test_accuracy": metrics.test_accuracy,
    }
