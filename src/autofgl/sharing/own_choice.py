"""Which weights a client keeps for itself, by its own validation nodes."""

import math
from typing import ClassVar

from autofgl.runtime.details import objective_kinds, to_units, with_objective
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.state import Saved


class OwnChoice(Saved):
    """Keeps the best weights that it is offered.

    Better is a lower calibrated loss (:func:`autofgl.tasks.losses.tempered_losses`) without fewer
    right predictions than the first offer had: the loss tells more than a hundred right or wrong
    nodes, and calibration keeps weights from winning by confidence alone. With another objective
    than accuracy better is a higher objective. Without validation nodes the last offer is kept.
    """

    saved: ClassVar[tuple[str, ...]] = ("loss", "least", "weights", "name")

    def __init__(self) -> None:
        self.loss = math.inf
        self.least = -1.0  # accuracy, or objective, of the first offer
        self.weights: Weights | None = None
        self.name = ""  # of what was kept

    def offer(self, local: LocalModel, name: str = "") -> bool:
        """Look at the present weights of a network; whether they are the best so far."""
        settings = local.settings
        sums, counts = local.evaluate_counting(objective_kinds(settings), ["val"])
        metrics = with_objective(Metrics.of(sums), settings, to_units(counts, "val_"))
        loss = float(local.tempered().min()) / max(local.val_nodes, 1)
        if settings.objective != "accuracy":
            loss = -metrics.score
        if self.weights is None:
            self.least = metrics.score
        better = loss < self.loss and metrics.score >= self.least
        if better or self.weights is None or not local.val_nodes:
            self.loss, self.weights, self.name = loss, local.weights(), name
            return True
        return False
