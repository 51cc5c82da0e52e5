"""The normalized adjacency matrix of one client, and the sampled parts of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from autofgl.errors import GraphError
from autofgl.nn.kernels.operation import constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import Boundary, ClientGraph, Ints

Floats: TypeAlias = npt.NDArray[np.float32]
#: Column numbers: int32 where they fit, which halves the memory of a large graph.
Columns: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]

#: Why a convolution across clients does not take graphs with weights.
NO_WEIGHTS_ACROSS = (
    "edges have weights, and a convolution across clients has no weighted degrees of remote nodes: "
    "leave 'edge_weight' out, or choose another method"
)


def index_type(largest: int) -> type[np.int32 | np.int64]:
    """The narrowest type of indices up to the largest."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


@dataclass(frozen=True, eq=False)
class Neighborhood:
    r"""The rows of :math:`\mathbf{Q} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
    \tilde{\mathbf{D}}^{-1/2}` that belong to one client, in CSR order.

    Degrees are those of the uncut graph, internal and external neighbors together, so that the
    rows of all clients are the rows of the pooled graph's matrix. Columns ``0..n-1`` are the own
    nodes, columns ``n..n+m-1`` the external ones. Columns are sorted and distinct in each row; the
    self loop is one of them, so that no row is empty.

    An edge that is listed k times is one entry of k times the value and counts k times in both
    degrees, and self loops of the input count as the one that is added: the matrix is the one that
    :attr:`autofgl.nn.structure.Structure.gcn` multiplies by. So it is with weights, where nothing
    crosses: of a remote node, a boundary has the number of neighbors only.
    """

    indptr: Ints  # start of each row, [n + 1]
    indices: Columns  # column of each entry, [nnz]
    values: Floats  # value of each entry, [nnz]
    owner: Ints  # owner of each external node, as an index into owners, [m]
    remote: Ints  # each external node as an index into its owner's nodes, [m]
    owners: tuple[str, ...] = ()

    @classmethod
    def from_client(cls, graph: ClientGraph) -> Neighborhood:
        """The matrix of a client graph, in time linear in its nodes and edges."""
        n, boundary = graph.num_nodes, graph.boundary
        first, place = external_nodes(boundary)
        matrix = _entries(graph, n + place, n + len(first))
        if graph.edge_weight is None:
            degree = np.concatenate([graph.degree, boundary.degree[first]]) + 1
        elif len(boundary):
            raise GraphError(f"{graph.name}: {NO_WEIGHTS_ACROSS}")
        else:
            degree = np.asarray(matrix.sum(axis=1))
        # Computed as Structure does, to the last bit where edges have no weights.
        scale = torch.from_numpy(degree).to(torch.float32).pow(-0.5).numpy()
        scale[np.isinf(scale)] = 0.0
        values = np.repeat(scale[:n], np.diff(matrix.indptr))
        values *= scale[matrix.indices]
        values *= matrix.data
        return cls(
            indptr=matrix.indptr.astype(np.int64),
            indices=matrix.indices,
            values=values,
            owner=boundary.owner[first],
            remote=boundary.remote[first],
            owners=boundary.owners,
        )

    @property
    def own(self) -> int:
        """Number of own nodes, n."""
        return len(self.indptr) - 1

    @property
    def external(self) -> int:
        """Number of external nodes, m."""
        return len(self.remote)

    def internal(self) -> Neighborhood:
        """The same rows without the external columns.

        What is left of a row is scaled by the number of its entries over the number left, as
        FedGraph's Eq. 7 scales what is left of a sample: a node most of whose neighbors are
        elsewhere would else start with next to nothing.

        This takes time linear in the entries: ask once and keep it.
        """
        if self.external == 0:
            return self
        inside = self.indices < self.own
        kept = np.add.reduceat(inside, self.indptr[:-1], dtype=np.int64)
        scale = (np.diff(self.indptr) / kept).astype(np.float32)
        values = self.values[inside] * np.repeat(scale, kept)
        none = np.zeros(0, np.int64)
        return Neighborhood(starts(kept), self.indices[inside], values, none, none, self.owners)

    @cached_property
    def loops(self) -> Ints:
        """Where each row's self loop stands, counted from the start of the row, ``[n]``."""
        nodes = np.arange(self.own, dtype=self.indices.dtype)
        places = np.flatnonzero(self.indices == np.repeat(nodes, np.diff(self.indptr)))
        return places - self.indptr[:-1]

    @cached_property
    def importance(self) -> npt.NDArray[np.float64]:
        """Running sum of the columns' squared norms, divided by their total, ``[n + m]``.

        The differences are FastGCN's distribution q(u) ∝ ‖Q(:, u)‖² over the columns.
        """
        weights = np.square(self.values, dtype=np.float64)
        norms = np.bincount(self.indices, weights, minlength=self.own + self.external)
        ladder: npt.NDArray[np.float64] = np.cumsum(norms, dtype=np.float64)
        ladder /= ladder[-1:]
        return ladder


