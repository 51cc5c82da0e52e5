"""How a client of SFGNN mixes the clients' mean discriminator with its own.

By Jensen-Shannon divergence, as the paper has it: a client whose labels are like everybody's takes
the mean, one with other labels keeps more of its own. Or class by class: a column of the output
layer belongs to a class, and its mean is weighted by how many labels of the class each client has,
so that a client that has never seen a class does not move its column.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.nn.models.sfgnn import DISCRIMINATOR
from autofgl.runtime.summing import COUNT_UNIT

Distribution = npt.NDArray[np.float64]

#: The output layer of a discriminator: weights, [hidden, C], and biases, [C].
_WEIGHT, _BIAS = f"{DISCRIMINATOR}second.weight", f"{DISCRIMINATOR}second.bias"


def distribution(counts: Any) -> Distribution:
    """Shares Q of the classes ``[J]`` from their counts; all zero without a node."""
    values: Distribution = np.asarray(counts, np.float64)
    return values / max(float(values.sum()), 1e-300)


def divergence(p: Distribution, q: Distribution) -> float:
    """JS(P‖Q) of Eq. 2, in bits and so in [0, 1]; 0 where one of the two has no mass at all."""
    if not p.any() or not q.any():
        return 0.0
    middle, bits = (p + q) / 2, 0.0
    for one in (p, q):
        some = one > 0
        bits += float(np.sum(one[some] * np.log2(one[some] / middle[some]))) / 2
    return min(max(bits, 0.0), 1.0)


def mix(own: Mapping[str, Any], mean: Mapping[str, Any], keep: float) -> dict[str, Any]:
    """``keep`` · W_i + (1 − ``keep``) · W_s (Algorithm 2, line 24).

    The paper's line takes the W_i of the round before, after mixing; ours the one that was just
    trained, without which a client would throw its own step away.
    """
    share = np.float32(keep)
    return {name: share * own[name] + (1 - share) * value for name, value in mean.items()}


def columns_by_class(own: Mapping[str, Any], labels: Any) -> Any:
    """Columns of the own output layer, weights and bias, times the own ``labels`` of the class,
    ``[hidden + 1, C]``: what a client adds to the sum that :func:`class_wise` takes.
    """
    return _columns(own) * (np.asarray(labels, np.float64) / COUNT_UNIT)


def class_wise(mean: Mapping[str, Any], columns: Any, labels: Any) -> dict[str, Any]:
    """A mean discriminator whose output layer has, for each class j, the column Σ_i N_ij · W_ij /
    Σ_i N_ij; a class that nobody has labels of keeps the plain mean.

    ``columns`` and ``labels`` are sums over the clients, ``[hidden + 1, C]`` and ``[C]``.
    """
    known = np.asarray(labels) > 0.5 / COUNT_UNIT
    layer = np.where(known, columns / np.where(known, labels, 1.0), _columns(mean))
    layer = layer.astype(np.float32)
    return {**mean, _WEIGHT: layer[:-1].copy(), _BIAS: layer[-1].copy()}


def _columns(weights: Mapping[str, Any]) -> Any:
    return np.vstack([weights[_WEIGHT], weights[_BIAS]])
