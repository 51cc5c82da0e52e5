"""What a client has kept of the finalists: their predictions for its nodes, and its weights.

An average of several candidates is a candidate too. Probabilities are those after temperature
scaling, so that a network that is too sure of itself does not outvote the others::

    log p = log mean_m softmax(z_m / T_m)
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from autofgl.federation.payload import Payload
from autofgl.runtime.device import fetch
from autofgl.runtime.local_model import WORST_LOSS, LocalModel, Weights

#: Members of a candidate: names on the shelf, each with its temperature.
Members = Sequence[Sequence[Any]]


@dataclass
class ShelfModel:
    """Predictions ``[n, C]``, weights, and what network they are of, on which features; ``across``
    if it takes in neighbors at other clients.
    """

    logits: npt.NDArray[np.float32]
    weights: Weights
    spec: Payload
    scaling: str | bool
    across: bool = False


class Shelf:
    """The candidates of a client by name."""

    def __init__(self, nodes: int, classes: int) -> None:
        self._shape = (nodes, classes)
        self._candidates: dict[str, ShelfModel] = {}

    def put(self, name: str, local: LocalModel, outputs: Tensor, across: bool = False) -> Any:
        """Keep a network as it is now, with its outputs for all own nodes; its predictions."""
        logits = np.nan_to_num(fetch(outputs).astype(np.float32))
        spec, scaling = local.spec.to_json(), local.settings.normalize_features
        self._candidates[name] = ShelfModel(logits, local.weights(), spec, scaling, across)
        return logits

    def forget(self, names: Collection[str]) -> None:
        """Make room."""
        for name in names:
            self._candidates.pop(name, None)

    def __getitem__(self, name: str) -> ShelfModel:
        return self._candidates[name]

    def __contains__(self, name: str) -> bool:
        return name in self._candidates

    def log_probabilities(self, members: Members) -> Any:
        """Of a candidate for all own nodes, ``[n, C]``; what is not here guesses."""
        there = [one for one in members if one[0] in self]
        if not there:
            return np.full(self._shape, -np.log(self._shape[1]))
        each: Any = [log_softmax(self[name].logits / temperature) for name, temperature in there]
        return np.logaddexp.reduce(each, axis=0) - np.log(len(each))

    def state(self) -> Payload:
        """Everything on it."""
        return {name: asdict(one) for name, one in self._candidates.items()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._candidates = {name: ShelfModel(**one) for name, one in state.items()}


def log_softmax(logits: Any) -> npt.NDArray[np.float64]:
    """Logarithms of the probabilities, ``[n, C]``."""
    values = np.asarray(logits, np.float64)
    values = values - values.max(1, keepdims=True, initial=-np.inf)
    result: npt.NDArray[np.float64] = values - np.log(np.exp(values).sum(1, keepdims=True))
    return result


def node_losses(log_probabilities: Any, labels: Any) -> Any:
    """The loss at each of some nodes, ``[n]``, within bounds."""
    own = -np.asarray(log_probabilities)[np.arange(len(labels)), labels]
    return np.minimum(own, WORST_LOSS)
