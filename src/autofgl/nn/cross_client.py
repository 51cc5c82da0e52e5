"""Convolutions whose neighbors are at other clients, for every network of ours.

A client has n own nodes and knows m external ones, the other ends of its boundary. An operator of
its structure has a row for each own node and a column for all n + m, with the degrees of the uncut
graph: the rows of all clients together are the rows of the pooled graph's operator. A *hop* is one
product with such an operator, or one attention over its entries: GCN has one for each layer, APPNP
one for each step. What a hop needs of external nodes is what their owners feed into the same hop,
mapped by the layer's weights wherever it has some before the product (FedGraph, Eq. 3). It is a
constant in backpropagation, unless gradients are sent back
(:mod:`autofgl.nn.cross_client_backward`).

A hop can be *closed*: then it sees own nodes only, and what is left of a row is scaled up by the
number of its entries over the number left (Eq. 7).
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.conv import layer_type
from autofgl.nn.kernels.attention import AttentionPattern
from autofgl.nn.kernels.operation import constants
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern
from autofgl.nn.models.spec import ModelSpec, NetworkSpec, SearchedSpec
from autofgl.nn.sampling.neighborhood import Neighborhood, external_nodes
from autofgl.nn.structure import Structure

Kind: TypeAlias = Literal["gcn", "mean", "sum", "symmetric"]
#: Whose rows cross: those of hidden layers, all, or none.
Share: TypeAlias = Literal["hidden", "all", "none"]


class ClientOperators:
    """One client's operators, with external columns and without, each laid out once."""

    def __init__(self, graph: ClientGraph) -> None:
        self.neighborhood = Neighborhood.from_client(graph)
        self.own, self.external = graph.num_nodes, self.neighborhood.external
        first, place = external_nodes(graph.boundary)
        source, target = graph.edge_index
        self.edge_index = torch.tensor(graph.edge_index, dtype=torch.int64)
        self._row = torch.from_numpy(np.concatenate([target, graph.boundary.local]))
        self._col = torch.from_numpy(np.concatenate([source, self.own + place]))
        incoming = torch.bincount(self._row, minlength=self.own)
        self._degree = torch.cat([incoming, torch.tensor(graph.boundary.degree[first])]).float()
        self._patterns: dict[tuple[bool, bool], SparsePattern] = {}
        self._operators: dict[tuple[Kind, bool], SparseOperator] = {}
        self._attention: dict[bool, AttentionPattern] = {}

    def operator(self, kind: Kind, across: bool) -> SparseOperator:
        """An operator ``[n, n + m]``, or ``[n, n]`` without external nodes."""
        if (kind, across) not in self._operators:
            with constants():
                made = self._gcn(across) if kind == "gcn" else self._made(kind, across)
            self._operators[kind, across] = made
        return self._operators[kind, across]

    def pattern(self, across: bool, loops: bool = False) -> SparsePattern:
        """The entries of the adjacency matrix, with one self loop each if there are to be any."""
        if (across, loops) not in self._patterns:
            with constants():
                kept = torch.ones_like(self._row, dtype=torch.bool)
                kept = kept if across else self._col < self.own
                kept = kept & (self._row != self._col) if loops else kept
                row, col = self._row[kept], self._col[kept]
                if loops:
                    nodes = torch.arange(self.own)
                    row, col = torch.cat([row, nodes]), torch.cat([col, nodes])
                shape = (self.own, self.own + across * self.external)
                self._patterns[across, loops], _ = SparsePattern.from_coo(row, col, shape)
        return self._patterns[across, loops]

    def attention(self, across: bool) -> AttentionPattern:
        """The entries with a self loop each, for attention."""
        if across not in self._attention:
            self._attention[across] = AttentionPattern(self.pattern(across, loops=True))
        return self._attention[across]

    def end_degrees(self, across: bool) -> Tensor:
        """Degrees of each entry's source and target in the uncut graph, ``[E, 2]``."""
        with constants():
            pattern = self.pattern(across)
            ends = (pattern.col, pattern.row)
            return torch.stack([self._degree.index_select(0, end) for end in ends], 1)

    def _gcn(self, across: bool) -> SparseOperator:
        near = self.neighborhood if across else self.neighborhood.internal()
        shape = (self.own, self.own + near.external)
        ends = (torch.from_numpy(near.indptr), torch.from_numpy(near.indices))
        return SparseOperator(SparsePattern.from_csr(*ends, shape), torch.from_numpy(near.values))

    def _made(self, kind: Kind, across: bool) -> SparseOperator:
        pattern = self.pattern(across)
        kept = pattern.crow.diff().float()
        if kind == "mean":
            return SparseOperator(pattern, (1 / kept).index_select(0, pattern.row))
        values = (self._degree[: self.own] / kept).index_select(0, pattern.row)
        if kind == "symmetric":
            scale = self._degree.pow(-0.5)
            scale = scale.masked_fill(scale.isinf(), 0.0)
            values = values * scale.index_select(0, pattern.row)
            values = values * scale.index_select(0, pattern.col)
        return SparseOperator(pattern, values)


