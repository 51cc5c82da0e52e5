"""The operators of a graph, each laid out once and kept."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from autofgl.errors import GraphError
from autofgl.nn.kernels.attention import AttentionPattern, mixed_mean
from autofgl.nn.kernels.operation import constants, unwrap
from autofgl.nn.kernels.sparse import SparseOperator, SparsePattern

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import ClientGraph


class Structure:
    r"""Who is whose neighbor, as the sparse operators that convolutions multiply by.

    The messages flow as in PyG: an edge ``(s, t)`` adds to node ``t`` what node ``s`` sends, so
    that rows are targets and columns are sources. :math:`\mathbf{A}` is the adjacency matrix,
    :math:`\mathbf{D}` holds the numbers of incoming edges. Repeated edges count repeatedly. The
    operators' values have the type of the features they will meet.

    With weights ``[E]``, :math:`\mathbf{A}` and :math:`\mathbf{D}` are weighted in the operators
    :attr:`gcn`, :attr:`symmetric` and :attr:`weighted_sum`, whose convolutions have weights in PyG
    too. The others count edges. Without weights both are the same.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype = torch.float32,
        edge_weight: Tensor | None = None,
    ) -> None:
        self._edge_index = unwrap(edge_index)
        self._edge_weight = None if edge_weight is None else unwrap(edge_weight).to(dtype)
        self.num_nodes = num_nodes
        self.dtype = dtype
        with constants():
            _check(self._edge_index, num_nodes, self._edge_weight)

    @classmethod
    def from_client(cls, graph: ClientGraph) -> Structure:
        """The internal edges of a client graph."""
        with constants():
            edges = torch.tensor(graph.edge_index, dtype=torch.int64)
            given = graph.edge_weight
            weight = None if given is None else torch.tensor(given, dtype=torch.float32)
            return cls(edges, graph.num_nodes, edge_weight=weight)

    @property
    def device(self) -> torch.device:
        """Where the operators are."""
        return self._edge_index.device

    def to(self, device: torch.device) -> Structure:
        """The same on a device."""
        return self if device == self.device else MovedStructure(self, device)

    @property
    def single(self) -> Structure:
        """The structure of one input, where this one is for several side by side."""
        return self

    @property
    def edge_index(self) -> Tensor:
        """Sources and targets, ``[2, E]``."""
        return self._edge_index

    @property
    def edge_weight(self) -> Tensor | None:
        """Weights ``[E]`` in the order of :attr:`edge_index`; none if all are one."""
        return self._edge_weight

    @cached_property
    def gcn(self) -> SparseOperator:
        r""":math:`\tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I}) \tilde{\mathbf{D}}^{-1/2}`.

        A node with self loops keeps a single one, as with PyG's ``add_remaining_self_loops``; where
        it has a weight, it keeps that too.
        """
        return self._normalized(*self._weighted_looped)

    @cached_property
    def symmetric(self) -> SparseOperator:
        r""":math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}`, without added self loops."""
        return self._normalized(*self._weighted_edges)

    @cached_property
    def unweighted_symmetric(self) -> SparseOperator:
        """:attr:`symmetric` with every edge counted as one."""
        return self.symmetric if self.edge_weight is None else self._normalized(self._edges)

    @cached_property
    def weighted_sum(self) -> SparseOperator:
        r""":math:`\mathbf{A}` with the weights of edges."""
        pattern, weight = self._weighted_edges
        return self.sum if weight is None else SparseOperator(pattern, weight)

    @cached_property
    def sum(self) -> SparseOperator:
        r""":math:`\mathbf{A}`: the sum over the neighbors, whatever their edges weigh."""
        with constants():
            ones = torch.ones(self._edges.nnz, dtype=self.dtype, device=self._edges.col.device)
            return SparseOperator(self._edges, ones)

    @cached_property
    def mean(self) -> SparseOperator:
        r""":math:`\mathbf{D}^{-1} \mathbf{A}`: the mean over the neighbors, zero without any."""
        return self._averaging(self._edges)

    @property
    def end_degrees(self) -> Tensor:
        """Numbers of incoming edges of each edge's source and target, ``[E, 2]``.

        In the order of :attr:`unweighted_symmetric`. That of a source is read off its values, which
        hold it even where a structure has only some of a graph's rows; a source without any has 0.
        """
        with constants():
            operator = self.unweighted_symmetric
            target = self._degree(operator.pattern).index_select(0, operator.pattern.row)
            product = operator.values.square() * target  # 1 / d of the source, or 0
            source = torch.where(product > 0, 1 / product, 0.0).round()
            return torch.stack([source, target], dim=1)

    def mixed_mean(self, weights: Tensor, messages: Tensor) -> Tensor:
        """:func:`~autofgl.nn.kernels.attention.mixed_mean`; weights are in the order of
        :attr:`end_degrees`.
        """
        return mixed_mean(self.unweighted_symmetric.pattern, weights, messages)

    def softmax_sum(self, messages: Tensor) -> Tensor:
        """For each node, the sum of its neighbors' messages ``[n, C]``, each entry weighted by its
        softmax over the neighbors; for any range of values.
        """
        edges = AttentionPattern(self.joined_sum.pattern, self.dtype)
        sources = edges.pattern.col
        weights = edges.softmax(messages.index_select(0, sources))
        weighted = weights * messages.index_select(0, sources)
        empty = torch.zeros_like(self.own_rows(messages))
        return empty.index_add(0, edges.pattern.row, weighted)

    @cached_property
    def attention(self) -> AttentionPattern:
        r"""The edges of :math:`\mathbf{A} + \mathbf{I}`; each node has exactly one self loop."""
        return AttentionPattern(self._looped, self.dtype)

    def begin(self) -> None:
        """A forward pass begins; of interest where its hops are counted."""

    def joined(self, x: Tensor) -> Tensor:
        """What nodes send, together with what nodes at other clients send, if any do
        (:mod:`autofgl.nn.cross_client`); the attention pattern to use comes after it.
        """
        return x

    def joined_together(self, *many: Tensor) -> tuple[Tensor, ...]:
        """The same for several vectors of each node, in one exchange."""
        if not self.crosses:
            return many
        return torch.split(self.joined(torch.cat(many, 1)), [one.shape[1] for one in many], 1)

    def own_rows(self, x: Tensor) -> Tensor:
        """Of rows that were joined, those of this graph's nodes."""
        return x

    @property
    def joined_sum(self) -> SparseOperator:
        """:attr:`sum` for rows that were joined."""
        return self.sum

    @property
    def crosses(self) -> bool:
        """Whether what is multiplied is shown to other clients."""
        return False

    @property
    def _edges(self) -> SparsePattern:
        return self._weighted_edges[0]

    @property
    def _looped(self) -> SparsePattern:
        return self._weighted_looped[0]

    @cached_property
    def _weighted_edges(self) -> tuple[SparsePattern, Tensor | None]:
        """The edges as they are, and their weights in that order."""
        with constants():
            source, target = self.edge_index
            return self._laid_out(target, source, self.edge_weight)

    @cached_property
    def _weighted_looped(self) -> tuple[SparsePattern, Tensor | None]:
        """The edges with one self loop at each node; where it is added, it weighs one."""
        with constants():
            source, target = self.edge_index
            proper = source != target
            nodes = torch.arange(self.num_nodes, device=source.device)
            row, col = torch.cat([target[proper], nodes]), torch.cat([source[proper], nodes])
            weight = self.edge_weight
            if weight is not None:
                own = weight.new_ones(self.num_nodes)
                own[source[~proper]] = weight[~proper]
                weight = torch.cat([weight[proper], own])
            return self._laid_out(row, col, weight)

    def _laid_out(
        self, row: Tensor, col: Tensor, weight: Tensor | None
    ) -> tuple[SparsePattern, Tensor | None]:
        pattern, order = SparsePattern.from_coo(row, col, (self.num_nodes, self.num_nodes))
        return pattern, None if weight is None else weight.index_select(0, order)

    def _degree(self, pattern: SparsePattern) -> Tensor:
        return pattern.crow.diff().to(self.dtype)

    def _averaging(self, pattern: SparsePattern) -> SparseOperator:
        with constants():
            degree = self._degree(pattern)
            return SparseOperator(pattern, 1 / degree.index_select(0, pattern.row))

    def _normalized(self, pattern: SparsePattern, weight: Tensor | None = None) -> SparseOperator:
        with constants():
            degree = self._degree(pattern)
            if weight is not None:
                degree = torch.zeros_like(degree).index_add_(0, pattern.row, weight)
            scale = degree.pow(-0.5)
            # A source without incoming edges has an infinite scale, which PyG sets to zero.
            scale = scale.masked_fill(scale.isinf(), 0.0)
            values = scale.index_select(0, pattern.row) * scale.index_select(0, pattern.col)
            return SparseOperator(pattern, values if weight is None else values * weight)


