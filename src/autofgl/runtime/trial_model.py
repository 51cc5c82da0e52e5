"""A network on trial."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autofgl.errors import AutoFGLError
from autofgl.nn.models.spec import NetworkSpec
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.local_model import WORST_LOSS, LocalModel, Weights, all_finite
from autofgl.runtime.metrics import SPLITS, MetricSums
from autofgl.runtime.settings import TrainSettings
from autofgl.tasks.counts import Counts

#: No entry of a trial's gradient is larger: secure sums hold numbers of limited size.
LARGEST_GRADIENT = 1000.0


class TrialModel(LocalModel):
    """A network on trial: it does not see test nodes, and it may diverge.

    What it sends is always finite; ``diverged`` says whether it has come to nothing here.
    """

    saved = ("_optimizer", "diverged")

    def __init__(
        self, name: str, inputs: Inputs, spec: NetworkSpec, settings: TrainSettings, seed: int
    ) -> None:
        super().__init__(name, inputs.without_test(), spec, settings, seed)
        self.diverged = False

    def train(self, epochs: int, at: int, adjust: Callable[[], None] | None = None) -> None:
        """Local epochs, undone if they lead nowhere."""
        before = self.weights()
        super().train(epochs, at, adjust)
        if not all_finite(self.weights().values()):
            self.diverged = True
            self.load_weights(before)

    def gradient(self, at: int) -> Weights:
        """The gradient within bounds; zero if there is none."""
        before = self.buffers()
        gradient = super().gradient(at)
        if not all_finite([*gradient.values(), *self.buffers().values()]):
            self.diverged = True
            self.load_buffers(before)
            return self.no_gradient()
        return self.bounded(gradient)

    def bounded(self, gradient: Weights) -> Weights:
        """Within bounds; zero, and the network has diverged, where it is not finite."""
        if not all_finite(gradient.values()):
            self.diverged = True
            return self.no_gradient()
        bound = LARGEST_GRADIENT
        return {name: np.clip(value, -bound, bound) for name, value in gradient.items()}

    def loss_sums(self, logits: Tensor) -> MetricSums:
        """Figures on training and validation nodes, ``[9]``; the worst if it has diverged."""
        counts = np.array([len(nodes) for nodes in self._nodes], np.float64)
        sums = np.stack([WORST_LOSS * counts, 0 * counts, counts], axis=1)
        try:
            figures = super().loss_sums(logits).reshape(len(SPLITS), 3)
        except AutoFGLError:
            self.diverged = True
        if not self.diverged:
            sums[:, 0] = np.minimum(sums[:, 0], figures[:, 0])
            sums[:, 1] = figures[:, 1]
        return sums.reshape(-1)

    def counts_of(
        self, logits: Tensor, kinds: Sequence[str], splits: Sequence[str]
    ) -> dict[str, Counts]:
        """Counted predictions; none once it has diverged."""
        if not self.diverged:
            return super().counts_of(logits, kinds, splits)
        counts = super().counts_of(torch.zeros_like(logits), kinds, splits)
        return {kind: np.zeros_like(values) for kind, values in counts.items()}

    def flags(self) -> dict[str, Any]:
        """A one under ``diverged`` once the network has come to nothing here.

        Summed over the clients it says that somebody's has, and not whose.
        """
        return {"diverged": np.array([float(self.diverged)])}
