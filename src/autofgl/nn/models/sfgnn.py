"""GraphSAGE embeddings and a discriminator: the network of ASFGNN."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.models.base import GNN
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure

#: Names of the discriminator's parameters begin so.
DISCRIMINATOR = "discriminator."


class Discriminator(nn.Module):
    r"""Two fully connected layers with a hyperbolic tangent between them (ASFGNN, section 5.1.4,
    L = 2).

    .. math::
        \mathbf{Y} = \tanh(\mathbf{H} \mathbf{W}_1 + \mathbf{b}_1) \mathbf{W}_2 + \mathbf{b}_2

    Dropout is on the output of the first layer.
    """

    def __init__(self, hidden: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = Linear(hidden, hidden)
        self.second = Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, embeddings: Tensor, generator: Rng = None) -> Tensor:
        """Class scores."""
        between = torch.tanh(self.first(embeddings))
        scores: Tensor = self.second(dropout(between, self.dropout, self.training, generator))
        return scores


class SeparatedGNN(GNN):
    r"""Message passing and a discriminator, which ASFGNN trains separately and together.

    Algorithm 1 of Zheng et al., 2020, with :math:`\sigma = \tanh` and a depth K of ``layers``:

    .. math::
        \mathbf{h}_0 = \mathbf{x} \mathbf{W}_0, \quad
        \mathbf{h}_k = \sigma(\mathbf{W}_k \, [\mathbf{h}_{k-1} \,\|\,
        \mathrm{mean}_{u \in N(v)} \mathbf{h}_{u,k-1}]), \quad
        \mathbf{H} = \mathbf{h}_K / \|\mathbf{h}_K\|_2

    The product with the concatenation is the sum that :class:`SAGEConv` computes; it has a bias,
    which the paper does not show. Dropout is on the features, before each convolution and within
    the discriminator; the paper does not say where.

    The discriminator's parameters are drawn first, so that networks of different depths begin with
    the same one.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.discriminator = Discriminator(spec.hidden, spec.classes, spec.dropout)
        self.input = Linear(spec.in_features, spec.hidden, bias=False)
        self.convs = nn.ModuleList(SAGEConv(spec.hidden, spec.hidden) for _ in range(spec.layers))

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Scores of the embeddings."""
        scores: Tensor = self.discriminator(self.embed(x, structure, generator), generator)
        return scores

    def embed(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """Algorithm 1: embeddings of length one, ``[n, hidden]``."""
        hidden: Tensor = self.input(self.apply_dropout(x, generator))
        for conv in self.convs:
            hidden = torch.tanh(conv(self.apply_dropout(hidden, generator), structure, generator))
        return functional.normalize(hidden)
