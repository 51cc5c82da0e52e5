"""The replay buffer of FedGraph's Algorithm 4."""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import SearchError
from autofgl.search.searcher import State

Floats: TypeAlias = npt.NDArray[np.float32]


class Transitions(NamedTuple):
    """Rounds that were seen: in a state s an action a earned r and led to s'.

    Attributes:
        states: s, [n, state size].
        actions: a, [n, action size].
        rewards: r, [n].
        next_states: s', [n, state size].
        done: 1 where nothing follows s', else 0; [n].
    """

    states: Floats
    actions: Floats
    rewards: Floats
    next_states: Floats
    done: Floats


class Replay:
    """Keeps the latest transitions, each as one row, and discards the oldest when it is full.

    Transitions are drawn by their age, so that what is drawn does not depend on where they lie.

    Args:
        capacity: Most transitions that are kept.
        state_size: Components of a state.
        action_size: Components of an action.
    """

    def __init__(self, capacity: int, state_size: int, action_size: int) -> None:
        widths = (state_size, action_size, 1, state_size, 1)
        self._splits = np.cumsum(widths)[:-1]
        self._rows: Floats = np.zeros((capacity, sum(widths)), np.float32)
        self._size = 0
        self._end = 0

    def __len__(self) -> int:
        return self._size

    def add(
        self, state: Floats, action: Floats, reward: float, next_state: Floats, done: bool
    ) -> None:
        """Keep one more transition."""
        self._rows[self._end] = np.concatenate([state, action, [reward], next_state, [done]])
        self._end = (self._end + 1) % len(self._rows)
        self._size = min(self._size + 1, len(self._rows))

    def sample(self, n: int, rng: np.random.Generator) -> Transitions:
        """``n`` different transitions, all equally likely.

        Raises:
            SearchError: Fewer are kept.
        """
        if n > self._size:
            raise SearchError(f"cannot draw {n} of {self._size} transitions")
        rows = self._by_age(rng.choice(self._size, n, replace=False, shuffle=False))
        states, actions, rewards, next_states, done = np.split(rows, self._splits, axis=1)
        return Transitions(states, actions, rewards[:, 0], next_states, done[:, 0])

    def state(self) -> State:
        """All transitions, the oldest first."""
        return {"rows": self._by_age(np.arange(self._size))}

    def load_state(self, state: State) -> None:
        """Hold the transitions of :meth:`state`, only the latest of them if not all fit.

        Raises:
            SearchError: They are of other sizes.
        """
        rows = np.asarray(state["rows"], np.float32)
        if rows.ndim != 2 or rows.shape[1] != self._rows.shape[1]:
            width = self._rows.shape[1]
            raise SearchError(f"saved transitions have shape {rows.shape}, expected (n, {width})")
        rows = rows[-len(self._rows) :]
        self._rows[: len(rows)] = rows
        self._size = len(rows)
        self._end = len(rows) % len(self._rows)

    def _by_age(self, ages: npt.NDArray[np.int64]) -> Floats:
        """A copy of the transitions of these ages; 0 is the oldest."""
        rows: Floats = self._rows[(self._end - self._size + ages) % len(self._rows)]
        return rows