class MovedStructure(Structure):
    """A structure on another device than the one that it is laid out on.

    Operators are laid out there, as always, and each is moved at its first use: all devices compute
    with the same layout, and sorting takes none of a graphics card's memory.
    """

    def __init__(self, origin: Structure, device: torch.device) -> None:
        self.num_nodes = origin.num_nodes
        self.dtype = origin.dtype
        self._origin = origin
        self._device = device

    @property
    def device(self) -> torch.device:
        """Where the operators are."""
        return self._device

    def to(self, device: torch.device) -> Structure:
        """The same on a device."""
        return self if device == self._device else self._origin.to(device)

    @cached_property
    def edge_index(self) -> Tensor:
        """See :attr:`Structure.edge_index`."""
        return self._origin.edge_index.to(self._device)

    @cached_property
    def edge_weight(self) -> Tensor | None:
        """See :attr:`Structure.edge_weight`."""
        weight = self._origin.edge_weight
        return None if weight is None else weight.to(self._device)

    @cached_property
    def gcn(self) -> SparseOperator:
        """See :attr:`Structure.gcn`."""
        return self._origin.gcn.to(self._device)

    @cached_property
    def symmetric(self) -> SparseOperator:
        """See :attr:`Structure.symmetric`."""
        return self._origin.symmetric.to(self._device)

    @cached_property
    def unweighted_symmetric(self) -> SparseOperator:
        """See :attr:`Structure.unweighted_symmetric`."""
        if self._origin.edge_weight is None:
            return self.symmetric
        return self._origin.unweighted_symmetric.to(self._device)

    @cached_property
    def weighted_sum(self) -> SparseOperator:
        """See :attr:`Structure.weighted_sum`."""
        if self._origin.edge_weight is None:
            return self.sum
        return self._origin.weighted_sum.to(self._device)

    @cached_property
    def sum(self) -> SparseOperator:
        """See :attr:`Structure.sum`."""
        return self._origin.sum.to(self._device)

    @cached_property
    def mean(self) -> SparseOperator:
        """See :attr:`Structure.mean`."""
        return self._origin.mean.to(self._device)

    @cached_property
    def end_degrees(self) -> Tensor:
        """See :attr:`Structure.end_degrees`."""
        return self._origin.end_degrees.to(self._device)

    @cached_property
    def _looped(self) -> SparsePattern:
        return self._origin._looped.to(self._device)