class HopReached(Exception):
    """A pass has come to the hop that it was to stop at; the rows of own nodes are ``rows``."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = rows


class CrossClientStructure(Structure):
    """A client's operators in a network whose hops take in rows of external nodes.

    ``closed`` are the numbers of hops, from 0 on, that do not; None if none does. The rows that
    were received last are used until others come, and zeros before the first.
    """

    def __init__(self, operators: ClientOperators, closed: frozenset[int] | None) -> None:
        super().__init__(operators.edge_index, operators.own)
        self.operators = operators
        self._closed = closed
        #: By hop, the rows of external nodes, ``[m, width]``.
        self.rows: dict[int, Tensor] = {}
        #: Widths of the hops that take in such rows, once a pass was made.
        self.widths: dict[int, int] = {}
        self._hop = 0
        self._stop: int | None = None
        self._products: dict[int, Tensor] = {}
        #: Whether the present hop takes in rows of external nodes.
        self.across = False
        #: Shown each hop that does, and what own nodes feed into it; what it gives is used instead.
        self.watch: Callable[[int, Tensor], Tensor] | None = None

    def begin(self) -> None:
        """A forward pass begins."""
        self._hop = 0

    def begin_exchanges(self) -> None:
        """Passes that stop at one hop after the other begin: at other weights than the last."""
        self._products.clear()

    def rows_at(self, hop: int, run: Callable[[], object]) -> Tensor:
        """What own nodes feed into a hop, ``[n, width]``, from a pass that is made up to there.

        Since :meth:`begin_exchanges` nothing but rows of the hops before may have changed, so that
        products of earlier passes are not made again.
        """
        self._stop = hop
        try:
            run()
        except HopReached as reached:
            return reached.rows
        finally:
            self._stop = None
        raise ValueError(f"the network has no hop {hop}")

    def product(self, kind: Kind, x: Tensor) -> Tensor:
        """The next hop, a product with an operator."""
        hop = self._hop
        if self._stop is not None and hop in self._products:
            self._hop += 1
            return self._products[hop]
        joined = self.joined(x)
        product: Tensor = self.operators.operator(kind, self.across) @ joined
        if self._stop is not None:
            self._products[hop] = product
        return product

    def joined(self, x: Tensor) -> Tensor:
        """Rows of own nodes, then those of external ones if the hop takes in any."""
        hop = self._hop
        self._hop += 1
        self.across = self._closed is not None and hop not in self._closed
        if not self.across:
            return x
        if hop == self._stop:
            raise HopReached(x.detach())
        self.widths[hop] = x.shape[1]
        if self.watch is not None:
            x = self.watch(hop, x)
        if not self.operators.external:
            return x
        if hop not in self.rows:
            self.rows[hop] = torch.zeros(self.operators.external, x.shape[1])
        return torch.cat([x, self.rows[hop]])

    def own_rows(self, x: Tensor) -> Tensor:
        """Those of own nodes among the rows of all."""
        return x[: self.num_nodes]

    @property
    def crosses(self) -> bool:
        """See :attr:`Structure.crosses`."""
        return True

    @property
    def joined_sum(self) -> SparseOperator:
        """See :attr:`Structure.joined_sum`."""
        return self.operators.operator("sum", self.across)

    @property
    def attention(self) -> AttentionPattern:
        """See :attr:`Structure.attention`; of the hop whose rows were joined last."""
        return self.operators.attention(self.across)

    @property
    def end_degrees(self) -> Tensor:
        """See :attr:`Structure.end_degrees`; of the hop whose rows were joined last."""
        return self.operators.end_degrees(self.across)

    @cached_property
    def gcn(self) -> SparseOperator:
        """See :attr:`Structure.gcn`."""
        return _CrossClientOperator(self, "gcn")

    @cached_property
    def symmetric(self) -> SparseOperator:
        """See :attr:`Structure.symmetric`."""
        return _CrossClientOperator(self, "symmetric")

    @cached_property
    def sum(self) -> SparseOperator:
        """See :attr:`Structure.sum`."""
        return _CrossClientOperator(self, "sum")

    @cached_property
    def mean(self) -> SparseOperator:
        """See :attr:`Structure.mean`."""
        return _CrossClientOperator(self, "mean")


class _CrossClientOperator(SparseOperator):
    """The operator of the hop that is next when it is multiplied by something."""

    crosses = True

    def __init__(self, structure: CrossClientStructure, kind: Kind) -> None:
        self._structure = structure
        self._kind = kind

    @property
    def _present(self) -> SparseOperator:
        return self._structure.operators.operator(self._kind, self._structure.across)

    @property
    def pattern(self) -> SparsePattern:  # type: ignore[override]
        """Entries of the present hop's operator."""
        return self._present.pattern

    @property
    def values(self) -> Tensor:  # type: ignore[override]
        """Their values."""
        return self._present.values

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self._structure.product(self._kind, dense)


