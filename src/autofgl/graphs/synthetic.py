"""Synthetic graphs of any size: a degree-corrected block model with bag-of-words features.

Notation: n nodes, k classes, θ_v the expected degree of node v up to a factor.

Each node belongs to one of k equally large classes. An edge starts at a node drawn with
probability ∝ θ and ends, with probability ``homophily``, at a node of the same class, otherwise
at one of another class, again ∝ θ (Karrer and Newman, "Stochastic blockmodels and community
structure in networks", 2011). θ follows a power law. A node's words come from the topic of its
class with probability ``topic_strength``, else from the whole vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from autofgl.errors import UserError, unknown_name
from autofgl.graphs.client_graph import ClientGraph, Ints
from autofgl.graphs.raw_files import distinct, symmetric_edges

#: Drawing stops when this share of the edges is still missing, or after so many rounds.
MISSING_EDGES, ROUNDS = 1e-3, 12
#: Words of a vocabulary sorted by frequency have frequency ∝ rank^-0.5.
WORD_POWER = 0.5


class SyntheticSettings(BaseModel):
    """The knobs of a synthetic graph. A bad value is a :class:`UserError` naming its knob."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    nodes: int = Field(default=2000, ge=2, le=2**31, description="synthetic: number of nodes")
    classes: int = Field(default=5, ge=2, description="synthetic: number of equally large classes")
    features: int = Field(default=500, ge=2, description="synthetic: size of the vocabulary")
    degree: float = Field(default=10.0, ge=0, description="synthetic: average number of neighbours")
    homophily: float = Field(
        default=0.8, ge=0, le=1, description="synthetic: share of edges within a class"
    )
    degree_power: float = Field(
        default=2.5,
        gt=2,
        description="synthetic: exponent of the degrees' power law; larger is more even",
    )
    words_per_node: float = Field(
        default=20.0, gt=0, description="synthetic: average number of words drawn for a node"
    )
    topic_strength: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="synthetic: share of words from the topic of the node's class",
    )
    label_noise: float = Field(
        default=0.0, ge=0, le=1, description="synthetic: share of labels that are wrong"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one_sentence(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            first = error.errors()[0]
            key = str(first["loc"][0]) if first["loc"] else "settings"
            if first["type"] == "extra_forbidden":
                raise unknown_name("setting", key, cls.model_fields) from None
            reason = first["msg"].removeprefix("Input ")
            raise UserError(f"setting {key}={first['input']!r}: it {reason}") from None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.classes > min(self.nodes, self.features):
            raise UserError(
                f"setting classes={self.classes}: it should not exceed nodes={self.nodes} or "
                f"features={self.features}"
            )
        if self.degree > self.nodes - 1:
            raise UserError(f"setting degree={self.degree}: it should be below nodes={self.nodes}")
        return self


def generate(
    settings: SyntheticSettings, rng: np.random.Generator, name: str = "synthetic"
) -> ClientGraph:
    """Draw a graph, without a split.

    Where a class has too few pairs of nodes for the edges asked for, there are fewer edges.
    Wrong labels are drawn last, so that graphs of one seed differ in nothing but their labels.
    """
    n = settings.nodes
    y = rng.permutation(np.arange(n, dtype=np.int64) % settings.classes)
    edges = _edges(settings, y, rng)
    x = _words(settings, y, rng)
    wrong = rng.choice(n, round(settings.label_noise * n), replace=False, shuffle=False)
    y[wrong] = (y[wrong] + rng.integers(1, settings.classes, len(wrong))) % settings.classes
    none = np.zeros(n, np.bool_)
    masks = (none, none.copy(), none.copy())
    return ClientGraph(name, x, edges, y, *masks, settings.classes, np.arange(n))


@dataclass(frozen=True)
class _Ends:
    """Draws the ends of edges. Nodes lie side by side by class, each as wide as its θ.

    Attributes:
        nodes: Node ids in that order, ``[n]``.
        right: Right border of each node in that order, ``[n]``.
        borders: Left border of each class, and the right border of the last, ``[k + 1]``.
        y: Class of each node, ``[n]``.
        rng: Source of chance.
    """

    nodes: Ints
    right: npt.NDArray[np.float64]
    borders: npt.NDArray[np.float64]
    y: Ints
    rng: np.random.Generator

    def at(self, points: npt.NDArray[np.float64]) -> Ints:
        """The nodes that lie at these points."""
        found = np.searchsorted(self.right, points, side="right")
        return np.asarray(self.nodes[np.minimum(found, len(self.nodes) - 1)])

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


def _edges(settings: SyntheticSettings, y: Ints, rng: np.random.Generator) -> Ints:
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
    keys = np.concatenate(
        [
            _distinct(inside, lambda count: ends.pairs(count, same=True)),
            _distinct(total - inside, lambda count: ends.pairs(count, same=False)),
        ]
    )
    return symmetric_edges(*np.divmod(keys, n), n)


def _distinct(count: int, draw: Callable[[int], Ints]) -> Ints:
    """Draw until there are ``count`` different keys, or nearly so."""
    keys = np.zeros(0, np.int64)
    for _ in range(ROUNDS):
        missing = count - len(keys)
        if missing <= count * MISSING_EDGES:
            break
        keys = distinct(np.concatenate([keys, draw(missing)]))
    return keys


def _words(settings: SyntheticSettings, y: Ints, rng: np.random.Generator) -> sp.csr_array:
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


def _ranks(size: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Ranks of words in a vocabulary, by frequency."""
    share = np.cumsum(np.arange(1, size + 1) ** -WORD_POWER)
    ladder = (share / share[-1]).astype(np.float32)
    return np.searchsorted(ladder, rng.random(count, np.float32), side="right").astype(np.int32)
