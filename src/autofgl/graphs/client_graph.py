"""What one client owns: its nodes, its internal edges, and what it knows of its boundary."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autofgl.errors import GraphError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Features: TypeAlias = npt.NDArray[np.float32] | sp.csr_array

#: Features with a smaller share of non-zero entries are kept as CSR.
SPARSE_BELOW = 0.2


@dataclass(frozen=True)
class Boundary:
    """Cross-client edges as one client sees them: row k is one edge to a node that it lacks.

    A client knows which of its nodes touches which remote node, who owns that node and how many
    neighbours it has; never its features or its label (METHODS, common setting).

    Attributes:
        local: Own end of the edge, as an index into the client's nodes, ``[b]``.
        owner: Index into ``owners`` of the client that holds the other end, ``[b]``.
        remote: The other end, as an index into the owner's nodes, ``[b]``.
        degree: Degree of the other end in the uncut graph, ``[b]``.
        owners: Names of the clients that ``owner`` refers to.
    """

    local: Ints
    owner: Ints
    remote: Ints
    degree: Ints
    owners: tuple[str, ...] = ()

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
        name: Name of the client.
        x: Node features, dense ``[n, F]`` float32 or CSR of the same shape.
        edge_index: Internal edges in both directions, ``[2, E]``, indices into the own nodes.
        y: Labels ``[n]``, -1 where unknown.
        train_mask, val_mask, test_mask: Disjoint boolean masks ``[n]``.
        classes: Number of classes of the whole federation.
        node_id: Global ids ``[n]``, unique within the client.
        boundary: Cross-client edges.
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

    @property
    def num_nodes(self) -> int:
        """Number of own nodes."""
        return int(self.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of internal directed edges."""
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        """Width of the features."""
        return int(self.x.shape[1])

    @cached_property
    def degree(self) -> Ints:
        """Neighbours in the uncut graph, internal and across, without self loops, ``[n]``."""
        source, target = self.edge_index
        internal = np.bincount(target[source != target], minlength=self.num_nodes)
        external = np.bincount(self.boundary.local, minlength=self.num_nodes)
        return (internal + external).astype(np.int64)

    def with_masks(self, train: Bools, val: Bools, test: Bools) -> ClientGraph:
        """The same graph with another split."""
        return replace(self, train_mask=train, val_mask=val, test_mask=test)

    def fingerprint(self) -> str:
        """A digest of everything in the graph; equal for equal graphs."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.name, self.classes, self.x.shape, self.boundary.owners)).encode())
        for array in self._arrays():
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _arrays(self) -> list[npt.NDArray[Any]]:
        x: Any = self.x
        features = [x.data, x.indices, x.indptr] if sp.issparse(x) else [x]
        masks = [self.train_mask, self.val_mask, self.test_mask]
        edges = [self.boundary.local, self.boundary.owner, self.boundary.remote]
        own = [self.edge_index, self.y, self.node_id]
        return [*features, *own, *masks, *edges, self.boundary.degree]

    def to_pyg(self) -> Data:
        """A PyG ``Data`` with dense features; the boundary travels as ``boundary_*`` tensors."""
        import torch
        from torch_geometric.data import Data

        data = Data(
            x=torch.from_numpy(to_dense(self.x).copy()),
            edge_index=torch.from_numpy(self.edge_index.copy()),
            y=torch.from_numpy(self.y.copy()),
        )
        for key in ("train_mask", "val_mask", "test_mask", "node_id"):
            data[key] = torch.from_numpy(getattr(self, key).copy())
        for key in ("local", "owner", "remote", "degree"):
            data[f"boundary_{key}"] = torch.from_numpy(getattr(self.boundary, key).copy())
        data.boundary_owners = list(self.boundary.owners)
        data.name, data.classes = self.name, self.classes
        return data

    @classmethod
    def from_pyg(
        cls, data: Data, *, name: str = "graph", classes: int | None = None
    ) -> ClientGraph:
        """Read a PyG ``Data``; missing masks are all false, a missing ``node_id`` is 0..n-1."""
        fields = data.to_dict()
        if fields.get("x") is None or fields.get("edge_index") is None:
            raise GraphError(f"{name}: a PyG graph needs 'x' and 'edge_index'")
        n = int(fields["x"].shape[0])
        y = _array(fields, "y", np.int64, np.full(n, -1, np.int64)).reshape(-1)
        found = int(y.max(initial=-1)) + 1
        none = np.zeros(n, np.bool_)
        return cls(
            name=str(fields.get("name", name)),
            x=compact(_array(fields, "x", np.float32)),
            edge_index=_array(fields, "edge_index", np.int64),
            y=y,
            train_mask=_array(fields, "train_mask", np.bool_, none),
            val_mask=_array(fields, "val_mask", np.bool_, none),
            test_mask=_array(fields, "test_mask", np.bool_, none),
            classes=classes or int(fields.get("classes", found)),
            node_id=_array(fields, "node_id", np.int64, np.arange(n)),
            boundary=_boundary_from(fields),
        )


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


def _array(fields: dict[str, Any], key: str, dtype: Any, default: Any = None) -> Any:
    value = fields.get(key)
    if value is None:
        return default
    if getattr(value, "is_sparse", False) or "sparse_csr" in str(getattr(value, "layout", "")):
        value = value.to_dense()
    return np.array(value.cpu().numpy(), dtype)


def _boundary_from(fields: dict[str, Any]) -> Boundary:
    if fields.get("boundary_local") is None:
        return Boundary.empty()
    keys = ("local", "owner", "remote", "degree")
    arrays = {key: _array(fields, f"boundary_{key}", np.int64) for key in keys}
    return Boundary(**arrays, owners=tuple(fields.get("boundary_owners", ())))
