"""How much of its own discriminator a client keeps (ASFGNN, section 4.3, Algorithm 2).

Labels are compared by the Jensen-Shannon divergence with base-2 logarithms, which lies in [0, 1]
(Eq. 2; the paper says so too, which natural logarithms would not give).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Distribution = npt.NDArray[np.float64]


def distribution(counts: Any) -> Distribution:
    """Shares Q of the classes ``[J]`` from their counts; all zero without a node."""
    found: Distribution = np.asarray(counts, np.float64)
    return found / max(float(found.sum()), 1e-300)


def divergence(p: Distribution, q: Distribution) -> float:
    """JS(P‖Q) of Eq. 2, in bits; 0 where one of the two has no mass at all."""
    if not p.any() or not q.any():
        return 0.0
    middle = (p + q) / 2
    bits = (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2
    return min(max(bits, 0.0), 1.0)


def mixed(own: Mapping[str, Any], mean: Mapping[str, Any], keep: float) -> dict[str, Any]:
    """``keep`` · W_i + (1 − ``keep``) · W_s (Algorithm 2, line 24).

    The paper's line takes the W_i of the round before, after mixing; ours the one that was just
    trained, without which a client would throw its own step away.
    """
    share = np.float32(keep)
    return {name: share * own[name] + (1 - share) * value for name, value in mean.items()}


def _relative_entropy(p: Distribution, q: Distribution) -> float:
    """KL(P‖Q) in bits; Q is positive where P is."""
    some = p > 0
    return float(np.sum(p[some] * np.log2(p[some] / q[some])))
