"""Convolutions that multiply by a normalized adjacency matrix."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.kernels.sparse import SparseOperator
from autofgl.nn.structure import Structure


class GCNConv(Convolution):
    r"""The operator of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_.

    .. math::
        \mathbf{X}^{\prime} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \mathbf{X} \mathbf{\Theta} + \mathbf{b}
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, bias=False, scheme="glorot")
        self.bias = nn.Parameter(torch.empty(out_channels))

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        return self.lin.propagate(structure.gcn, x) + self.bias


class SAGEConv(Convolution):
    r"""The operator of `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ with the mean over the neighbors.

    .. math::
        \mathbf{X}^{\prime} = \mathbf{D}^{-1} \mathbf{A} \mathbf{X} \mathbf{W}_l + \mathbf{b}
        + \mathbf{X} \mathbf{W}_r
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_l = Linear(in_channels, out_channels)
        self.lin_r = Linear(in_channels, out_channels, bias=False)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        out = self.lin_l.add_bias(self.lin_l.propagate(structure.mean, x))
        return out + self.lin_r.product(x)


class SGConv(Convolution):
    r"""The operator of `"Simplifying Graph Convolutional Networks"
    <https://arxiv.org/abs/1902.07153>`_ with K hops.

    .. math::
        \mathbf{X}^{\prime} = \left(\tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \right)^K \mathbf{X} \mathbf{\Theta} + \mathbf{b}
    """

    def __init__(self, in_channels: int, out_channels: int, K: int = 1) -> None:
        super().__init__()
        self.K = K
        self.lin = Linear(in_channels, out_channels)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        if isinstance(x, Tensor) and self.lin.in_channels < self.lin.out_channels:
            out: Tensor = self.lin(self._hops(structure.gcn, x))
            return out
        return self.lin.add_bias(self._hops(structure.gcn, self.lin.product(x)))

    def _hops(self, operator: SparseOperator, x: Tensor) -> Tensor:
        for _ in range(self.K):
            x = operator @ x
        return x


class APPNPConv(Convolution):
    r"""The propagation of `"Predict then Propagate: Graph Neural Networks meet Personalized
    PageRank" <https://arxiv.org/abs/1810.05997>`_ in K steps. It has no parameters; :math:`\alpha`
    is the probability of going back to the start.

    .. math::
        \mathbf{X}^{(k)} = (1 - \alpha) \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \mathbf{X}^{(k-1)} + \alpha \mathbf{X}^{(0)},
        \quad \mathbf{X}^{\prime} = \mathbf{X}^{(K)}
    """

    def __init__(self, K: int, alpha: float) -> None:
        super().__init__()
        self.K = K
        self.alpha = alpha

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = as_tensor(x)
        start = x * self.alpha
        for _ in range(self.K):
            x = torch.add(start, structure.gcn @ x, alpha=1 - self.alpha)
        return x


class ARMAConv(Convolution):
    r"""The operator of `"Graph Neural Networks with Convolutional ARMA Filters"
    <https://arxiv.org/abs/1901.01343>`_, whose steps share their weights.

    .. math::
        \mathbf{X}^{\prime} = \frac{1}{K} \sum_{k=1}^{K} \mathbf{X}_k^{(T)}, \quad
        \mathbf{X}_k^{(t+1)} = \sigma \left( \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}
        \mathbf{X}_k^{(t)} \mathbf{W} + \mathbf{X}^{(0)} \mathbf{V} \right)

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        num_stacks: Number :math:`K` of parallel stacks.
        num_layers: Number :math:`T` of steps.
        act: The activation :math:`\sigma`; None for none.
        dropout: Dropout on the skip connection's :math:`\mathbf{X}^{(0)}`, drawn for every step.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_stacks: int = 1,
        num_layers: int = 1,
        act: Callable[[Tensor], Tensor] | None = torch.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.num_stacks = num_stacks
        self.num_layers = num_layers
        self.act = act
        self.dropout = dropout
        # PyG has weights for every step first; here they are those of the only one.
        self.weight = nn.Parameter(torch.empty(1, num_stacks, out_channels, out_channels))
        self.init_weight = nn.Parameter(torch.empty(num_stacks, in_channels, out_channels))
        self.root_weight = nn.Parameter(torch.empty(1, num_stacks, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(1, num_stacks, 1, out_channels))

    def forward(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """Convolve; the generator drives the dropout of the skip connection."""
        by_stack = (x.shape[0], self.num_stacks, self.out_channels)
        out = _all_stacks(x, self.init_weight)  # [n, stacks * out_channels]
        root = self._root(x, generator)
        for step in range(self.num_layers):
            if step > 0:
                mapped = torch.einsum("nki,kio->nko", out.view(by_stack), self.weight[0])
                out = mapped.reshape(out.shape)
                root = self._root(x, generator) if self.training and self.dropout > 0 else root
            out = structure.symmetric @ out + root
            out = out if self.act is None else self.act(out)
        return out.view(by_stack).mean(1)

    def _root(self, x: NodeInput, generator: Rng) -> Tensor:
        """The skip connection of all stacks."""
        dropped = dropout(x, self.dropout, self.training, generator)
        return _all_stacks(dropped, self.root_weight[0]) + self.bias[0].reshape(-1)


def _all_stacks(x: NodeInput, weight: Tensor) -> Tensor:
    """``x`` times each of the stacks' weights ``[stacks, in, out]``, in one product."""
    return x @ weight.transpose(0, 1).reshape(weight.shape[1], -1)
