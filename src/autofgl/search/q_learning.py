"""Q-learning over the sequence of genes, as BlockQNN and MetaQNN search for architectures.

Zhong et al., "Practical Block-wise Neural Network Architecture Generation" (CVPR 2018), after
Baker et al., "Designing Neural Network Architectures using Reinforcement Learning" (ICLR 2017). An
agent chooses one gene after the other. A state is the position with the last chosen values, an
action is the value of the next gene, and the reward of the finished code is spread evenly over its
choices (BlockQNN's shaped reward, r_t = r_T / T).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.search.searcher import Candidates, Losses, SearchError, State, as_losses
from autofgl.search.space import TRIES, Code, Codes, SearchSpace, Seeded

#: Pairs (ε, number of codes that are asked with it); the last ε stays.
Schedule: TypeAlias = Sequence[tuple[float, int]]

#: BlockQNN's schedule, with one code where it has an iteration of 64: half of the time is spent on
#: pure exploration.
BLOCKQNN: Schedule = (
    (1.0, 95), (0.9, 7), (0.8, 7), (0.7, 7), (0.6, 10),
    (0.5, 10), (0.4, 10), (0.3, 10), (0.2, 10), (0.1, 12),
)  # fmt: skip


def scaled_schedule(total: int, shape: Schedule = BLOCKQNN) -> Schedule:
    """The schedule stretched or shrunk to ``total`` codes."""
    ends = np.cumsum([count for _, count in shape])
    ends = np.rint(ends * (total / ends[-1])).astype(int)
    counts = np.diff(ends, prepend=0).tolist()
    return tuple((epsilon, count) for (epsilon, _), count in zip(shape, counts, strict=True))


def likelihood(loss: float) -> float:
    """exp(-loss): of a cross-entropy, the mean likelihood of the labels; in (0, 1] as accuracy."""
    return math.exp(-loss)


class QLearning(Seeded):
    """A table of values, an ε-greedy policy and experience replay.

    Like MetaQNN it does not ask for a network twice as long as the policy can find another. The
    space has no continuum; its codes are what the agent plays.

    Args:
        schedule: ε by the number of codes asked; see :func:`scaled_schedule`.
        memory: How many previous genes a state holds.
        rate: Learning rate of the Bellman update. The papers' 0.01 is for ten thousand codes;
            with a few hundred it learns too little.
        replay: Codes that are sampled from the experience and learned from at each tell.
        initial: First value of every action.
        reward: Maps a finite loss to what is maximized; a diverged code has the lowest so far.
    """

    def __init__(
        self,
        space: SearchSpace,
        rng: np.random.Generator,
        schedule: Schedule = BLOCKQNN,
        *,
        memory: int = 1,
        rate: float = 0.1,
        replay: int = 128,
        initial: float = 0.5,
        reward: Callable[[float], float] = likelihood,
    ) -> None:
        if memory < 0 or not 0 < rate <= 1 or replay < 0:
            raise SearchError(f"memory {memory}, rate {rate}, replay {replay} make no sense")
        if not schedule or not all(0 <= epsilon <= 1 <= n + 1 for epsilon, n in schedule):
            raise SearchError(f"a schedule is pairs of ε in [0, 1] and a count, not {schedule}")
        super().__init__(space, rng)
        self.schedule = tuple(schedule)
        self.memory = memory
        self.rate = rate
        self.replay = replay
        self.reward = reward
        self._vectors = Codes(space.cardinalities)
        self._asked = 0
        self._values = [np.full(shape, initial, np.float64) for shape in self._shapes()]
        self._codes = self._vectors.stack([])
        self._rewards: Losses = np.zeros(0)
        self._seen: set[Hashable] = set()

    @property
    def epsilon(self) -> float:
        """Probability with which the next gene is random."""
        left = self._asked
        for epsilon, count in self.schedule:
            if left < count:
                return epsilon
            left -= count
        return self.schedule[-1][0]

    def ask(self, n: int = 1) -> Candidates:
        """Candidates that the policy makes, new ones if it can."""
        asked = []
        taken = set(self._seen)
        for _ in range(n):
            for _ in range(TRIES):
                candidate = self.space.decode(self._sample()[None])[0]
                key = self.space.key(candidate)
                if key not in taken:
                    break
            asked.append(candidate)
            taken.add(key)
            self._asked += 1
        return self.space.candidates(asked)

    def tell(self, candidates: Candidates, losses: npt.ArrayLike) -> None:
        """Add the candidates to the experience, learn from them, then from a replayed sample."""
        checked = self.space.checked(candidates)
        codes = self.space.encode(checked)
        values = as_losses(losses, len(codes))
        diverged = np.isinf(values)
        rewards = np.zeros(len(codes))
        rewards[~diverged] = [self.reward(loss) for loss in values[~diverged]]
        finite = np.concatenate([self._rewards, rewards[~diverged]])
        rewards[diverged] = finite.min() if finite.size else 0.0
        self._codes = np.concatenate([self._codes, codes])
        self._rewards = np.concatenate([self._rewards, rewards])
        self._seen.update(self.space.keys(checked))
        for code, reward in zip(codes, rewards, strict=True):
            self._learn(code, reward)
        replay = self.replay if len(self._codes) else 0
        for row in self._rng.integers(0, max(len(self._codes), 1), replay):
            self._learn(self._codes[row], self._rewards[row])

    def _memory(self) -> State:
        return {
            "asked": self._asked,
            "values": [values.copy() for values in self._values],
            "codes": self._codes,
            "rewards": self._rewards,
        }

    def _remember(self, state: State) -> None:
        codes = self._vectors.checked(state["codes"])
        values = [np.array(table, np.float64) for table in state["values"]]
        if [table.shape for table in values] != self._shapes():
            raise SearchError("the saved values belong to another space or another memory")
        self._values, self._codes, self._asked = values, codes, state["asked"]
        self._rewards = np.array(state["rewards"], np.float64)
        self._seen = set(self.space.keys(self.space.decode(codes)))

    def _shapes(self) -> list[tuple[int, ...]]:
        """Of each gene's table: the values of up to ``memory`` genes before it, then its own."""
        counts = self.space.cardinalities
        return [counts[max(0, g - self.memory) : g + 1] for g in range(len(counts))]

    def _actions(self, code: list[int], gene: int) -> npt.NDArray[np.float64]:
        """A view of the values of all choices of a gene after the genes before it."""
        return np.asarray(self._values[gene][tuple(code[max(0, gene - self.memory) : gene])])

    def _sample(self) -> Code:
        """One code by the ε-greedy policy; equal values are equally likely."""
        explore = self._rng.random(len(self.space.genes)) < self.epsilon
        code: list[int] = self._rng.integers(0, self.space.cardinalities).tolist()
        for gene in np.flatnonzero(~explore).tolist():
            actions = self._actions(code, gene)
            best = np.flatnonzero(actions == actions.max())
            code[gene] = int(best[0] if len(best) == 1 else self._rng.choice(best))
        return np.array(code, np.int64)

    def _learn(self, code: Code, reward: float) -> None:
        """Bellman updates from the last gene to the first, undiscounted.

        Q(s_t, a_t) ← (1 - α) Q(s_t, a_t) + α (r_T / T + max_a Q(s_{t+1}, a)).
        """
        ahead = 0.0
        choices = code.tolist()
        for gene in reversed(range(len(choices))):
            actions = self._actions(choices, gene)
            target = reward / len(choices) + ahead
            actions[choices[gene]] += self.rate * (target - actions[choices[gene]])
            ahead = actions.max()
