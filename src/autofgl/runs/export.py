"""Models on disk, and what they predict.

``model.json`` says what to build, ``model.safetensors`` holds the weights. Torch is imported when a
network is built, so that a folder without one is told at once.
"""

import csv
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofgl.atomic import write_bytes, write_text
from autofgl.errors import GraphNotice, UserError
from autofgl.runs.files import Manifest, parse_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor, nn

    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.graphs.objects import GraphLike
    from autofgl.nn.cross_client import Share
    from autofgl.nn.features import InputFeatures
    from autofgl.nn.models.base import GNN


def save_models(
    folder: Path,
    models: dict[str, dict[str, Any]],
    network: dict[str, Any],
    info: dict[str, Any],
    networks: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Write the weights and the description of one network or of one for each client.

    Args:
        models: Weights by name; ``model`` if there is only one; none if they stay with the clients.
        info: What a user of the weights must know besides, such as feature scaling.
        networks: JSON form of each client's network, where they differ.
    """
    import numpy as np
    import safetensors.numpy

    entries = [(_key(name, key), one) for name in models for key, one in models[name].items()]
    flat = {key: np.ascontiguousarray(one) for key, one in entries}
    write_bytes(folder / "model.safetensors", safetensors.numpy.save(flat))
    description = {"format": 1, "network": network, "models": sorted(models), **info}
    if networks:
        description["networks"] = networks
    write_text(folder / "model.json", json.dumps(description, indent=2) + "\n")


def read_description(folder: Path) -> dict[str, Any]:
    """What ``model.json`` says."""
    path = folder / "model.json"
    if not path.is_file():
        raise UserError(f"{folder} holds no model: is it a finished run?")
    description = parse_json(path, Manifest.read(folder).content(path.name))
    if description.get("format") != 1:
        raise UserError(f"{path} is not a model description of this version")
    return description


def load_model(folder: str | Path, name: str | None = None) -> "nn.Module":
    """The trained network of a run as a plain module, in evaluation mode.

    A network from outside the package comes back as the user's own module; its code must still be
    where it was, or be handed over again.

    Args:
        folder: The run folder.
        name: Which client's network, where every client has its own.

    Raises:
        UserError: There is no model, it is damaged, or ``name`` must be given.
    """
    networks, mean = load_members(folder, name)

    from autofgl.nn.models.mean import mean_network

    return mean_network([network.as_module() for network in networks], mean).eval()


def load_members(
    folder: str | Path, name: str | None = None
) -> "tuple[list[GNN], dict[str, Any] | None]":
    """The networks whose predictions a model is the mean of, and how; mostly one, without how."""
    folder = Path(folder)
    description = read_description(folder)
    chosen = _choose(model_names(description), name)
    mean = description.get("ensembles", {}).get(chosen)
    members = mean["members"] if mean else [chosen]
    return [load_network(folder, member) for member in members], mean


def model_names(description: dict[str, Any]) -> list[str]:
    """Names by which :func:`load_model` knows the models; a mean of several networks has one."""
    means = description.get("ensembles", {})
    members = {member for mean in means.values() for member in mean["members"]}
    return sorted({*description["models"], *means} - members)


def load_network(folder: str | Path, name: str | None = None) -> "GNN":
    """:func:`load_model` as our networks are called, with features and structures."""
    folder = Path(folder)
    description = read_description(folder)
    chosen = _choose(description["models"], name)

    import safetensors.torch

    from autofgl.nn.models.networks import empty_network
    from autofgl.nn.models.spec import spec_from_json

    network = description.get("networks", {}).get(chosen, description["network"])
    model = empty_network(spec_from_json(network))
    model.scales_features = scaling_of(description, chosen)
    path = folder / "model.safetensors"
    data = Manifest.read(folder).content(path.name)
    try:
        flat = safetensors.torch.load(data)
        state = model.state_dict()
        model.load_state_dict({key: _like(flat[_key(chosen, key)], state[key]) for key in state})
    except (safetensors.SafetensorError, KeyError, RuntimeError) as error:
        raise UserError(f"{path} is missing or damaged: {error}") from error
    return model.eval()


def scaling_of(description: dict[str, Any], name: str) -> Any:
    """How features are scaled for one of the networks."""
    return description.get("scalings", {}).get(name, description["normalize_features"])


def _choose(names: list[str], name: str | None) -> str:
    if not names:
        way = "run it again with --set collect_models=true"
        raise UserError(f"the networks of this run stayed with their clients: {way}")
    if name is None and "model" in names:
        return "model"
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        problem = "this run has a model for each client" if name is None else f"no model '{name}'"
        way = "with --client, or in Python as autofgl.load_model(folder, client)"
        raise UserError(f"{problem}: choose one of {', '.join(names)} {way}")
    return name


def _like(value: "Tensor", target: "Tensor") -> "Tensor":
    """A saved value as its place in a network has it: means of whole numbers are rounded."""
    value = value if target.is_floating_point() else value.round()
    return value.to(target.dtype).reshape(target.shape if value.numel() == 1 else value.shape)


def _key(name: str, key: str) -> str:
    return key if name == "model" else f"{name}/{key}"


@dataclass(frozen=True)
class Predictions:
    """The class of every node, and the network's confidence in it; ``[n]`` each.

    The accuracy is that over the ``labeled`` nodes; none without labels. ``probabilities`` has all
    classes, ``[n, C]``.
    """

    node_id: "npt.NDArray[np.int64]"
    label: "npt.NDArray[np.int64]"
    probability: "npt.NDArray[np.float32]"
    accuracy: float | None
    labeled: int
    probabilities: "npt.NDArray[np.float32]"


@dataclass(frozen=True)
class Naming:
    """How the tables that a graph was made from call its nodes and classes.

    Attributes:
        column: The column of ids.
        nodes: The ids, in the graph's order.
        classes: The labels, in the order of the class numbers.
    """

    column: str
    nodes: Sequence[str]
    classes: Sequence[str] = ()


def predict(folder: str | Path, graph: "GraphLike", client: str | None = None) -> Predictions:
    """Classify every node of a graph with a finished run's network.

    Args:
        folder: The run folder.
        graph: Any graph with the same features: whatever :func:`autofgl.as_graph` takes.
        client: Whose network, where every client has its own.

    A network that was trained across clients leaves out neighbors at other clients here, and says
    so; :func:`predict_together` does not.

    Raises:
        UserError: There is no model, or the graph does not fit it.
    """
    return next(iter(predict_together(folder, [graph], client).values()))


def predict_together(
    folder: str | Path, graphs: "Sequence[GraphLike]", client: str | None = None
) -> dict[str, Predictions]:
    """Classify the nodes of several clients' graphs, by their names.

    A network that was trained across clients (``sharing=across``, ``fedgraph``) takes in the rows
    of neighbors at the other clients hop by hop, as in training.

    Raises:
        UserError: There is no model, or a graph does not fit it.
    """
    from autofgl.graphs.objects import as_graph
    from autofgl.nn.models.spec import spec_from_json

    description = read_description(Path(folder))
    spec = spec_from_json(description["network"])
    directed = description.get("directed", False)
    clients: dict[str, ClientGraph] = {}
    for given in graphs:
        graph = as_graph(given, classes=spec.classes, directed=directed)
        if graph.num_features != spec.in_features:
            wrong = f"{graph.name} has {graph.num_features} features per node"
            raise UserError(f"{wrong}, the model needs {spec.in_features}")
        if graph.name in clients:
            raise UserError(f"two graphs have the name {graph.name}")
        clients[graph.name] = graph
    chosen = _choose(model_names(description), client)
    mean = description.get("ensembles", {}).get(chosen)
    members = mean["members"] if mean else [chosen]
    temperatures = mean["temperatures"] if mean else [1.0]
    shifts = (mean or {}).get("shifts") or [()] * len(members)

    from autofgl.nn.features import InputFeatures
    from autofgl.nn.models.mean import shifted

    given = {name: InputFeatures.from_client(graph.x) for name, graph in clients.items()}
    sums: dict[str, Any] = {}
    for member, temperature, shift in zip(members, temperatures, shifts, strict=True):
        scaling = scaling_of(description, member)
        features = {name: one.scaled(scaling) for name, one in given.items()}
        model = load_network(Path(folder), member)
        share = description.get("shares", {}).get(member, description.get("share"))
        for name, logits in _logits(model, features, clients, share).items():
            sums[name] = sums.get(name, 0) + (shifted(logits, shift) / temperature).softmax(1)
    means = {name: total / len(members) for name, total in sums.items()}
    return {name: _predictions(graph, means[name]) for name, graph in clients.items()}


def _logits(
    model: "GNN",
    features: "Mapping[str, InputFeatures]",
    clients: "Mapping[str, ClientGraph]",
    share: "Share | None",
) -> "dict[str, Tensor]":
    """Outputs for the nodes of each graph; ``share`` is None for networks of one client each."""
    import torch

    from autofgl.nn.cross_client import (
        ClientOperators,
        CrossClientStructure,
        closed_hops,
        run_together,
    )
    from autofgl.nn.structure import Structure

    with torch.no_grad():
        if share is None:
            return {
                name: model(features[name], Structure.from_client(graph))
                for name, graph in clients.items()
            }
        _tell_absent(clients)
        closed = closed_hops(model.spec, "none" if len(clients) == 1 else share)
        structures = {
            name: CrossClientStructure(ClientOperators(graph), closed)
            for name, graph in clients.items()
        }
        return run_together(structures, lambda name: model(features[name], structures[name]))


def _tell_absent(clients: "Mapping[str, ClientGraph]") -> None:
    """Say which clients' nodes are neighbors and are not there."""
    import numpy as np

    absent: dict[str, None] = {}
    for graph in clients.values():
        owners = [graph.boundary.owners[owner] for owner in np.unique(graph.boundary.owner)]
        absent |= dict.fromkeys(name for name in owners if name not in clients)
    if absent:
        warnings.warn(
            f"neighbors at {', '.join(absent)} are left out, with which the network was trained: "
            "give these graphs too",
            GraphNotice,
            stacklevel=4,
        )


def _predictions(graph: "ClientGraph", probabilities: "Tensor") -> Predictions:
    confidence, label = probabilities.max(1)
    labeled = graph.y >= 0
    hits = label.numpy()[labeled] == graph.y[labeled]
    return Predictions(
        node_id=graph.node_id,
        label=label.numpy(),
        probability=confidence.numpy(),
        accuracy=float(hits.mean()) if labeled.any() else None,
        labeled=int(labeled.sum()),
        probabilities=probabilities.numpy(),
    )


def write_predictions(path: Path, predictions: Predictions, naming: Naming | None = None) -> None:
    """Write predictions as ``.csv`` or ``.npz``, by the file's ending.

    With a naming, nodes and classes have the names of the tables, and every class its probability.
    """
    import numpy as np

    columns = (predictions.node_id, predictions.label, predictions.probability)
    buffer = io.BytesIO()
    if path.suffix == ".npz":
        names = ("node_id", "prediction", "probability")
        arrays: dict[str, Any] = dict(zip(names, columns, strict=True))
        if naming is not None:
            arrays |= {"node_name": np.array(naming.nodes), "probabilities":
                       predictions.probabilities, "classes": np.array(naming.classes)}  # fmt: skip
        np.savez(buffer, **arrays)
    elif path.suffix != ".csv":
        raise UserError(f"predictions are written as .csv or .npz, not '{path.suffix}'")
    elif naming is not None:
        buffer.write(_named_rows(predictions, naming).encode())
    else:
        buffer.write(b"node_id,prediction,probability\n")
        np.savetxt(buffer, np.column_stack(columns), ("%d", "%d", "%.6f"), ",")
    write_bytes(path, buffer.getvalue())


def _named_rows(predictions: Predictions, naming: Naming) -> str:
    """CSV with the ids of the tables, the class and its probability, and those of all classes."""
    width = predictions.probabilities.shape[1]
    classes = [*naming.classes, *map(str, range(len(naming.classes), width))][:width]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    shares = [f"probability_{name}" for name in classes]
    rows.writerow([naming.column, "prediction", "probability", *shares])
    for index, name in enumerate(naming.nodes):
        chosen = classes[predictions.label[index]]
        values = (predictions.probability[index], *predictions.probabilities[index])
        rows.writerow([name, chosen, *(f"{value:.6f}" for value in values)])
    return text.getvalue()
