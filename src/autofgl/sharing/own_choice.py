"""Which weights a client keeps for itself, by its own validation nodes."""

import math
from typing import Any, ClassVar

import numpy as np

from autofgl.runtime.details import objective_kinds, to_units, with_objective
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.state import Saved


class OwnChoice(Saved):
    """Keeps the best of the weights that it is offered, and remembers the first.

    Better is a lower calibrated loss (:func:`autofgl.tasks.losses.tempered_losses`) without fewer
    right predictions than the first offer had: the loss tells more than a hundred right or wrong
    nodes, and calibration keeps weights from winning by confidence alone. With another objective
    than accuracy better is a higher objective. Without validation nodes the last offer is kept.

    The best of many offers is the best by luck too: :attr:`clear` says whether its loss is below
    that of the first by more than one standard error, over the nodes.
    """

    saved: ClassVar[tuple[str, ...]] = ("loss", "least", "weights", "name", "first", "lowest")

    def __init__(self) -> None:
        self.loss = math.inf
        self.least = -1.0  # accuracy, or objective, of the first offer
        self.weights: Weights | None = None
        self.name = ""  # of what was kept
        self.first: Any = None  # losses of the nodes by the first offer, and by the best
        self.lowest: Any = None

    def offer(self, local: LocalModel, name: str = "") -> bool:
        """Look at the present weights of a network; whether they are the best so far."""
        settings = local.settings
        sums, counts = local.evaluate_counting(objective_kinds(settings), ["val"])
        metrics = with_objective(Metrics.of(sums), settings, to_units(counts, "val_"))
        losses = local.calibrated_losses()
        loss = float(losses.mean()) if len(losses) else 0.0
        if settings.objective != "accuracy":
            loss = -metrics.score
        if self.weights is None:
            self.least, self.first = metrics.score, losses
        better = loss < self.loss and metrics.score >= self.least
        if better or self.weights is None or not local.val_nodes:
            self.loss, self.weights, self.name = loss, local.weights(), name
            self.lowest = losses
            return True
        return False

    @property
    def clear(self) -> bool:
        """Whether the best is better than the first by more than chance would have it."""
        gains = np.asarray(self.first) - np.asarray(self.lowest)
        if len(gains) < 2:
            return False
        return bool(gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains)))
