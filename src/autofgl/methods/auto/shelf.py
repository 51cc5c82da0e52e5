"""What a client has kept of the finalists: their predictions for its nodes, and its weights.

An average of several candidates is a candidate too. Probabilities are those after temperature
scaling, so that a network that is too sure of itself does not outvote the others::

    log p = log mean_m softmax(z_m / T_m)
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from autofgl.federation.payload import Payload
from autofgl.runtime.device import fetch
from autofgl.runtime.local_model import WORST_LOSS, LocalModel, Weights

#: Members of a candidate: names on the shelf, each with its temperature.
Members = Sequence[Sequence[Any]]
#: Training nodes that a client's own mix of classes is made of besides its own.
PRIOR = 10


@dataclass
class ShelfModel:
    """Predictions ``[n, C]``, weights, and what network they are of, on which features; ``across``
    if it takes in neighbors at other clients. The ``shift`` of each class, if any, is in the
    predictions.
    """

    logits: npt.NDArray[np.float32]
    weights: Weights
    spec: Payload
    scaling: str | bool
    across: bool = False
    shift: Any = field(default_factory=lambda: np.zeros(0, np.float32))


class Shelf:
    """The candidates of a client by name."""

    def __init__(self, nodes: int, classes: int) -> None:
        self._shape = (nodes, classes)
        self._candidates: dict[str, ShelfModel] = {}

    def put(
        self, name: str, local: LocalModel, outputs: Tensor, across: bool = False, shift: Any = ()
    ) -> Any:
        """Keep a network as it is now, with its outputs for all own nodes; its predictions."""
        logits = np.nan_to_num(fetch(outputs).astype(np.float32))
        if len(shift := np.asarray(shift, np.float32)):
            logits += shift
        spec, scaling = local.spec.to_json(), local.settings.normalize_features
        self._candidates[name] = ShelfModel(logits, local.weights(), spec, scaling, across, shift)
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


def shift_of(labels: Any, shares: Any) -> npt.NDArray[np.float32]:
    """What a client's own mix of classes adds to the outputs of a network for all, ``[C]``.

    Where classes look the same everywhere and only their shares p_i differ from the federation's p,
    the probabilities at client i are p_i / p times as large (Saerens et al., "Adjusting the outputs
    of a classifier to new a priori probabilities", 2002). ``labels`` counts training nodes;
    :data:`PRIOR` more are distributed as the federation's are.
    """
    counts, p = np.asarray(labels, np.float64), np.asarray(shares, np.float64)
    own = (counts + PRIOR * p) / (counts.sum() + PRIOR)
    ratio = np.divide(own, p, out=np.ones_like(p), where=p > 0)
    shift: npt.NDArray[np.float32] = np.log(np.maximum(ratio, 1e-6)).astype(np.float32)
    return shift
