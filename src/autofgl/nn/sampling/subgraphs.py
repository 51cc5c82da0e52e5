r"""Mini-batches for any network: the part of a graph that some nodes' outputs are computed from.

GraphSAGE's sampling (Hamilton et al., 2017), as PyG's ``NeighborLoader`` has it: hop by hop, every
node that is reached for the first time draws at most k of its incoming edges. The result is a small
graph with its own numbering, the asked nodes first, on which a network is called as on the whole
one; after as many hops as the network has, the asked nodes' outputs depend on nothing else.

Where a node keeps k of its d edges, each counts d / k times in sums, and normalized operators keep
the degrees of the whole graph. So on average over the draws every operator that convolutions
multiply by has the whole graph's rows, and with all neighbors kept the outputs are the same. Means
and attention are over the edges that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from autofgl.nn.kernels.operation import constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern
from autofgl.nn.sampling.neighborhood import starts
from autofgl.nn.sampling.rules import runs, subsets
from autofgl.nn.structure import Structure

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import Ints
    from autofgl.nn.sampling.neighborhood import Columns

#: A fan-out that stands for all neighbors.
ALL = 0
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Some nodes ``[m]`` of a graph, the asked ones first and then by their distance from these,
    and the edges between them; ``sizes`` is how many there are within 0, 1, 2 … hops.
    """

    nodes: Tensor
    structure: Structure
    sizes: tuple[int, ...]


class SubgraphSampler:
    """Draws subgraphs of one graph; a fan-out for each hop, from the asked nodes outwards.

    A draw takes time and memory in proportion to what is drawn, however large the graph is. It is
    made on the CPU; what was drawn can be moved. One caller at a time: a table of the graph's nodes
    is kept between draws.
    """

    def __init__(self, structure: Structure, fanouts: Sequence[int]) -> None:
        if structure.device.type != "cpu":
            raise ValueError("neighbors are drawn on the CPU; move what was drawn")
        pattern = structure.sum.pattern
        self._whole = _Whole(structure)
        self._fanouts = tuple(fanouts)
        self._indptr = pattern.crow.numpy().astype(np.int64)
        self._sources = pattern.col.numpy()
        self._place = np.full(structure.num_nodes, -1, np.int32)

    def draw(self, asked: Ints, rng: np.random.Generator | None = None) -> Subgraph:
        """The subgraph of different nodes; without a generator there must be nothing to draw."""
        nodes, counts, entries = [asked], [_NONE], [_NONE]
        self._number(asked, 0)
        known = len(asked)
        for fanout in self._fanouts:
            count, chosen = self._neighbors(nodes[-1], fanout, rng)
            counts.append(count)
            entries.append(chosen)
            reached = self._fresh(self._sources[chosen])
            self._number(reached, known)
            known += len(reached)
            nodes.append(reached)
        node, entry = np.concatenate(nodes), np.concatenate(entries)
        columns = self._place[self._sources[entry]]
        self._place[node] = -1
        kept = np.zeros(len(node), np.int64)
        kept[: known - len(nodes[-1])] = np.concatenate(counts)
        structure = SampledStructure(self._whole, node, starts(kept), columns, entry)
        sizes = np.cumsum([len(part) for part in nodes])
        return Subgraph(structure.nodes, structure, tuple(sizes.tolist()))

    def _number(self, nodes: Ints, first: int) -> None:
        self._place[nodes] = np.arange(first, first + len(nodes), dtype=np.int32)

    def _neighbors(
        self, nodes: Ints, fanout: int, rng: np.random.Generator | None
    ) -> tuple[Ints, Ints]:
        """How many incoming edges each node keeps, and their places, node by node."""
        begins = self._indptr[nodes]
        lengths = self._indptr[nodes + 1] - begins
        long = np.flatnonzero(lengths > fanout) if fanout != ALL else _NONE
        if not len(long):
            return lengths, runs(begins, starts(lengths))
        if rng is None:
            raise ValueError("a generator is needed to draw neighbors")
        counts = np.minimum(lengths, fanout)
        bounds = starts(counts)
        entries = runs(begins, bounds)  # right for those that keep all; the others follow
        place = bounds[long] + np.arange(fanout)[:, None]
        entries[place] = begins[long] + subsets(lengths[long], fanout, rng)
        return counts, entries

    def _fresh(self, sources: Columns) -> Ints:
        """Those that are met for the first time, each once."""
        sources = sources[self._place[sources] < 0]
        mention = np.arange(len(sources), dtype=np.int32)
        self._place[sources] = mention  # the last one stays
        fresh: Ints = sources[self._place[sources] == mention].astype(np.int64)
        return fresh