class DenseStructure(Structure):
    """A small graph whose operators are dense matrices.

    Up to some hundred nodes a dense product costs less than the overhead of a sparse one. Only
    convolutions that multiply by :attr:`gcn` or :attr:`mean` can use it.
    """

    @cached_property
    def gcn(self) -> Tensor:  # type: ignore[override]
        """See :attr:`Structure.gcn`."""
        return self._normalized(*self._weighted_looped).to_dense()

    @cached_property
    def mean(self) -> Tensor:  # type: ignore[override]
        """See :attr:`Structure.mean`."""
        return self._averaging(self._edges).to_dense()


def _check(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None) -> None:
    """Refuse indices that a CSR product would read beyond its memory, and weights of no edge."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        shape = list(edge_index.shape)
        raise GraphError(
            f"edge_index must be integers of shape [2, E], not {edge_index.dtype} {shape}"
        )
    if edge_weight is not None and edge_weight.shape != edge_index.shape[1:]:
        given = f"edge_weight has shape {list(edge_weight.shape)}"
        raise GraphError(f"{given}, but there are {edge_index.shape[1]} edges")
    if edge_index.numel() == 0:
        return
    low, high = (int(bound) for bound in edge_index.aminmax())
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        raise GraphError(f"edge_index refers to node {wrong}, but the graph has {num_nodes} nodes")
