"""Predictions of a finished run for a graph file."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from autofgl.atomic import write_bytes
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.features import InputFeatures
from autofgl.nn.models.spec import spec_from_json
from autofgl.nn.structure import Structure
from autofgl.runs.export import load_model, read_description


@dataclass(frozen=True)
class Predictions:
    """The class of every node.

    Attributes:
        node_id: Ids from the graph file, ``[n]``.
        label: Predicted class, ``[n]``.
        probability: The network's confidence in it, ``[n]``.
        accuracy: Share of right predictions over the labelled nodes; none without labels.
        labelled: Number of labelled nodes.
    """

    node_id: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    probability: npt.NDArray[np.float32]
    accuracy: float | None
    labelled: int


def predict(folder: Path, graph: ClientGraph, client: str | None = None) -> Predictions:
    """Classify every node of a graph with a finished run's network.

    Args:
        folder: The run folder.
        graph: Any graph with the same features.
        client: Whose network, where every client has its own.

    Raises:
        UserError: There is no model, or the graph does not fit it.
    """
    description = read_description(folder)
    model = load_model(folder, client)
    width = spec_from_json(description["network"]).in_features
    if graph.num_features != width:
        raise UserError(
            f"{graph.name} has {graph.num_features} features per node, the model needs {width}"
        )
    features = InputFeatures.from_client(graph.x)
    if description["normalize_features"]:
        features = features.row_normalized()
    structure = Structure.from_client(graph)
    with torch.no_grad():
        probabilities = model(features, structure).softmax(1)
    confidence, label = probabilities.max(1)
    known = graph.y >= 0
    hits = label.numpy()[known] == graph.y[known]
    return Predictions(
        node_id=graph.node_id,
        label=label.numpy(),
        probability=confidence.numpy(),
        accuracy=float(hits.mean()) if known.any() else None,
        labelled=int(known.sum()),
    )


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write predictions as ``.csv`` or ``.npz``, by the file's ending.

    Raises:
        UserError: The ending is another.
    """
    columns = (predictions.node_id, predictions.label, predictions.probability)
    buffer = io.BytesIO()
    if path.suffix == ".npz":
        np.savez(buffer, node_id=columns[0], prediction=columns[1], probability=columns[2])
    elif path.suffix == ".csv":
        header = "node_id,prediction,probability"
        np.savetxt(
            buffer, np.column_stack(columns), ("%d", "%d", "%.6f"), ",", header=header, comments=""
        )
    else:
        raise UserError(f"predictions are written as .csv or .npz, not '{path.suffix}'")
    write_bytes(path, buffer.getvalue())