class _Whole:
    """A graph, and where its edges stand among those of the same graph with self loops."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    @cached_property
    def degree(self) -> Tensor:
        """Incoming edges of each node, ``[n]``."""
        with constants():
            return self.structure.sum.pattern.crow.diff()

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """Places in the operator with self loops: of each edge ``[E]``, -1 for a self loop of the
        graph's own, and of each node's loop ``[n]``.
        """
        with constants():
            edges, looped = self.structure.sum.pattern, self.structure.gcn.pattern
            place = torch.full_like(edges.col, -1)
            place[edges.row != edges.col] = _where(looped.row != looped.col, place.dtype)
            return place, _where(looped.row == looped.col, place.dtype)


class SampledStructure(Structure):
    """Some nodes of a graph with some of their incoming edges.

    ``nodes`` are those of the whole ``[m]``. The edges of the i-th stand from ``bounds[i]`` on:
    their sources among the nodes, and their places among the whole's edges. The last nodes have
    none, and are there as sources.
    """

    def __init__(
        self, whole: _Whole, nodes: Ints, bounds: Ints, sources: Columns, places: Ints
    ) -> None:
        self.num_nodes = len(nodes)
        self.dtype = whole.structure.dtype
        self._whole = whole
        with constants():
            parts = (nodes, bounds, sources, places)
            tensors = [torch.from_numpy(part) for part in parts]
        self.nodes, self._bounds, self._sources, self._places = tensors

    @property
    def device(self) -> torch.device:
        """Where the operators are."""
        return self.nodes.device

    @cached_property
    def edge_index(self) -> Tensor:
        """Sources and targets ``[2, E]``, by target."""
        with constants():
            return torch.stack([self._edges.col, self._edges.row]).long()

    @cached_property
    def edge_weight(self) -> Tensor | None:
        """Weights ``[E]`` as in the whole graph, in the order of :attr:`edge_index`."""
        whole = self._whole.structure
        if whole.edge_weight is None:
            return None
        with constants():
            return whole.weighted_sum.values.index_select(0, self._places)

    @cached_property
    def sum(self) -> SparseOperator:
        """Sums over the kept neighbors, scaled up to all."""
        return self._scaled(self._whole.structure.sum)

    @cached_property
    def weighted_sum(self) -> SparseOperator:
        """The same with the weights of edges."""
        return self._scaled(self._whole.structure.weighted_sum)

    @cached_property
    def mean(self) -> SparseOperator:
        """Means over the kept neighbors."""
        return self._scaled(self._whole.structure.mean)

    @cached_property
    def symmetric(self) -> SparseOperator:
        """The whole's normalization, scaled up."""
        return self._scaled(self._whole.structure.symmetric)

    @cached_property
    def unweighted_symmetric(self) -> SparseOperator:
        """The same with every edge counted as one."""
        return self._scaled(self._whole.structure.unweighted_symmetric)

    @cached_property
    def gcn(self) -> SparseOperator:
        """The whole's normalization, scaled up; a self loop counts once."""
        with constants():
            place, loop = self._whole.places
            places = place.index_select(0, self._places)
            inner = places >= 0
            whole = self._whole.structure.gcn.values
            at_loops, at_edges = self._looped_places
            values = whole.new_empty(self._looped.nnz)
            values[at_loops] = whole.index_select(0, loop.index_select(0, self.nodes))
            values[at_edges] = whole.index_select(0, places[inner]) * self._factor[inner]
            return SparseOperator(self._looped, values)

    @cached_property
    def end_degrees(self) -> Tensor:
        """Degrees in the whole graph."""
        with constants():
            return self._whole.structure.end_degrees.index_select(0, self._places)

    @cached_property
    def _edges(self) -> SparsePattern:
        return SparsePattern.from_csr(self._bounds, self._sources, (self.num_nodes,) * 2)

    @cached_property
    def _looped_places(self) -> tuple[Tensor, Tensor]:
        """Where self loops and edges stand once every node's loop comes before its edges."""
        with constants():
            edges = self._edges
            proper = (edges.row != edges.col).long()
            before = torch.cat([proper.new_zeros(1), proper.cumsum(0)])
            number = torch.arange(self.num_nodes, device=proper.device)
            loops = before.index_select(0, self._bounds[:-1]) + number
            inner = proper.bool()
            return loops, (before[:-1] + edges.row + 1)[inner]

    @cached_property
    def _looped(self) -> SparsePattern:
        with constants():
            loops, inner = self._looped_places
            proper = self._edges.row != self._edges.col
            col = self._edges.col.new_empty(len(loops) + len(inner))
            col[loops] = torch.arange(self.num_nodes, dtype=col.dtype, device=col.device)
            col[inner] = self._edges.col[proper]
            crow = torch.cat([loops, loops.new_tensor([len(col)])])
            return SparsePattern.from_csr(crow, col, (self.num_nodes,) * 2)

    @cached_property
    def _factor(self) -> Tensor:
        """How many of its target's edges each edge stands for, ``[E]``."""
        with constants():
            kept = self._bounds.diff()
            ratio = self._whole.degree.index_select(0, self.nodes) / kept.clamp(min=1)
            return ratio.to(self.dtype).index_select(0, self._edges.row)

    def _scaled(self, whole: SparseOperator) -> SparseOperator:
        with constants():
            values = whole.values.index_select(0, self._places) * self._factor
            return SparseOperator(self._edges, values)


def _where(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.nonzero(mask).squeeze(1).to(dtype)
