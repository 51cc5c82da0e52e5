r"""How a convolution's neighbors are drawn: FedGraph's Algorithm 2 and what it is compared with.

A mini-batch is built from the last convolution down, one block at a time: the own sources of a
block are the targets of the block below. A *rule* draws one block; on average over its draws, the
block is the targets' rows of :math:`\mathbf{Q}`.

A call costs time and memory in proportion to the targets' rows, however large the graph is.
Targets may come in any order and repeatedly; the block has each of them once, sorted.

Notation: :math:`V(v)` are the entries of row v of :math:`\mathbf{Q}`, self loop included, and
:math:`N(v)` those that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from autofgl.errors import GraphError
from autofgl.nn.sampling.neighborhood import Block, Columns, Floats, Neighborhood, starts

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import Ints


class Rule(Protocol):
    """Draws the neighbors of one convolution."""

    def __call__(self, matrix: Neighborhood, targets: Ints, rng: np.random.Generator, /) -> Block:
        """A block with these targets."""
        ...


class Everything:
    """All neighbors; nothing is drawn, so the last block is kept and serves for the same targets
    again.
    """

    def __init__(self) -> None:
        self._last: tuple[Neighborhood, Ints, Block] | None = None

    def __call__(
        self, matrix: Neighborhood, targets: Ints, _rng: np.random.Generator | None = None
    ) -> Block:
        """The targets' full rows."""
        if self._last is not None:
            last, nodes, block = self._last
            if last is matrix and np.array_equal(nodes, targets):
                return block
        rows = _Rows.of(matrix, targets)
        block = Block.of_entries(matrix, rows.targets, rows.lengths, rows.entries())
        self._last = matrix, targets.copy(), block
        return block


@dataclass(frozen=True)
class Keep:
    r"""FedGraph's Algorithm 2: every entry of a row is kept with probability p.

    Kept entries are scaled by :math:`|V(v)| / |N(v)|` (Eq. 7). The paper does not say what becomes
    of a row that keeps nothing; here it keeps one entry, drawn uniformly. A sample is then uniform
    among the subsets of its size, whatever the size, so that the estimate has no bias. Keeping the
    node itself instead would overrate the self loop wherever p is small.
    """

    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"the probability of keeping must lie in [0, 1], not {self.p}")

    def __call__(self, matrix: Neighborhood, targets: Ints, rng: np.random.Generator) -> Block:
        """A sample of the targets' rows."""
        rows = _Rows.of(matrix, targets)
        kept = np.flatnonzero(rng.random(int(rows.bounds[-1]), np.float32) < self.p)
        counts = rows.counts(kept)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            kept = np.concatenate([kept, rows.bounds[empty] + rng.integers(rows.lengths[empty])])
            kept.sort()
            counts[empty] = 1
        entries = kept + np.repeat(rows.begins - rows.bounds[:-1], counts)
        scale = np.repeat((rows.lengths / counts).astype(np.float32), counts)
        return Block.of_entries(matrix, rows.targets, counts, entries, scale)


@dataclass(frozen=True)
class Fanout:
    """GraphSAGE's sampling: at most k neighbors of each node, drawn without replacement.

    The k are drawn among the real neighbors and scaled by the number of neighbors over k. The
    self loop is always there, with its own weight, as GraphSAGE also treats a node apart from its
    neighbors. A node with k neighbors or fewer keeps them all.
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"the number of neighbors must be at least 1, not {self.k}")

    def __call__(self, matrix: Neighborhood, targets: Ints, rng: np.random.Generator) -> Block:
        """A sample of the targets' rows."""
        rows = _Rows.of(matrix, targets)
        counts = np.minimum(rows.lengths, self.k + 1)
        bounds = starts(counts)
        entries = runs(rows.begins, bounds)  # right for short rows; long ones follow
        scale = np.ones(len(entries), np.float32)
        long = np.flatnonzero(rows.lengths > counts)
        begins, degree = rows.begins[long], rows.lengths[long] - 1
        loop = matrix.loops[rows.targets[long]]
        picks = subsets(degree, self.k, rng)
        picks += picks >= loop  # jump over the self loop
        place = bounds[long] + np.arange(self.k + 1)[:, None]
        entries[place[0]] = begins + loop
        entries[place[1:]] = begins + picks
        scale[place[1:]] = degree / self.k
        return Block.of_entries(matrix, rows.targets, counts, entries, scale)