@dataclass(frozen=True, eq=False)
class Block:
    """The sampled matrix of one convolution, Q̃ of FedGraph's Eq. 7, in CSR order.

    Rows are the nodes to compute, columns the nodes to compute them from. Every source has an
    entry.
    """

    targets: Ints  # own nodes, sorted and distinct, [r]
    sources: Ints  # columns of the neighborhood, own and external, sorted and distinct, [c]
    indptr: Ints  # start of each row, [r + 1]
    indices: Ints  # source of each entry, as an index into sources, [e]
    values: Floats  # value of each entry, [e]
    order: Ints  # the entries by source, and by row where sources are equal, [e]

    @classmethod
    def of_entries(
        cls,
        matrix: Neighborhood,
        targets: Ints,
        counts: Ints,
        entries: Ints,
        scale: Floats | None = None,
    ) -> Block:
        """Some entries of a neighborhood, by their places there, row by row ``[e]``.

        Each of the targets ``[r]``, sorted and distinct, has one of the counts ``[r]``; the values
        are multiplied by the scale ``[e]``.
        """
        values = matrix.values[entries]
        if scale is not None:
            values *= scale
        sources, indices, order = _numbered(matrix.indices[entries])
        return cls(targets, sources, starts(counts), indices, values, order)

    @property
    def edges(self) -> int:
        """Number of entries, self loops among them."""
        return len(self.indices)

    @property
    def shape(self) -> tuple[int, int]:
        """``(r, c)``."""
        return (len(self.targets), len(self.sources))

    @cached_property
    def matrix(self) -> SparseOperator:
        """The matrix as an operator, ``[r, c]``: ``matrix @ dense`` has a gradient."""
        # SparsePattern.from_csr would sort again, which costs as much as the whole sample.
        row = np.repeat(np.arange(len(self.targets)), np.diff(self.indptr))
        inverse = np.empty(self.edges, np.int64)
        inverse[self.order] = np.arange(self.edges)
        dtype = index_type(max(*self.shape, self.edges))
        columns = starts(np.bincount(self.indices, minlength=len(self.sources)))
        with constants():
            parts = (self.indptr, self.indices, columns, row[self.order], self.order, inverse)
            pattern = SparsePattern(self.shape, *(torch.from_numpy(p.astype(dtype)) for p in parts))
            return SparseOperator(pattern, torch.from_numpy(self.values))


def starts(counts: Ints) -> Ints:
    """Where each of several groups of these sizes starts, and where the last ends."""
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


def external_nodes(boundary: Boundary) -> tuple[Ints, Ints]:
    """The distinct nodes at the other ends of a boundary, by owner and index there.

    A row of the boundary that names each node, ``[m]``, and the node of each row, ``[b]``.
    """
    stride = boundary.remote.max(initial=0) + 1
    keys = boundary.owner * stride + boundary.remote
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first, place


def _entries(graph: ClientGraph, external: Ints, columns: int) -> sp.csr_array:
    """How often each entry of A + I is listed, or what it weighs, with one self loop per node.

    ``external`` is the column of each row of the boundary, ``[b]``.
    """
    n = graph.num_nodes
    source, target = graph.edge_index
    weight, own = graph.edge_weight, np.ones(n, np.float32)
    if (loops := source == target).any():
        if weight is not None:
            own[source[loops]] = weight[loops]
            weight = weight[~loops]
        source, target = source[~loops], target[~loops]
    dtype = index_type(columns)
    nodes = np.arange(n)
    row = np.concatenate([target, nodes, graph.boundary.local], dtype=dtype, casting="same_kind")
    col = np.concatenate([source, nodes, external], dtype=dtype, casting="same_kind")
    values = np.ones(len(row), np.float32)
    if weight is not None:
        values[: len(weight) + n] = np.concatenate([weight, own])
    # SciPy sorts by counting, which is linear, and adds up what is listed repeatedly.
    return sp.csr_array((values, (row, col)), shape=(n, columns))


def _numbered(columns: Columns) -> tuple[Ints, Ints, Ints]:
    """The distinct columns, the index of each column among them, and a stable order by column.

    Column and place are sorted as one integer, about twice as fast as ``np.unique``.
    """
    bits = len(columns).bit_length()
    keys = columns.astype(np.int64)
    keys <<= bits
    keys |= np.arange(len(columns))
    keys.sort()
    order = keys & ((1 << bits) - 1)
    keys >>= bits
    first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    number = np.empty(len(columns), np.int64)
    number[order] = np.cumsum(first) - 1
    return keys[first], number, order
