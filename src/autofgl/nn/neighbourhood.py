"""The normalised adjacency matrix of one client, whose rows the samplers draw from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import Boundary, ClientGraph, Ints

Floats: TypeAlias = npt.NDArray[np.float32]
#: Column numbers: int32 where they fit, which halves the memory of a large graph.
Columns: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]


def index_type(largest: int) -> type[np.int32 | np.int64]:
    """The narrowest type of indices up to the largest."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    r"""The rows of :math:`\mathbf{Q} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
    \tilde{\mathbf{D}}^{-1/2}` that belong to one client, in CSR order.

    Degrees are those of the uncut graph, internal and external neighbours together, so that the
    rows of all clients are the rows of the pooled graph's matrix. Columns ``0..n-1`` are the own
    nodes, columns ``n..n+m-1`` the external ones. Columns are sorted and distinct in each row; the
    self loop is one of them, so that no row is empty.

    An edge that is listed k times is one entry of k times the value and counts k times in both
    degrees, and self loops of the input count as the one that is added: the matrix is the one that
    :attr:`autofgl.nn.structure.Structure.gcn` multiplies by.

    Attributes:
        indptr: Start of each row, ``[n + 1]``.
        indices: Column of each entry, ``[nnz]``.
        values: Value of each entry, ``[nnz]``.
        owner: Owner of each external node, as an index into ``owners``, ``[m]``.
        remote: Each external node as an index into its owner's nodes, ``[m]``.
        owners: Names of the clients that ``owner`` refers to.
    """

    indptr: Ints
    indices: Columns
    values: Floats
    owner: Ints
    remote: Ints
    owners: tuple[str, ...] = ()

    @classmethod
    def from_client(cls, graph: ClientGraph) -> Neighbourhood:
        """The matrix of a client graph, in time linear in its nodes and edges."""
        n, boundary = graph.num_nodes, graph.boundary
        first, place = _external_nodes(boundary)
        degree = np.concatenate([graph.degree, boundary.degree[first]])
        matrix = _multiplicity(graph, n + place, n + len(first))
        # Computed as Structure does, to the last bit.
        scale = torch.from_numpy(degree + 1).to(torch.float32).pow(-0.5).numpy()
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

    def internal(self) -> Neighbourhood:
        """The same rows without the external columns.

        What is left of a row is scaled by the number of its entries over the number left, as
        FedGraph's Eq. 7 scales what is left of a sample: a node most of whose neighbours are
        elsewhere would else start with next to nothing.

        This takes time linear in the entries: ask once and keep it.
        """
        if self.external == 0:
            return self
        inside = self.indices < self.own
        kept = np.add.reduceat(inside, self.indptr[:-1], dtype=np.int64)
        scale = (np.diff(self.indptr) / kept).astype(np.float32)
        none = np.zeros(0, np.int64)
        return Neighbourhood(
            indptr=np.append(0, np.cumsum(kept)),
            indices=self.indices[inside],
            values=self.values[inside] * np.repeat(scale, kept),
            owner=none,
            remote=none,
            owners=self.owners,
        )

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


def _external_nodes(boundary: Boundary) -> tuple[Ints, Ints]:
    """The distinct nodes at the other ends of a boundary, by owner and index there.

    Returns:
        A row of the boundary that names each node, ``[m]``, and the node of each row, ``[b]``.
    """
    stride = boundary.remote.max(initial=0) + 1
    keys = boundary.owner * stride + boundary.remote
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first, place


def _multiplicity(graph: ClientGraph, external: Ints, columns: int) -> sp.csr_array:
    """How often each entry of A + I is listed, with one self loop per node.

    Args:
        graph: The client's graph.
        external: Column of each row of its boundary, ``[b]``.
        columns: Number of columns.
    """
    n = graph.num_nodes
    source, target = graph.edge_index
    if (loops := source == target).any():
        source, target = source[~loops], target[~loops]
    dtype = index_type(columns)
    nodes = np.arange(n)
    row = np.concatenate([target, nodes, graph.boundary.local], dtype=dtype, casting="same_kind")
    col = np.concatenate([source, nodes, external], dtype=dtype, casting="same_kind")
    # SciPy sorts by counting, which is linear, and adds up what is listed repeatedly.
    return sp.csr_array((np.ones(len(row), np.float32), (row, col)), shape=(n, columns))
