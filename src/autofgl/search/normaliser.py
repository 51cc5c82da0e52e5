"""Brings the components of a state to one scale."""

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import SearchError
from autofgl.search.searcher import State

#: A normalised component is cut off here: a policy may be used where it has never been.
LIMIT = 5.0


class Normaliser:
    """Subtracts the running mean of all states seen and divides by their standard deviation.

    FedGraph feeds the principal components as they are. Their variances differ by orders of
    magnitude, and a network with one learning rate hardly sees the small ones.

    Args:
        size: Components of a state.
    """

    def __init__(self, size: int) -> None:
        self._count = 0
        self._mean = np.zeros(size)
        self._squares = np.zeros(size)

    def add(self, state: npt.NDArray[np.floating]) -> None:
        """Count one more state (Welford's update)."""
        self._count += 1
        before = state - self._mean
        self._mean = self._mean + before / self._count
        self._squares = self._squares + before * (state - self._mean)

    def __call__(self, states: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """The states [..., size] on the common scale; a constant component is only shifted."""
        deviation = np.sqrt(self._squares / max(self._count, 1))
        varies = deviation > 1e-6 * np.abs(self._mean) + 1e-12
        scaled = (states - self._mean) / np.where(varies, deviation, 1.0)
        return np.clip(scaled, -LIMIT, LIMIT).astype(np.float32)

    def state(self) -> State:
        """Number of states, their mean, and the sum of squares about it."""
        return {
            "count": self._count,
            "mean": self._mean.copy(),
            "squares": self._squares.copy(),
        }

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken.

        Raises:
            SearchError: It was taken of states of another size.
        """
        mean, squares = (np.array(state[key], np.float64) for key in ("mean", "squares"))
        if mean.shape != self._mean.shape or squares.shape != self._mean.shape:
            raise SearchError(f"saved mean of shape {mean.shape}, expected {self._mean.shape}")
        self._count, self._mean, self._squares = int(state["count"]), mean, squares
