"""Convolutions that add up neighbors and hand the sum to a perceptron or a recurrent unit."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.errors import UserError
from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.attention import AttentionPattern
from autofgl.nn.kernels.linear import Linear, reset_children, uniform
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure

#: Exponents of single precision go down to about -87; beyond this range sums might vanish.
_SAFE_RANGE = 60.0


class GINConv(Convolution):
    r"""The operator of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ with a perceptron of two layers.

    .. math::
        \mathbf{X}^{\prime} = \mathrm{MLP} \left( (\mathbf{A} + (1 + \epsilon) \mathbf{I})
        \mathbf{X} \right)

    There is no batch normalization: its running statistics would not federate.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        hidden_channels: Width of the hidden layer; that of the output if None.
        train_eps: Whether :math:`\epsilon` is trained; otherwise it stays 0.
    """

    eps: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int | None = None,
        train_eps: bool = False,
    ) -> None:
        super().__init__()
        hidden = out_channels if hidden_channels is None else hidden_channels
        self.nn = nn.Sequential(
            Linear(in_channels, hidden), nn.ReLU(), Linear(hidden, out_channels)
        )
        if train_eps:
            self.eps = nn.Parameter(torch.zeros(1))
        else:
            self.register_buffer("eps", torch.zeros(1))

    def reset_parameters(self, generator: Rng = None) -> None:
        """Torch's default for linear layers; ε = 0."""
        reset_children(self.nn, generator)
        nn.init.zeros_(self.eps)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        first = cast(Linear, self.nn[0])
        if isinstance(x, Tensor) and first.in_channels < first.out_channels:
            hidden = first.add_bias(first.product(self._with_neighbors(x, structure)))
        else:
            hidden = first.add_bias(self._with_neighbors(first.product(x), structure))
        out: Tensor = self.nn[1:](hidden)
        return out

    def _with_neighbors(self, x: Tensor, structure: Structure) -> Tensor:
        return structure.sum @ x + (1 + self.eps) * x


class GENConv(Convolution):
    r"""The operator of `"DeeperGCN: All You Need to Train Deeper GCNs"
    <https://arxiv.org/abs/2006.07739>`_ with softmax aggregation, at PyG's temperature and width.

    .. math::
        \mathbf{x}^{\prime}_i = \mathrm{MLP} \left( \mathbf{x}_i + \sum_{j \in \mathcal{N}(i)}
        \frac{\exp(\mathbf{m}_j)}{\sum_{k \in \mathcal{N}(i)} \exp(\mathbf{m}_k)} \odot
        \mathbf{m}_j \right), \quad \mathbf{m}_j = \mathrm{ReLU}(\mathbf{x}_j) + 10^{-7}

    A message depends on its sender alone, so that the aggregation is a quotient of two sums over
    neighbors, and no message is laid out per edge. The perceptron, twice as wide between its
    layers, has no batch normalization (PyG's ``norm=None``): its running statistics would not
    federate.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        # The third part stands where PyG has its dropout, so that names agree.
        self.mlp = nn.Sequential(
            Linear(channels, 2 * channels, bias=False),
            nn.ReLU(),
            nn.Identity(),
            Linear(2 * channels, channels, bias=False),
        )

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = as_tensor(x)
        return cast(Tensor, self.mlp(self.aggregate(x, structure) + x))

    def aggregate(self, x: Tensor, structure: Structure) -> Tensor:
        """Softmax aggregation of the messages, ``[n, C]``; zero for a node without neighbors."""
        messages = torch.relu(x) + 1e-7
        if not len(messages):
            return messages
        low, high = messages.detach().aminmax(dim=0, keepdim=True)
        if not bool(((high - low) < _SAFE_RANGE).all()):
            return _edge_by_edge(messages, structure)
        exponentials = (messages - high).exp()
        both = structure.sum @ torch.cat([exponentials, exponentials * messages], dim=1)
        total, weighted = both.chunk(2, dim=1)
        return weighted / total.masked_fill(total == 0, 1.0)


def _edge_by_edge(messages: Tensor, structure: Structure) -> Tensor:
    """The same with the highest score of every neighborhood taken off, for any range."""
    edges = AttentionPattern(structure.sum.pattern, structure.dtype)
    sources = edges.pattern.col
    weights = edges.softmax(messages.index_select(0, sources))
    weighted = weights * messages.index_select(0, sources)
    return torch.zeros_like(messages).index_add(0, edges.pattern.row, weighted)


class GatedGraphConv(Convolution):
    r"""The operator of `"Gated Graph Sequence Neural Networks"
    <https://arxiv.org/abs/1511.05493>`_ with a step for each of ``num_layers``.

    .. math::
        \mathbf{H}^{(0)} = \mathbf{X} \, \Vert \, \mathbf{0}, \quad
        \mathbf{H}^{(l+1)} = \mathrm{GRU} \left( \mathbf{A} \mathbf{H}^{(l)} \mathbf{\Theta}_l,
        \mathbf{H}^{(l)} \right)

    Shapes: ``[n, C]``, C at most ``out_channels`` → ``[n, out_channels]``.
    """

    def __init__(self, out_channels: int, num_layers: int) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.weight = nn.Parameter(torch.empty(num_layers, out_channels, out_channels))
        unset = nn.GRUCell(out_channels, out_channels, device="meta")  # draws nothing
        self.rnn = unset.to_empty(device="cpu")

    def reset_parameters(self, generator: Rng = None) -> None:
        """Uniform in ±1/√out_channels."""
        for parameter in (self.weight, *self.rnn.parameters()):
            uniform(parameter, self.out_channels, generator)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x = as_tensor(x)
        missing = self.out_channels - x.shape[1]
        if missing < 0:
            raise UserError(
                f"GatedGraphConv of width {self.out_channels} cannot take {x.shape[1]} channels: "
                "map them to fewer first"
            )
        state = functional.pad(x, (0, missing)) if missing else x
        for weight in self.weight:
            state = self.rnn(structure.sum @ (state @ weight), state)
        return state
