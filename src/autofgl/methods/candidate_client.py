"""The client side of the searches that try candidates; see :mod:`autofgl.methods.candidates`."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.found_client import FoundClient, found_spec
from autofgl.methods.local_model import LocalModel
from autofgl.methods.method import Weights
from autofgl.methods.metrics import SPLITS, Sums
from autofgl.methods.settings import TrainSettings
from autofgl.nn.networks import NetworkSpec

#: A node's loss counts as no more than this: secure sums hold numbers of a limited size.
WORST_LOSS = 50.0
#: For the same reason no entry of a gradient is larger than this.
LARGEST_GRADIENT = 1000.0


class TrialModel(LocalModel):
    """A network on trial: it does not see test nodes, and it may diverge.

    What it sends is always finite. The figures of the test nodes are not taken in a trial, and in
    the place of their loss stands a one once the network has diverged here. Summed over the clients
    it tells the server that somebody's has, and not whose.
    """

    def __init__(
        self, graph: ClientGraph, spec: NetworkSpec, settings: TrainSettings, seed: int
    ) -> None:
        nothing = np.zeros_like(graph.test_mask)
        hidden = graph.with_masks(graph.train_mask, graph.val_mask, nothing)
        super().__init__(hidden, spec, settings, seed)

    def begin(self, spec: NetworkSpec, settings: TrainSettings) -> None:
        """See :class:`~autofgl.methods.local_model.LocalModel`."""
        super().begin(spec, settings)
        self._diverged = False

    def train(self, epochs: int, at: int) -> None:
        """Local epochs, undone if they lead nowhere."""
        before = self.weights()
        super().train(epochs, at)
        if not _finite(self.weights().values()):
            self._diverged = True
            self.load_weights(before)

    def gradient(self, at: int) -> Weights:
        """The gradient within bounds; zero if there is none."""
        gradient = super().gradient(at)
        if not _finite(gradient.values()):
            self._diverged = True
            return {name: np.zeros_like(value) for name, value in gradient.items()}
        bound = LARGEST_GRADIENT
        return {name: np.clip(value, -bound, bound) for name, value in gradient.items()}

    def evaluate(self) -> Sums:
        """Figures on training and validation nodes, and whether it has diverged, ``[9]``."""
        counts = np.array([len(nodes) for nodes in self._nodes], np.float64)
        sums = np.stack([WORST_LOSS * counts, 0 * counts, counts], axis=1)
        try:
            figures = super().evaluate().reshape(len(SPLITS), 3)
        except AutoFGLError:
            self._diverged = True
        if not self._diverged:
            sums[:, 0] = np.minimum(sums[:, 0], figures[:, 0])
            sums[:, 1] = figures[:, 1]
        sums[SPLITS.index("test"), 0] = float(self._diverged)
        return sums.reshape(-1)

    def state(self) -> Payload:
        """Weights, moments, and whether it has diverged."""
        return {**super().state(), "diverged": self._diverged}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        self._diverged = state["diverged"]


class CandidateClient(FoundClient):
    """Tries networks one after the other, and trains those that are adopted in the end."""

    operations: ClassVar[frozenset[str]] = FoundClient.operations | {"try_out"}

    _trial = False

    def try_out(self, payload: Payload) -> Payload:
        """Like ``adopt``, but on trial."""
        self._trial = True
        self._adopt(found_spec(self._graph, self._space_settings, payload["genotype"]))
        return {}

    def adopt(self, payload: Payload) -> Payload:
        """Begin with a network that is to stay."""
        self._trial = False
        return super().adopt(payload)

    def state(self) -> Payload:
        """What the training of any network needs, and whether it is a trial."""
        return {**super().state(), "trial": self._trial}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._trial = state["trial"]
        super().load_state(state)

    def _adopt(self, spec: NetworkSpec) -> None:
        kind = TrialModel if self._trial else LocalModel
        self._local = kind(self._graph, spec, self._settings, self._seed)
        self._best = None


def _finite(arrays: Iterable[Any]) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)
