"""Seeded splits of a graph's labeled nodes into train, validation and test masks.

A node without a label (``y == -1``) never enters a mask, whatever the kind of split.
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from autofgl.errors import GraphError, UserError, unknown_name
from autofgl.graphs.catalog import SPLITS, DataSettings
from autofgl.graphs.client_graph import MASKS, Bools, ClientGraph, Ints


def split_nodes(
    graph: ClientGraph, kind: str, rng: Generator, settings: DataSettings
) -> ClientGraph:
    """The graph with masks of the given kind, one of the functions below.

    ``supervised`` comes after a per-class split if the graph has neither validation nor test nodes.
    """
    counts = (settings.train_per_class, settings.val_nodes, settings.test_nodes)
    match kind:
        case "public":
            return public(graph)
        case "per-class":
            return per_class(graph, rng, *counts)
        case "fraction":
            shares = (settings.train_fraction, settings.val_fraction, settings.test_fraction)
            return by_fraction(graph, rng, *shares)
        case "supervised":
            if not (graph.val_mask.any() or graph.test_mask.any()):
                graph = per_class(graph, rng, *counts)
            return supervised(graph)
    raise unknown_name("split", kind, SPLITS)


def public(graph: ClientGraph) -> ClientGraph:
    """The masks as they came with the data, without the unlabeled nodes."""
    masks = [getattr(graph, key) & (graph.y >= 0) for key in MASKS]
    if not any(mask.any() for mask in masks):
        choices = ", ".join(SPLITS[1:])
        raise GraphError(f"{graph.name}: has no split of its own; choose from {choices}")
    return graph.with_masks(*masks)


def per_class(
    graph: ClientGraph, rng: Generator, train: int = 20, val: int = 500, test: int = 1000
) -> ClientGraph:
    """``train`` nodes of each class, then ``val`` and ``test`` nodes of the rest.

    Small graphs get smaller masks rather than an error. A class hands at most half of its nodes
    (rounded up) to training; if fewer than ``val + test`` nodes are left, both shrink in the
    same proportion, and each keeps a node as long as there are two.
    """
    if train < 1 or val < 0 or test < 0:
        raise UserError(
            "a per-class split needs at least 1 training node per class and no negative sizes, "
            f"not {train} / {val} / {test}"
        )
    nodes = rng.permutation(_labeled(graph))
    taken = _first_of_each_class(graph.y[nodes], train)
    rest = nodes[~taken]
    val, test = _shrunk(val, test, len(rest))
    return _with_nodes(graph, nodes[taken], rest[:val], rest[val : val + test])


def by_fraction(
    graph: ClientGraph,
    rng: Generator,
    train: float | None = None,
    val: float = 0.2,
    test: float = 0.2,
) -> ClientGraph:
    """Shares of the labeled nodes, each within one node of its exact size.

    Without ``train``, all that ``val`` and ``test`` leave is trained on, at least one node.
    """
    shares = (1.0 - val - test if train is None else train, val, test)
    if shares[0] <= 0 or min(val, test) < 0 or sum(shares) > 1 + 1e-9:
        raise UserError(
            "the fractions of a split must not be negative, must leave something to train and "
            f"must not exceed 1 together, not {train} / {val} / {test}"
        )
    nodes = rng.permutation(_labeled(graph))
    cuts = np.rint(np.cumsum(shares) * len(nodes)).astype(np.int64)
    first, second, third = np.maximum(cuts, 1)
    return _with_nodes(graph, nodes[:first], nodes[first:second], nodes[second:third])


def supervised(graph: ClientGraph) -> ClientGraph:
    """FastGCN's split: validation and test stay, every other labeled node trains."""
    labeled = graph.y >= 0
    val, test = graph.val_mask & labeled, graph.test_mask & labeled
    return graph.with_masks(labeled & ~val & ~test, val, test)


def _labeled(graph: ClientGraph) -> Ints:
    nodes = np.flatnonzero(graph.y >= 0)
    if not len(nodes):
        raise GraphError(f"{graph.name}: no node has a label, so there is nothing to split")
    return nodes


def _first_of_each_class(y: Ints, count: int) -> Bools:
    """The first ``count`` entries of each class, or half of the class (rounded up) if smaller."""
    sizes = np.bincount(y)
    order = np.argsort(y, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(y), np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(starts, sizes)
    return np.asarray(rank < np.minimum(count, (sizes + 1) // 2)[y])


def _shrunk(val: int, test: int, available: int) -> tuple[int, int]:
    """Both sizes, scaled down alike if fewer nodes are available."""
    wanted = val + test
    if wanted <= available:
        return val, test
    share = round(available * val / wanted)
    if val and test and available > 1:
        share = min(max(share, 1), available - 1)
    return share, available - share


def _with_nodes(graph: ClientGraph, *groups: Sequence[int] | Ints) -> ClientGraph:
    masks = [np.zeros(graph.num_nodes, np.bool_) for _ in groups]
    for mask, nodes in zip(masks, groups, strict=True):
        mask[nodes] = True
    return graph.with_masks(*masks)
