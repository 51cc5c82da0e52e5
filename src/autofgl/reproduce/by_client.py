"""Two more accuracies of a run whose clients hold different classes.

A client that holds three of seven classes has an easier task than the federation as a whole: its
network need not know the others. The paper's figure is each client's accuracy on its own test
nodes. The accuracy over all classes is that of every client's network on the test nodes of all
clients, in the uncut graph; a network that only knows its own classes fails on the others.
"""

import json
from statistics import mean
from typing import Any

import numpy as np

from autofgl import api
from autofgl.atomic import write_text
from autofgl.config import check_config, sort_settings
from autofgl.methods.catalog import find_method
from autofgl.methods.centralized import Centralized
from autofgl.runs.export import predict, read_description
from autofgl.runs.folder import RunFolder

#: Mean of the clients' own accuracies, and that over all classes.
BY_CLIENT = ("mean_test_accuracy", "all_classes_accuracy")

_FILE = "all-classes.json"


def by_client(folder: RunFolder) -> dict[str, Any]:
    """Both accuracies of a finished run, in [0, 1]; the second is computed once and kept there."""
    return {
        "mean_test_accuracy": _client_mean(folder.read_result()),
        "all_classes_accuracy": _all_classes(folder),
    }


def _client_mean(result: dict[str, Any]) -> float | None:
    """What the method itself says, or the mean of what it tells of each client."""
    if "mean_test_accuracy" in result:
        return float(result["mean_test_accuracy"])
    told = [row["test_accuracy"] for row in result["per_client"] if row.get("test")]
    return mean(told) if told else None


def _all_classes(folder: RunFolder) -> float | None:
    kept = folder.path / _FILE
    if not kept.exists():
        write_text(kept, json.dumps(_measured(folder)) + "\n")
    found: float | None = json.loads(kept.read_text())
    return found


def _measured(folder: RunFolder) -> float | None:
    """Mean over the networks of a run; none if they stayed with their clients."""
    names: list[str] = read_description(folder.path)["models"]
    if not names:
        return None
    config = check_config(folder.read_config())
    layers = sort_settings(config, find_method(config.method).Settings)
    [whole] = Centralized.arrange(api.load_clients(config, layers))
    right = [predict(folder.path, whole, name).label == whole.y for name in names]
    shares = [float(np.mean(hits[whole.test_mask])) for hits in right]
    return mean(shares)