@dataclass(frozen=True)
class Importance:
    r"""FastGCN's sampling: a number of columns for the whole convolution, whatever its targets.

    Columns are drawn with replacement with probability :math:`q(u) \propto \|\mathbf{Q}(:, u)\|^2`
    over the client's rows (`Chen et al., 2018 <https://arxiv.org/abs/1801.10247>`_). An entry in
    column u is scaled by how often u was drawn over how often it is expected, ``size * q(u)``. A
    row may stay empty. A column that no target touches adds nothing and is left out.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the number of draws must be at least 1, not {self.size}")

    def __call__(self, matrix: Neighborhood, targets: Ints, rng: np.random.Generator) -> Block:
        """The targets' rows at a sample of columns."""
        rows = _Rows.of(matrix, targets)
        columns, factors = self._draw_columns(matrix, rng)
        entries = rows.entries()
        hits, place = _matches(matrix.indices[entries], columns)
        return Block.of_entries(
            matrix, rows.targets, rows.counts(hits), entries[hits], factors[place]
        )

    def _draw_columns(self, matrix: Neighborhood, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """The drawn columns, sorted and distinct, and the factors of their entries."""
        ladder = matrix.importance
        if not len(ladder):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        draws = np.searchsorted(ladder, np.sort(rng.random(self.size)), side="right")
        first = np.flatnonzero(np.diff(draws, prepend=-1))
        times = np.diff(first, append=self.size)
        columns = draws[first]
        share = ladder[columns] - np.where(columns > 0, ladder[columns - 1], 0.0)
        return columns, (times / (self.size * share)).astype(np.float32)


def draw_batch(nodes: Ints, size: int, rng: np.random.Generator) -> Ints:
    """A sorted mini-batch (Algorithm 2, line 1), in time proportional to its size.

    It is drawn from the distinct labeled nodes without replacement, all where there are fewer.
    """
    picks = rng.choice(len(nodes), min(size, len(nodes)), replace=False, shuffle=False)
    return np.sort(nodes[picks])


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a matrix, as if one stood behind the other."""

    targets: Ints  # the rows, sorted and distinct, [r]
    begins: Ints  # where each begins in the matrix, [r]
    lengths: Ints  # entries of each, [r]
    bounds: Ints  # where each begins behind the one before, and where the last ends, [r + 1]

    @classmethod
    def of(cls, matrix: Neighborhood, targets: Ints) -> _Rows:
        if (targets[1:] <= targets[:-1]).any():
            targets = np.sort(targets)
            targets = targets[np.append(True, targets[1:] != targets[:-1])]
        if len(targets) and (targets[0] < 0 or targets[-1] >= matrix.own):
            wrong = targets[0] if targets[0] < 0 else targets[-1]
            raise GraphError(f"node {wrong} is none of the client's {matrix.own} nodes")
        begins = matrix.indptr[targets]
        lengths = matrix.indptr[targets + 1] - begins
        return cls(targets, begins, lengths, starts(lengths))

    def entries(self) -> Ints:
        """Places of all entries in the matrix, row by row."""
        return runs(self.begins, self.bounds)

    def counts(self, places: Ints) -> Ints:
        """How many of these places, sorted, lie in each row."""
        return np.diff(np.searchsorted(places, self.bounds))


def runs(begins: Ints, bounds: Ints) -> Ints:
    """Consecutive numbers from each beginning, as many as there are between the bounds."""
    return np.arange(bounds[-1]) + np.repeat(begins - bounds[:-1], np.diff(bounds))


def subsets(sizes: Ints, k: int, rng: np.random.Generator) -> Ints:
    """Draw k different numbers below each size, all subsets alike, ``[k, len(sizes)]``.

    Floyd's algorithm on all sizes at once (Bentley and Floyd, "A sample of brilliance", 1987):
    draw one of the first n - k + i + 1 numbers; if it is taken, the last of them is not.
    """
    picks = np.empty((k, len(sizes)), np.int64)
    for step, chance in enumerate(rng.random((k, len(sizes)))):
        last = sizes - k + step
        pick = (chance * (last + 1)).astype(np.int64)
        taken = (picks[:step] == pick).any(axis=0)
        picks[step] = np.where(taken, last, pick)
    return picks


def _matches(columns: Columns, wanted: Ints) -> tuple[Ints, Ints]:
    """Where wanted columns, sorted and distinct, occur, and which of them occurs there.

    A table of the columns' last bits rules out most of the others before any search.
    """
    mask = (1 << (8 * len(wanted)).bit_length()) - 1
    table = np.zeros(mask + 1, np.bool_)
    table[wanted & mask] = True
    candidates = np.flatnonzero(table[columns & mask])
    sought = columns[candidates]
    place = np.searchsorted(wanted, sought)
    hit = wanted[np.minimum(place, len(wanted) - 1)] == sought
    return candidates[hit], place[hit]
