"""Finds a client that sends its updates with the sign reversed, where the server sees single ones.

How a client's update lies to those of the others does not tell: where data differ, honest clients
pull against each other, and more so toward the end of a training. (When the sum of all gradients is
zero, each of them is minus the sum of the others.) So a client is compared with itself alone.

**Gradients** foretell the client's own loss, which it reports. When the common weights w move by Δ,
the loss L_i of client i changes by the integral of its gradient g_i over the way, for which the
trapezoidal rule stands, exact if the loss is quadratic::

    L_i(w + Δ) − L_i(w)  ≈  ½ ⟨g_i(w) + g_i(w + Δ), Δ⟩

**Parameters** after local epochs foretell less, since a client's optimizer scales each coordinate.
But training pulls back to where a client's loss is low. So the update u_i, from the common weights
to the client's own, turns against a move, as it does wherever the loss is convex along it::

    ⟨u_i(w), Δ⟩ − ⟨u_i(w + Δ), Δ⟩  >  0

Each round gives one pair of numbers for each client: both sides of the first line, or the left side
of the second and its largest possible value. In honest clients the two agree in sign, as long as
the loss is what they train for: late in a training dropout and decay move the weights, so that
rounds count only while a client's loss is a good part of its first one. That alone does not say how
late it is: with a sigmoid at the output, say, no loss falls below half of its first value. So what
gradients foretell counts only while the loss gets somewhere.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autofgl.runtime.state import Saved

#: So many rounds in a row say whether a client's updates are reversed ...
WINDOW = 10
#: ... which they are if the two numbers disagree in all of them and are correlated like this.
_CORRELATION = -0.9

#: Rounds count while a client's loss is above this part of its first one.
_HIGH = 1 / 3
#: Those of a window count if the loss has changed by this part of its first one from end to end.
_MOVES = 0.02

#: What torch calls the statistics of a normalization.
_STATISTICS = {"running_mean", "running_var", "num_batches_tracked"}

#: In single precision: signs and rough sizes are looked at, of every client in every round.
Flat = NDArray[np.float32]


def flattened(vectors: Mapping[str, Any]) -> Flat:
    """Vectors as a single one, in the order of their names.

    Biases belong to it: where classes are of unequal size, they may raise the loss of a client that
    all matrices lower. Statistics of a normalization do not, which travel in the same sums and are
    no gradients.
    """
    chosen = [name for name in sorted(vectors) if name.rpartition(".")[2] not in _STATISTICS]
    parts = [np.zeros(0, np.float32), *(np.ravel(vectors[name]) for name in chosen)]
    return np.concatenate(parts, dtype=np.float32, casting="same_kind")


class ReversalCheck(Saved):
    """Takes in every round and names clients whose updates go the wrong way; see above.

    It keeps the last step and a few numbers for each client, not their updates.
    """

    saved = ("_step", "_before", "_pairs", "_first")

    def __init__(self) -> None:
        self._step: Flat | None = None
        #: By client: its update along the last step, its loss, and its update's length.
        self._before: dict[str, list[float]] = {}
        self._pairs: dict[str, list[list[float]]] = {}
        #: Each client's first loss.
        self._first: dict[str, float] = {}

    def observe(
        self,
        sent: Mapping[str, Flat],
        losses: Mapping[str, float],
        step: Flat,
        gradients: bool,
    ) -> list[str]:
        """Take in what clients sent in a round, gradients or updates of parameters, their training
        losses before it, and the step of the common weights after it. Who sends reversed ones.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # of a training that diverges
            self._pair(sent, losses, gradients)
            self._step, self._first = step, {**losses, **self._first}
            self._before = {
                name: [float(one @ step), losses[name], _norm(one)]
                for name, one in sent.items()
                if name in losses
            }
        least = _MOVES if gradients else 0.0
        return sorted(
            name
            for name in sent
            if is_reversed(self._pairs.get(name, []), least * self._first.get(name, 0.0))
        )

    def interrupt(self) -> None:
        """A round came to nothing: the next one is not compared with the last."""
        self._step, self._before = None, {}

    def _pair(self, sent: Mapping[str, Flat], losses: Mapping[str, float], gradients: bool) -> None:
        if self._step is None:
            return
        far = _norm(self._step)
        for name in sent.keys() & self._before.keys() & losses.keys():
            along, loss, length = self._before[name]
            if losses[name] <= _HIGH * self._first[name]:
                self._pairs.pop(name, None)
                continue
            now = float(sent[name] @ self._step)
            most = (length + _norm(sent[name])) * far
            change = losses[name] - loss
            pair = [(along + now) / 2, change] if gradients else [along - now, most]
            self._pairs[name] = [*self._pairs.get(name, []), pair][-WINDOW:]


def is_reversed(pairs: list[list[float]], least: float = 0.0) -> bool:
    """Whether the two numbers of a client's last rounds disagree in sign, and by much, where the
    second ones come to the ``least`` together.
    """
    if len(pairs) < WINDOW or not np.isfinite(pairs).all():
        return False
    first, second = np.array(pairs).T
    if abs(second.sum()) < least:
        return False
    size = math.sqrt(float(first @ first) * float(second @ second))
    return bool((first * second < 0).all()) and float(first @ second) <= _CORRELATION * size


def _norm(vector: Flat) -> float:
    return float(np.linalg.norm(vector))


class FollowedAdam(Saved):
    """The steps that clients take along summed gradients with Adam, or with AdamW if the decay is
    ``decoupled``, as far as the server can tell them: it does not have the initial weights, and
    leaves their penalty out.
    """

    saved = ("_count", "_mean", "_square", "_moved")

    def __init__(self, lr: float, weight_decay: float, decoupled: bool = False) -> None:
        self._lr = lr
        self._weight_decay = weight_decay
        self._decoupled = decoupled
        self._count = 0
        self._mean: Flat | None = None
        self._square: Flat | None = None
        self._moved: Flat | None = None

    def step(self, gradient: Flat) -> Flat:
        """The step along the next gradient."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a training that diverges
            return self._next(gradient)

    def _next(self, gradient: Flat) -> Flat:
        zero = np.zeros_like(gradient)
        mean, square, moved = (zero if one is None else one for one in (
            self._mean, self._square, self._moved,
        ))  # fmt: skip
        decay = self._weight_decay * moved
        gradient = gradient if self._decoupled else gradient + decay
        self._count += 1
        self._mean = mean + (1 - _BETAS[0]) * (gradient - mean)
        self._square = square + (1 - _BETAS[1]) * (gradient**2 - square)
        first = self._mean / (1 - _BETAS[0] ** self._count)
        second = np.sqrt(self._square / (1 - _BETAS[1] ** self._count))
        step: Flat = -self._lr * first / (second + 1e-8)
        step = step - self._lr * decay if self._decoupled else step
        self._moved = moved + step
        return step


#: Of Adam, as the clients have it.
_BETAS = (0.9, 0.999)
