"""What a client counts about its predictions: arrays that add up over clients.

Notation: n nodes, C classes, K = C one-vs-rest problems or one where C = 2 (class 1 against class
0), B bins.

- ``confusion`` ``[C, C]``: nodes by their class (row) and the predicted one (column).
- ``scores`` ``[K, 2, B]``: nodes by their score for a class, those of another class first and those
  of the class itself second.
- ``calibration`` ``[15, 3]``: by the confidence in the predicted class, the sum of the confidences,
  correct predictions, and nodes.

Scores are binned by log-odds, since those of a rare class crowd near the probability 0, where bins
of equal width in probability would hold all of them. The log-odds x = log(p / (1 - p)) of a class
are bent to x / (4 + |x|), which maps all of them to (-1, 1), and cut into B bins of equal width: at
even odds a bin of 8192 is 0.001 wide, at odds of 3000 to 1 nine times that, and there is no largest
score. Bins do not depend on data, and so all clients have the same.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from autofgl.tasks.objectives import FEWEST_BINS

Counts = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Log-odds at which bins are four times as wide as at even odds.
_BEND = 4.0
#: Bins of equal width of the confidence in a prediction.
CONFIDENCES = 15


def confusion_counts(logits: Any, labels: Any) -> Counts:
    """Nodes by class and predicted class, from logits ``[n, C]`` and labels ``[n]``."""
    values, classes = np.asarray(logits), np.shape(logits)[1]
    cells = np.asarray(labels, np.int64) * classes + values.argmax(1)
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes).astype(np.float64)


def score_counts(logits: Any, labels: Any, cells: int) -> Counts:
    """Nodes by score, from logits ``[n, C]`` and labels ``[n]``; about so many cells in all."""
    values, own = np.asarray(logits, np.float64), np.asarray(labels, np.int64)
    odds, names = log_odds(values), np.arange(values.shape[1])
    if values.shape[1] == 2:
        odds, names = odds[:, 1:], names[1:]
    bins = bins_for(len(names), cells)
    counts = np.zeros((len(names), 2, bins))
    for table, name, column in zip(counts, names, odds.T, strict=True):
        place = (own == name) * bins + bin_of(column, bins)
        table[:] = np.bincount(place, minlength=2 * bins).reshape(2, bins)
    return counts


def calibration_counts(logits: Any, labels: Any) -> Counts:
    """Confidences, correct predictions and nodes by confidence, ``[15, 3]``."""
    values = np.asarray(logits, np.float64)
    shifted = np.exp(values - values.max(1, keepdims=True, initial=-np.inf))
    confidence = 1 / np.maximum(shifted.sum(1), 1.0)  # the largest is exp(0)
    right = np.asarray(logits).argmax(1) == np.asarray(labels)
    place = np.minimum((confidence * CONFIDENCES).astype(np.int64), CONFIDENCES - 1)
    columns = (confidence, right.astype(np.float64), np.ones(len(values)))
    counted = [np.bincount(place, column, minlength=CONFIDENCES) for column in columns]
    return np.stack(counted, axis=1)


def log_odds(logits: Floats) -> Floats:
    """Log-odds of every class against all others, ``[n, C]``, exact however sure a network is.

    log(p_c / (1 - p_c)) is z_c minus the log-sum-exp of the others, those before c and those after.
    """
    others = np.full_like(logits, -np.inf)
    if logits.shape[1] > 1:
        others[:, 1:] = np.logaddexp.accumulate(logits[:, :-1], axis=1)
        after = np.logaddexp.accumulate(logits[:, :0:-1], axis=1)[:, ::-1]
        others[:, :-1] = np.logaddexp(others[:, :-1], after)
    return logits - others


def bin_of(odds: Floats, bins: int) -> Ints:
    """The bin of each of some log-odds."""
    finite = np.clip(odds, -1e300, 1e300)
    share = (finite / (_BEND + np.abs(finite)) + 1) / 2
    return np.minimum((share * bins).astype(np.int64), bins - 1)


def bins_for(problems: int, cells: int) -> int:
    """Bins of each of K histograms."""
    return max(cells // problems, min(cells, FEWEST_BINS))


def prediction_counts(
    logits: Any, labels: Any, kinds: Collection[str], cells: int
) -> dict[str, Counts]:
    """The counts of some kinds, by name."""
    counted = {
        "confusion": lambda: confusion_counts(logits, labels),
        "scores": lambda: score_counts(logits, labels, cells),
        "calibration": lambda: calibration_counts(logits, labels),
    }
    return {kind: counted[kind]() for kind in kinds}
