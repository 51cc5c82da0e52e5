"""Edges as they come: counted, and made undirected unless their direction is to be kept.

A *key* is one integer for an edge from u to v among n nodes, u · n + v: sorting these is several
times faster than sorting pairs.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autofgl.errors import GraphNotice
from autofgl.graphs.client_graph import Bools, Floats, Ints, sorted_unique

#: Names of clients that a notice lists.
_LISTED = 3
#: Weights of the two directions of an edge that differ by less, relatively, are the same.
_CLOSE = 1e-5


@dataclass(frozen=True)
class EdgeCounts:
    """What is to be told about the edges of one graph."""

    edges: int = 0  # entries of the edge index
    one_way: int = 0  # of them, those whose reverse is missing or weighs something else
    undirected: bool = False  # whether they were made undirected therefore
    loops: int = 0
    repeated: int = 0  # entries beyond the first of their edge

    @property
    def odd(self) -> bool:
        """Whether there is what a simple graph has not."""
        return self.loops > 0 or self.repeated > 0


def settle_edges(
    edges: Ints, weight: Floats | None, nodes: int, directed: bool
) -> tuple[Ints, Floats | None, EdgeCounts]:
    """The edges as a graph is to have them, with their weights, and what there was to settle.

    Edges that come in both directions stay as they are, in their order, self-loops and repeated
    ones included; so do those of a directed graph. Otherwise see :func:`undirected`. What is no
    edge index or no weights at all is left to validation.
    """
    if not _well_formed(edges, weight, nodes):
        return edges, weight, EdgeCounts()
    source, target = edges
    keys = np.sort(source * nodes + target)
    loops = int(np.count_nonzero(source == target))
    repeated = int(np.count_nonzero(keys[1:] == keys[:-1]))
    if directed:
        return edges, weight, EdgeCounts(edges.shape[1], 0, False, loops, repeated)
    one_way = int(np.count_nonzero(without_reverse(edges, weight, nodes)))
    counts = EdgeCounts(edges.shape[1], one_way, one_way > 0, loops, repeated)
    if one_way:
        edges, weight = undirected(edges, weight, nodes)
    return edges, weight, counts


def without_reverse(edges: Ints, weight: Floats | None, nodes: int) -> Bools:
    """Edges whose direction is listed more often than the other one, or weighs something else.

    The weights of an edge that is listed repeatedly add up.
    """
    forth, back = edges[0] * nodes + edges[1], edges[1] * nodes + edges[0]
    if weight is None and np.array_equal(np.sort(forth), np.sort(back)):
        return np.zeros(len(forth), np.bool_)
    keys, index = np.unique(forth, return_inverse=True)
    totals = _totals(index, weight, len(keys))
    ends = np.divmod(keys, nodes)
    reverse_key = ends[1] * nodes + ends[0]
    place = np.minimum(np.searchsorted(keys, reverse_key), len(keys) - 1)
    listed = keys[place] == reverse_key
    reverse = np.where(listed, totals[place], 0)
    if weight is None:
        return np.asarray((totals > reverse)[index])
    return np.asarray((~listed | ~np.isclose(totals, reverse, rtol=_CLOSE, atol=0))[index])


def undirected(edges: Ints, weight: Floats | None, nodes: int) -> tuple[Ints, Floats | None]:
    """Every edge once in each direction, and every self-loop once, sorted.

    Weights of repeated edges add up; of an edge's two directions the larger weight counts, so that
    an edge listed one way weighs the same as one that is listed both ways.
    """
    forth, back = edges[0] * nodes + edges[1], edges[1] * nodes + edges[0]
    if weight is None:
        return np.stack(np.divmod(sorted_unique(np.concatenate([forth, back])), nodes)), None
    keys, index = np.unique(forth, return_inverse=True)
    totals = _totals(index, weight, len(keys))
    source, target = np.divmod(keys, nodes)
    both = np.concatenate([keys, target * nodes + source])
    order = np.argsort(both, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(both[order]) > 0)[: len(both)])
    larger = np.maximum.reduceat(np.concatenate([totals, totals])[order], first)
    return np.stack(np.divmod(both[order][first], nodes)), larger.astype(np.float32)


def tell_about_edges(counts: Mapping[str, EdgeCounts]) -> None:
    """Warn once about all graphs whose edges did not come as they are used."""
    turned = {name: each for name, each in counts.items() if each.undirected}
    if turned:
        entries = f"{_total(turned, 'one_way')} of {_total(turned, 'edges')} edges"
        fate = "all are taken as undirected and listed once in each direction"
        way = "directed=true keeps their direction"
        _warn(f"{_listed(turned)}: {entries} have no equal reverse: {fate}; {way}")
    odd = {name: each for name, each in counts.items() if name not in turned and each.odd}
    if odd:
        entries = f"{_total(odd, 'loops')} self-loops and {_total(odd, 'repeated')} repeated edges"
        _warn(f"{_listed(odd)}: {entries} are kept, and count as often as they are listed")


def _well_formed(edges: Ints, weight: Floats | None, nodes: int) -> bool:
    if edges.ndim != 2 or len(edges) != 2 or not edges.size:
        return False
    fits = weight is None or (weight.shape == edges.shape[1:] and bool(np.isfinite(weight).all()))
    return fits and edges.min() >= 0 and edges.max() < nodes


def _totals(index: Ints, weight: Floats | None, keys: int) -> np.ndarray:
    """How often each key is listed, or what its entries weigh together."""
    return np.bincount(index, weight, minlength=keys)


def _total(counts: Mapping[str, EdgeCounts], key: str) -> int:
    return sum(getattr(each, key) for each in counts.values())


def _listed(names: Mapping[str, EdgeCounts]) -> str:
    shown = list(names)[:_LISTED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _warn(line: str) -> None:
    warnings.warn(line, GraphNotice, stacklevel=4)
