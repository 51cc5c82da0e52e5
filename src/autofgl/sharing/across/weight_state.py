"""What the sampling policy sees of a training: its weights, by PCA (FedGraph, section 4.1).

The paper's state is {W̄, W_1, ..., W_C}, projected to 20 dimensions. Ours has 20 dimensions too and
needs no client's weights at the server: the principal axes are those of W̄ over the first rounds,
fitted once and frozen; half of the state is W̄ along them, the other half how far the clients lie
from each other along them, which takes only the sums over clients of their projections and of the
squares of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.federation.payload import Payload

Vector = npt.NDArray[np.float64]

#: Axes with less of the variance than this share of the first one's are left out.
_NEGLIGIBLE = 1e-10


def weight_vector(weights: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """All weights as one vector, by name."""
    return np.concatenate([np.asarray(weights[name]).ravel() for name in sorted(weights)])


@dataclass(frozen=True)
class Axes:
    """Principal axes of weights, which cross at ``mean`` ``[D]``.

    ``directions`` has one a row, ``[k, D]``, scaled so that the fitted weights have variance 1
    along it; zero if there are fewer.
    """

    mean: npt.NDArray[np.float32]
    directions: npt.NDArray[np.float32]

    @classmethod
    def fit(cls, weights: list[npt.NDArray[np.float32]], count: int) -> "Axes":
        """The first ``count`` principal axes of weights ``[D]``, by the small Gram matrix."""
        rows = np.stack(weights).astype(np.float64)
        mean = rows.mean(0)
        rows -= mean
        variance, scores = np.linalg.eigh(rows @ rows.T)
        largest = np.argsort(variance)[::-1][:count]
        directions = np.zeros((count, rows.shape[1]))
        for place, index in enumerate(largest):
            if variance[index] > _NEGLIGIBLE * max(variance[-1], 1e-300):
                axis = scores[:, index] * np.sign(scores[np.abs(scores[:, index]).argmax(), index])
                directions[place] = axis @ rows * np.sqrt(len(rows)) / variance[index]
        return cls(mean.astype(np.float32), directions.astype(np.float32))

    @property
    def count(self) -> int:
        """Number k of axes."""
        return len(self.directions)

    def project(self, weights: Mapping[str, Any]) -> Vector:
        """Coordinates of weights, ``[k]``."""
        return np.asarray(self.directions @ (weight_vector(weights) - self.mean), np.float64)

    def moments(self, weights: Mapping[str, Any]) -> Vector:
        """A client's part of the state: coordinates and squares ``[2k]``, fit for secure sums."""
        place = np.clip(self.project(weights), -30, 30)
        return np.concatenate([place, place**2])

    def to_payload(self) -> Payload:
        """For messages and checkpoints."""
        return {"mean": self.mean, "directions": self.directions}

    @classmethod
    def from_payload(cls, payload: Payload) -> "Axes":
        """The axes that :meth:`to_payload` wrote."""
        return cls(np.asarray(payload["mean"]), np.asarray(payload["directions"]))


def state_of(axes: Axes, mean: Mapping[str, Any], total: Any, clients: int) -> Vector:
    """The policy's state ``[2k]``: W̄ along the axes, then the clients' spread along them."""
    first, second = np.split(np.asarray(total, np.float64) / max(clients, 1), 2)
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    return np.concatenate([axes.project(mean), spread])
