"""Convolutions on no more nodes than their output needs.

A convolution of K hops needs its input within r + K hops of the measured nodes if its output is
needed within r. After the first hop only nodes within r + K - 1 matter, and so on; the modules of
:mod:`autofgl.nn.conv` would carry all nodes to the end. Here are their equations again, with
the sparse product first where that helps, and everything else on the rows that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from autofgl.nn.conv.appnp import APPNPConv
from autofgl.nn.conv.arma import ARMAConv
from autofgl.nn.conv.base import Convolution
from autofgl.nn.conv.feast import FeaStConv
from autofgl.nn.conv.gated_graph import GatedGraphConv
from autofgl.nn.conv.gcn import GCNConv
from autofgl.nn.conv.gen import GENConv
from autofgl.nn.conv.gin import GINConv
from autofgl.nn.conv.gmm import GMMConv
from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.conv.sgc import SGConv
from autofgl.nn.kernels.attention import mixed_sums
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.kernels.recurrence import gated_update
from autofgl.nn.kernels.sparse import SparsePattern
from autofgl.nn.structure import Structure

#: A structure for one hop, and the number of rows that are needed after it.
Hop = tuple[Structure, int]


def narrow(
    convolution: Convolution, x: Tensor, hops: Sequence[Hop], generator: Rng = None
) -> Tensor:
    """The rows of a convolution's output that are needed after the last hop.

    The hops come farthest first; ``x`` has the nodes that the first of them needs.
    """
    equation = _EQUATIONS.get(type(convolution))
    if equation is not None:
        return equation(convolution, x, hops)
    out: Tensor = convolution(x, hops[0][0], generator)
    return _first(out, hops[-1][1])


def _gcn(convolution: GCNConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    out = convolution.lin.product(_first(structure.gcn @ x, rows))
    return out + convolution.bias


def _sage(convolution: SAGEConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    out: Tensor = convolution.lin_l(_first(structure.mean @ x, rows))
    return out + convolution.lin_r.product(_first(x, rows))


def _gin(convolution: GINConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    neighbors = _first(structure.sum @ x, rows)
    out: Tensor = convolution.nn(neighbors + (1 + convolution.eps) * _first(x, rows))
    return out


def _gen(convolution: GENConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    near = _first(convolution.aggregate(x, structure), rows)
    out: Tensor = convolution.mlp(near + _first(x, rows))
    return out


def _sgc(convolution: SGConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    for structure, rows in hops:
        x = _first(structure.gcn @ x, rows)
    out: Tensor = convolution.lin(x)
    return out


def _appnp(convolution: APPNPConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    start = x * convolution.alpha
    for structure, rows in hops:
        near = _first(structure.gcn @ x, rows)
        x = torch.add(_first(start, rows), near, alpha=1 - convolution.alpha)
    return x


def _gated_graph(convolution: GatedGraphConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    for weight, (structure, rows) in zip(convolution.weight, hops, strict=True):
        near = _first(structure.weighted_sum @ x, rows)
        x = gated_update(convolution.rnn, near, weight, _first(x, rows))
    return x


def _arma(convolution: ARMAConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    init, root = (
        weight.transpose(0, 1).reshape(x.shape[1], -1)
        for weight in (convolution.init_weight, convolution.root_weight[0])
    )
    own = torch.addmm(convolution.bias[0].reshape(-1), _first(x, rows), root)
    out = torch.addmm(own, _first(structure.symmetric @ x, rows), init)
    out = out if convolution.act is None else convolution.act(out)
    return out.view(rows, convolution.num_stacks, -1).mean(1)


def _gmm(convolution: GMMConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    # What an edge weighs depends on the graph alone, so that all inputs share it.
    single = structure.single
    weights = convolution.edge_weights(single) * single.mean.values.unsqueeze(1)
    side_by_side = x.view(single.num_nodes, -1)
    sums = mixed_sums(single.unweighted_symmetric.pattern, weights, side_by_side)
    maps = convolution.g.view(x.shape[1], weights.shape[1], -1).unbind(1)
    own = convolution.root.product(_first(x, rows)) + convolution.bias
    return _add_mapped(own, sums.view(len(sums), *x.shape), maps)


def _feast(convolution: FeaStConv, x: Tensor, hops: Sequence[Hop]) -> Tensor:
    ((structure, rows),) = hops
    if rows == len(x):
        return convolution.convolve(x, structure)
    pattern = structure.attention.pattern
    weights = convolution.edge_weights(convolution.u(x), structure)
    sums = mixed_sums(pattern, weights / _degree(pattern).index_select(0, pattern.row), x)
    maps = convolution.lin.weight.view(x.shape[1], weights.shape[1], -1).unbind(1)
    return _add_mapped(convolution.bias.expand(rows, -1), sums, maps)


def _add_mapped(start: Tensor, sums: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """The first rows of each part, ``[K, n, C]``, times its map, added to ``start``."""
    near = sums if sums.shape[1] == len(start) else sums[:, : len(start)]
    for part, weight in zip(near.unbind(0), maps, strict=True):
        start = torch.addmm(start, part, weight)
    return start


def _degree(pattern: SparsePattern) -> Tensor:
    return pattern.crow.diff().clamp(min=1).unsqueeze(1)


def _first(x: Tensor, rows: int) -> Tensor:
    """The first rows; a slice of all would still cost a copy in the backward pass."""
    return x if len(x) == rows else x[:rows]


_EQUATIONS: dict[type[Convolution], Callable[..., Tensor]] = {
    APPNPConv: _appnp,
    ARMAConv: _arma,
    FeaStConv: _feast,
    GCNConv: _gcn,
    GENConv: _gen,
    GINConv: _gin,
    GMMConv: _gmm,
    GatedGraphConv: _gated_graph,
    SAGEConv: _sage,
    SGConv: _sgc,
}