def run_together(
    structures: Mapping[str, CrossClientStructure], run: Callable[[str], Tensor]
) -> dict[str, Tensor]:
    """Outputs of clients that are all here, by name, after an exchange for every hop.

    ``run`` makes a pass of one of them. Rows of nodes that nobody here has stay zero.
    """
    for name in structures:
        run(name)  # counts the hops
    for hop in sorted(next(iter(structures.values())).widths):
        sent = {name: one.rows_at(hop, partial(run, name)) for name, one in structures.items()}
        for one in structures.values():
            near = one.operators.neighborhood
            for index, name in enumerate(near.owners):
                if name in sent and hop in one.rows:
                    mine = torch.from_numpy(near.owner == index)
                    one.rows[hop][mine] = sent[name][near.remote[mine.numpy()]]
    return {name: run(name) for name in structures}


def closed_hops(spec: NetworkSpec, share: Share) -> frozenset[int] | None:
    """Which hops of a network see own nodes only; None if all do.

    With ``hidden`` those are the hops that would show a peer a linear map of the raw features of a
    node, or a map that can be undone entry by entry: the first convolution of GCN, SAGE, GIN, GAT,
    SGC and ARMA, as in the paper, the first step of GatedGraph and GRAND, and layers of searched
    networks that follow an input stage with another activation than ``relu``. APPNP, AGNN and
    searched networks with ``relu`` feed hidden embeddings into their first hop already.
    """
    if share == "none":
        return None
    if share == "all":
        return frozenset()
    if isinstance(spec, SearchedSpec):
        return _closed_of_searched(spec)
    assert isinstance(spec, ModelSpec)
    hidden = spec.family == "agnn" or (spec.family == "appnp" and spec.layers > 1)
    return frozenset() if hidden else frozenset({0})


def _closed_of_searched(spec: SearchedSpec) -> frozenset[int]:
    genotype = spec.parsed()
    closed, at = set(), 0
    for layer in genotype.layers:
        if not layer.previous and genotype.input != "relu":
            closed.add(at)
        at += layer_type(layer.type).hops
    return frozenset(closed)
