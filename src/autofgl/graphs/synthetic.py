"""Synthetic graphs of any size: a degree-corrected block model with bag-of-words features.

Notation: n nodes, k classes, θ_v the expected degree of node v up to a factor.

Each node belongs to one of k classes, which are equally large unless ``minority`` makes the last
one rare. An edge starts at a node drawn with probability ∝ θ and ends, with probability
``homophily``, at a node of the same class, otherwise at one of another class, again ∝ θ (Karrer and
Newman, "Stochastic blockmodels and community structure in networks", 2011). θ follows a power law.
A node's words come from the topic of its class with probability ``topic_strength``, else from the
whole vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numpy.random import Generator

from autofgl.graphs.catalog import SyntheticSettings
from autofgl.graphs.client_graph import ClientGraph, Ints, sorted_unique, symmetric_edges

#: Drawing stops when this share of the edges is still missing, or after so many rounds.
MISSING_EDGES, ROUNDS = 1e-3, 12
#: Words of a vocabulary sorted by frequency have frequency ∝ rank^-0.5.
WORD_POWER = 0.5


def generate(settings: SyntheticSettings, rng: Generator, name: str = "synthetic") -> ClientGraph:
    """Draw a graph, without a split.

    Where a class has too few pairs of nodes for the edges asked for, there are fewer edges.
    Wrong labels are drawn last, so that graphs of one seed differ in nothing but their labels.
    """
    n = settings.nodes
    y = rng.permutation(_labels(settings))
    edges = _edges(settings, y, rng)
    x = _words(settings, y, rng)
    wrong = rng.choice(n, round(settings.label_noise * n), replace=False, shuffle=False)
    y[wrong] = (y[wrong] + rng.integers(1, settings.classes, len(wrong))) % settings.classes
    return ClientGraph.unsplit(name, x, edges, y, settings.classes)


def _labels(settings: SyntheticSettings) -> Ints:
    """The class of every node, in no order that matters; each class has a node."""
    labels: Ints = np.arange(settings.nodes, dtype=np.int64)
    if not settings.minority:
        return labels % settings.classes
    others = settings.classes - 1
    rare = min(max(round(settings.minority * settings.nodes), 1), settings.nodes - others)
    return np.where(labels < rare, others, labels % others)


@dataclass(frozen=True)
class _Ends:
    """Draws the ends of edges. Nodes lie side by side by class, each as wide as its θ."""

    nodes: Ints  # ids in that order, [n]
    right: npt.NDArray[np.float64]  # right border of each of them, [n]
    borders: npt.NDArray[np.float64]  # left border of each class, right one of the last, [k + 1]
    y: Ints  # class of each node, [n]
    rng: Generator

    def at(self, points: npt.NDArray[np.float64]) -> Ints:
        """The nodes that lie at these points."""
        place = np.searchsorted(self.right, points, side="right")
        return np.asarray(self.nodes[np.minimum(place, len(self.nodes) - 1)])

    def pairs(self, count: int, *, same: bool) -> Ints:
        """Undirected edges within or between classes as ``low * n + high``, loops left out."""
        total = self.right[-1]
        start = self.at(self.rng.random(count) * total)
        left = self.borders[self.y[start]]
        width = self.borders[self.y[start] + 1] - left
        points = self.rng.random(count)
        if same:
            points = left + points * width
        else:
            points *= total - width
            points += width * (points >= left)  # jump over the own class
        end = self.at(points)
        low, high = np.minimum(start, end), np.maximum(start, end)
        return np.asarray((low * len(self.nodes) + high)[low != high])


def _edges(settings: SyntheticSettings, y: Ints, rng: Generator) -> Ints:
    n = settings.nodes
    theta = (1 - rng.random(n)) ** (-1 / (settings.degree_power - 1))
    # Cap the expected degrees at √(n · degree): two hubs then share about one edge.
    theta = np.minimum(theta, theta.mean() * np.sqrt(n / max(settings.degree, 1)))
    nodes = np.argsort(y, kind="stable")
    right = np.cumsum(theta[nodes])
    borders = np.append(0.0, right[np.cumsum(np.bincount(y)) - 1])
    ends = _Ends(nodes, right, borders, y, rng)
    total = round(n * settings.degree / 2)
    inside = round(total * settings.homophily)
    within = _distinct(inside, lambda count: ends.pairs(count, same=True))
    between = _distinct(total - inside, lambda count: ends.pairs(count, same=False))
    return symmetric_edges(*np.divmod(np.concatenate([within, between]), n), n)


def _distinct(count: int, draw: Callable[[int], Ints]) -> Ints:
    """Draw until there are ``count`` different keys, or nearly so."""
    keys = np.zeros(0, np.int64)
    for _ in range(ROUNDS):
        missing = count - len(keys)
        if missing <= count * MISSING_EDGES:
            break
        keys = sorted_unique(np.concatenate([keys, draw(missing)]))
    return keys


def _words(settings: SyntheticSettings, y: Ints, rng: Generator) -> sp.csr_array:
    """A binary bag of words for each node, ``[n, F]``; every node has at least one word."""
    lengths = np.maximum(rng.poisson(settings.words_per_node, len(y)), 1)
    ends = np.append(0, np.cumsum(lengths))
    size = settings.features // settings.classes
    vocabulary = rng.permutation(settings.features).astype(np.int32)
    words = vocabulary[_ranks(settings.features, int(ends[-1]), rng)]
    topical = rng.random(len(words), np.float32) < settings.topic_strength
    topic = np.repeat(y.astype(np.int32), lengths)[topical]
    words[topical] = topic * size + _ranks(size, len(topic), rng)
    ends = ends.astype(np.int32) if ends[-1] < 2**31 else ends
    x = sp.csr_array((np.ones(len(words), np.float32), words, ends), (len(y), settings.features))
    x.sum_duplicates()
    x.data[:] = 1
    return x


def _ranks(size: int, count: int, rng: Generator) -> npt.NDArray[np.int32]:
    """Ranks of words in a vocabulary, by frequency."""
    share = np.cumsum(np.arange(1, size + 1) ** -WORD_POWER)
    ladder = (share / share[-1]).astype(np.float32)
    return np.searchsorted(ladder, rng.random(count, np.float32), side="right").astype(np.int32)
