"""What one client owns: its nodes, its internal edges, and what it knows of its boundary."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    from torch_geometric.data import Data

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float32]
Features: TypeAlias = npt.NDArray[np.float32] | sp.csr_array

MASKS = ("train_mask", "val_mask", "test_mask")
#: The arrays of a :class:`Boundary`.
BOUNDARY = ("local", "owner", "remote", "degree")

#: Features with a smaller share of non-zero entries are kept as CSR.
SPARSE_BELOW = 0.2


@dataclass(frozen=True)
class Boundary:
    """Cross-client edges as one client sees them: row k is one edge to a node that it lacks.

    A client knows which of its nodes touches which remote node, who owns that node and how many
    neighbors it has; never its features or its label (METHODS, common setting).
    """

    local: Ints  # own end of the edge, as an index into the client's nodes, [b]
    owner: Ints  # index into owners of the client that holds the other end, [b]
    remote: Ints  # the other end, as an index into the owner's nodes, [b]
    degree: Ints  # degree of the other end in the uncut graph, [b]
    owners: tuple[str, ...] = ()  # names of the clients that owner refers to
    weight: Floats | None = None  # weight of the edge, [b]; none where edges have none

    @classmethod
    def empty(cls) -> Boundary:
        """The boundary of a client that nobody else touches."""
        none = np.zeros(0, np.int64)
        return cls(none, none, none, none)

    def __len__(self) -> int:
        return len(self.local)


@dataclass(frozen=True)
class ClientGraph:
    """The private graph of one client. A whole, uncut graph is one with an empty boundary.

    Attributes:
        x: Node features, dense ``[n, F]`` float32 or CSR of the same shape.
        edge_index: Internal edges, ``[2, E]``, indices into the own nodes: in both directions, or
            from source to target in a directed graph.
        y: Labels ``[n]``, -1 where unknown.
        train_mask, val_mask, test_mask: Disjoint boolean masks ``[n]``.
        classes: Number of classes of the whole federation.
        node_id: Global ids ``[n]``, unique within the client.
        boundary: Edges to nodes of other clients; in a directed graph those that lead here.
        edge_weight: Weights ``[E]`` of the internal edges; all one if None.
        directed: Whether edges have a direction.
    """

    name: str
    x: Features
    edge_index: Ints
    y: Ints
    train_mask: Bools
    val_mask: Bools
    test_mask: Bools
    classes: int
    node_id: Ints
    boundary: Boundary = field(default_factory=Boundary.empty)
    edge_weight: Floats | None = None
    directed: bool = False

    @property
    def num_nodes(self) -> int:
        """Number of own nodes."""
        return int(self.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of internal directed edges."""
        return int(self.edge_index.shape[1])

    @property
    def num_links(self) -> int:
        """Number of internal edges, where one in both directions counts once."""
        return self.num_edges if self.directed else self.num_edges // 2

    @property
    def num_features(self) -> int:
        """Width of the features."""
        return int(self.x.shape[1])

    @cached_property
    def degree(self) -> Ints:
        """Neighbors in the uncut graph, internal and across, without self loops, ``[n]``.

        Edges are counted, whatever they weigh; in a directed graph those that lead to the node.
        """
        source, target = self.edge_index
        internal = np.bincount(target[source != target], minlength=self.num_nodes)
        external = np.bincount(self.boundary.local, minlength=self.num_nodes)
        return (internal + external).astype(np.int64)

    @classmethod
    def unsplit(
        cls, name: str, x: Features, edge_index: Ints, y: Ints, classes: int
    ) -> ClientGraph:
        """A whole graph without a split, its nodes numbered from 0."""
        none = np.zeros(len(y), np.bool_)
        masks = (none, none.copy(), none.copy())
        return cls(name, x, edge_index, y, *masks, classes, np.arange(len(y)))

    @classmethod
    def outline(cls, name: str, features: int, classes: int) -> ClientGraph:
        """A graph without nodes that has the shape of another one, which is not here."""
        x, edges = np.zeros((0, features), np.float32), np.zeros((2, 0), np.int64)
        return cls.unsplit(name, x, edges, np.zeros(0, np.int64), classes)

    def with_masks(self, train: Bools, val: Bools, test: Bools) -> ClientGraph:
        """The same graph with another split."""
        return replace(self, train_mask=train, val_mask=val, test_mask=test)

    def fingerprint(self) -> str:
        """A digest of everything in the graph; equal for equal graphs."""
        x: Any = self.x
        features = [x.data, x.indices, x.indptr] if sp.issparse(x) else [x]
        own = [getattr(self, key) for key in ("edge_index", "y", "node_id", *MASKS)]
        edges = [getattr(self.boundary, key) for key in BOUNDARY]
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.name, self.classes, x.shape, self.boundary.owners)).encode())
        weights = {"edge_weight": self.edge_weight, "boundary_weight": self.boundary.weight}
        given = {key: value for key, value in weights.items() if value is not None}
        for array in [*features, *own, *edges, *given.values()]:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        if given or self.directed:  # others have the digest that they always had
            digest.update(repr((list(given), self.directed)).encode())
        return digest.hexdigest()

    def to_pyg(self) -> Data:
        """A PyG ``Data`` with dense features; the boundary travels as ``boundary_*`` tensors."""
        import torch
        from torch_geometric.data import Data

        arrays = {"x": to_dense(self.x)}
        arrays |= {key: getattr(self, key) for key in ("edge_index", "y", *MASKS, "node_id")}
        arrays |= {f"boundary_{key}": getattr(self.boundary, key) for key in BOUNDARY}
        weights = {"edge_weight": self.edge_weight, "boundary_weight": self.boundary.weight}
        arrays |= {key: value for key, value in weights.items() if value is not None}
        data = Data(**{key: torch.from_numpy(array.copy()) for key, array in arrays.items()})
        data.boundary_owners = list(self.boundary.owners)
        data.name, data.classes = self.name, self.classes
        if self.directed:
            data.directed = True
        return data


