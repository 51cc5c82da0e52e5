"""Convolutions that compute a weight for every edge."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.attention import AttentionPattern, mixed_sum
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear, glorot
from autofgl.nn.kernels.operation import Rng, constants
from autofgl.nn.kernels.sparse import SparsePattern, sampled_product
from autofgl.nn.structure import Structure

_TINY = 1e-15
_NEGATIVE_SLOPE = 0.2


class GATConv(Convolution):
    r"""The operator of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_.

    .. math::
        \mathbf{x}^{\prime}_i = \sum_{j \in \mathcal{N}(i) \cup \{i\}} \alpha_{ij}
        \mathbf{\Theta} \mathbf{x}_j, \quad \alpha_{ij} = \mathrm{softmax}_j \left(
        \mathrm{LeakyReLU} \left( \mathbf{a}_s^{\top} \mathbf{\Theta} \mathbf{x}_j +
        \mathbf{a}_t^{\top} \mathbf{\Theta} \mathbf{x}_i \right) \right)

    Args:
        in_channels: Width of the input.
        out_channels: Width of each head.
        heads: Number of heads.
        concat: Whether to concatenate the heads; otherwise their mean is taken.
        dropout: Dropout on the attention coefficients.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.dropout = dropout
        self.lin = Linear(in_channels, heads * out_channels, bias=False, scheme="glorot")
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.bias = nn.Parameter(torch.empty(heads * out_channels if concat else out_channels))

    def forward(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """Convolve; the generator drives the dropout of coefficients."""
        edges = structure.attention
        messages = self.lin(x).view(-1, self.heads, self.out_channels).transpose(0, 1).contiguous()
        weights = edges.softmax(self._scores(edges, messages))
        weights = dropout(weights, self.dropout, self.training, generator)
        out = edges.weighted_sum(weights, messages)  # [heads, n, out_channels]
        if self.concat:
            return out.transpose(0, 1).reshape(-1, len(self.bias)) + self.bias
        return out.mean(0) + self.bias

    def _scores(self, edges: AttentionPattern, messages: Tensor) -> Tensor:
        """Unnormalized coefficients ``[E, heads]`` of messages ``[heads, n, out_channels]``."""
        vectors = torch.stack([self.att_src[0], self.att_dst[0]], dim=-1)  # [heads, C, 2]
        source, target = torch.bmm(messages, vectors).permute(2, 1, 0).contiguous()  # [n, heads]
        scores = edges.over_sources.T @ source + edges.over_targets.T @ target
        return functional.leaky_relu(scores, _NEGATIVE_SLOPE)


class AGNNConv(Convolution):
    r"""The operator of `"Attention-based Graph Neural Network for Semi-supervised Learning"
    <https://arxiv.org/abs/1803.03735>`_, attention by cosine similarity.

    .. math::
        \mathbf{X}^{\prime} = \mathbf{P} \mathbf{X}, \quad P_{ij} = \mathrm{softmax}_{j \in
        \mathcal{N}(i) \cup \{i\}} \left( \beta \cdot \cos(\mathbf{x}_i, \mathbf{x}_j) \right)

    Without ``requires_grad``, :math:`\beta` is not trained and stays 1.
    """

    beta: Tensor

    def __init__(self, requires_grad: bool = True) -> None:
        super().__init__()
        if requires_grad:
            self.beta = nn.Parameter(torch.ones(1))
        else:
            self.register_buffer("beta", torch.ones(1))

    def reset_parameters(self, generator: Rng = None) -> None:  # noqa: ARG002
        """β = 1; nothing is drawn."""
        nn.init.ones_(self.beta)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        x, edges = as_tensor(x), structure.attention
        unit = functional.normalize(x, dim=-1)
        cosines = sampled_product(edges.pattern, unit, unit)
        weights = edges.softmax((self.beta * cosines).unsqueeze(1))
        return edges.weighted_sum(weights, x.unsqueeze(0)).squeeze(0)


class FeaStConv(Convolution):
    r"""The translation-invariant operator of `"FeaStNet: Feature-Steered Graph Convolutions for 3D
    Shape Analysis" <https://arxiv.org/abs/1706.05206>`_ with a weight matrix for each of H heads.

    .. math::
        \mathbf{x}^{\prime}_i = \mathbf{b} + \frac{1}{|\mathcal{N}(i)| + 1}
        \sum_{j \in \mathcal{N}(i) \cup \{i\}} \sum_{h=1}^H q_h(\mathbf{x}_i, \mathbf{x}_j)
        \mathbf{W}_h \mathbf{x}_j, \quad q(\mathbf{x}_i, \mathbf{x}_j) = \mathrm{softmax}_h \left(
        \mathbf{u}_h^{\top} (\mathbf{x}_j - \mathbf{x}_i) + c_h \right)
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.lin = Linear(in_channels, heads * out_channels, bias=False)
        self.u = Linear(in_channels, heads, bias=False)
        self.c = nn.Parameter(torch.empty(heads))
        self.bias = nn.Parameter(torch.empty(out_channels))

    def reset_parameters(self, generator: Rng = None) -> None:
        """Uniform weights; offsets and bias are normal with deviation 0.1."""
        self.lin.reset_parameters(generator)
        self.u.reset_parameters(generator)
        nn.init.normal_(self.c, std=0.1, generator=generator)
        nn.init.normal_(self.bias, std=0.1, generator=generator)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        edges = structure.attention
        steering = self.u(x)  # [n, heads]
        scores = edges.over_sources.T @ steering - edges.over_targets.T @ steering
        weights = torch.softmax(scores + self.c, dim=1)
        return _mixed_mean(edges.pattern, weights, self.lin(x)) + self.bias


class GMMConv(Convolution):
    r"""The operator of `"Geometric Deep Learning on Graphs and Manifolds using Mixture Model CNNs"
    <https://arxiv.org/abs/1611.08402>`_ (MoNet) with a mixture of K = ``kernel_size`` Gaussians.

    .. math::
        \mathbf{x}^{\prime}_i = \frac{1}{|\mathcal{N}(i)|} \sum_{j \in \mathcal{N}(i)}
        \sum_{k=1}^K w_k(\mathbf{e}_{ij}) \, \mathbf{\Theta}_k \mathbf{x}_j + \mathbf{W}
        \mathbf{x}_i + \mathbf{b}, \quad w_k(\mathbf{e}) = \exp \left( -\frac{1}{2} \sum_d
        \frac{(e_d - \mu_{kd})^2}{\sigma_{kd}^2} \right)

    The coordinates of an edge come from the degrees of its ends, as in MoNet's experiment on Cora;
    see :func:`pseudo_coordinates`. As in PyG's code, and unlike its formula, there is no 1/K.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.empty(in_channels, out_channels * kernel_size))
        self.mu = nn.Parameter(torch.empty(kernel_size, 2))
        self.sigma = nn.Parameter(torch.empty(kernel_size, 2))
        self.root = Linear(in_channels, out_channels, bias=False, scheme="glorot")
        self.bias = nn.Parameter(torch.empty(out_channels))

    def reset_parameters(self, generator: Rng = None) -> None:
        """Glorot weights, means and deviations, zero bias."""
        for parameter in (self.g, self.mu, self.sigma, self.root.weight):
            glorot(parameter, generator)
        nn.init.zeros_(self.bias)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The equation above."""
        offsets = pseudo_coordinates(structure).unsqueeze(1) - self.mu  # [E, K, 2]
        distance = offsets.square() / (_TINY + self.sigma.square())
        weights = torch.exp(-0.5 * distance.sum(-1))
        out = _mixed_mean(structure.symmetric.pattern, weights, x @ self.g)
        return out + self.root.product(x) + self.bias


def pseudo_coordinates(structure: Structure) -> Tensor:
    r"""For each edge, :math:`((1 + d_j)^{-1/2}, (1 + d_i)^{-1/2})` of its source and target.

    MoNet has :math:`d^{-1/2}`; one is added, as the authors of FL-AGCNS do, so that a source
    without incoming edges has a finite coordinate. The degree of a source is read off
    :math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}`, which holds it even where a structure
    has only some of a graph's rows.

    Returns:
        ``[E, 2]``, in the order of ``structure.symmetric``.
    """
    with constants():
        operator = structure.symmetric
        target = operator.pattern.crow.diff().to(structure.dtype)
        target = target.index_select(0, operator.pattern.row)
        product = operator.values.square() * target  # 1 / d of the source, or 0
        source = torch.where(product > 0, 1 / product, 0.0).round()
        return torch.stack([source, target], dim=1).add_(1).rsqrt_()


def _mixed_mean(pattern: SparsePattern, weights: Tensor, messages: Tensor) -> Tensor:
    """The mixed sum over the neighbors of each node, divided by their number."""
    return mixed_sum(pattern, weights, messages) / pattern.crow.diff().clamp(min=1).unsqueeze(1)