def compact(x: Features) -> Features:
    """Keep features as CSR where that is smaller and faster, dense otherwise."""
    if sp.issparse(x):
        return sp.csr_array(x, dtype=np.float32)
    dense = np.ascontiguousarray(x, np.float32)
    if dense.size and np.count_nonzero(dense) < SPARSE_BELOW * dense.size:
        return sp.csr_array(dense)
    return dense


def to_dense(x: Any) -> npt.NDArray[np.float32]:
    """Features as a dense array ``[n, F]``."""
    return np.asarray(x.toarray() if sp.issparse(x) else x, np.float32)


def symmetric_edges(row: Any, col: Any, num_nodes: int) -> Ints:
    """Every edge once in each direction, sorted, without self-loops: ``[2, E]``."""
    row, col = np.asarray(row), np.asarray(col)
    for ends in (row, col):
        if ends.size and not 0 <= ends.min() <= ends.max() < num_nodes:
            raise ValueError(f"an edge ends outside the {num_nodes} nodes")
    proper = row != col
    row, col = row[proper], col[proper]
    # One integer per undirected edge: sorting these is several times faster than sorting pairs.
    n = max(num_nodes, 1)
    keys = sorted_unique(np.minimum(row, col).astype(np.int64) * n + np.maximum(row, col))
    low, high = np.divmod(keys, n)
    keys = np.concatenate([keys, high * n + low])
    keys.sort()
    return np.stack(np.divmod(keys, n))


def sorted_unique(keys: Ints) -> Ints:
    """The different values in order; sorts ``keys`` in place.

    For millions of keys this is several times faster than ``np.unique``, which hashes them.
    """
    keys.sort()
    return np.asarray(keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]])


@dataclass(frozen=True)
class ClientSummary:
    """Sizes of one client graph, as in ``data.json``; labels by class.

    An undirected edge counts once.
    """

    name: str
    nodes: int
    edges: int
    cut_edges: int
    train: int
    val: int
    test: int
    labels: list[int]
    unlabelled: int


@dataclass(frozen=True)
class PartitionSummary:
    """What a partition looks like, and which share of all edges run between clients."""

    clients: list[ClientSummary]
    cut_share: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def summarize_clients(clients: Sequence[ClientGraph]) -> PartitionSummary:
    """Sizes, label counts and cut of a set of clients."""
    summaries = [_summary(client) for client in clients]
    sides = [1 if client.directed else 2 for client in clients]  # an edge is listed by so many
    crossing = sum(one.cut_edges / side for one, side in zip(summaries, sides, strict=True))
    total = crossing + sum(client.edges for client in summaries)
    return PartitionSummary(summaries, crossing / total if total else 0.0)


def _summary(client: ClientGraph) -> ClientSummary:
    source, target = client.edge_index
    loops = int(np.count_nonzero(source == target))
    labels = client.y[client.y >= 0]
    return ClientSummary(
        name=client.name,
        nodes=client.num_nodes,
        edges=client.num_edges if client.directed else (client.num_edges - loops) // 2 + loops,
        cut_edges=len(client.boundary),
        train=int(client.train_mask.sum()),
        val=int(client.val_mask.sum()),
        test=int(client.test_mask.sum()),
        labels=np.bincount(labels, minlength=client.classes).tolist(),
        unlabelled=client.num_nodes - len(labels),
    )
