"""GraphSAGE embeddings and a discriminator: the network of ASFGNN; and two of them, of which one is
the client's own and knows the client's classes, the other common and knows all.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.models.base import GNN
from autofgl.nn.models.spec import BlendedSpec, ModelSpec
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


class BlendedGNN(GNN):
    r"""Predictions over all classes at a client that has labels of some (ours).

    The common network says whether a node is of a class that this client has *seen*, shifted by
    what the client expects; the own network then tells the seen classes S apart, the common one
    the others:

    .. math::
        \mathrm{odds} = \log \frac{P_c(y \in S)}{P_c(y \notin S)} + \mathrm{shift}, \quad
        P(y) = \begin{cases}
        \sigma(\mathrm{odds}) \, P_o(y \mid y \in S) & y \in S \\
        \sigma(-\mathrm{odds}) \, P_c(y \mid y \notin S) & y \notin S
        \end{cases}

    ``seen`` is 1 for the classes of S, else 0. Where all are seen the own network is left.
    """

    spec: BlendedSpec

    def __init__(self, spec: BlendedSpec) -> None:
        super().__init__(spec)
        own, common = spec.towers
        self.own, self.common = SeparatedGNN(own), SeparatedGNN(common)
        self.seen = nn.Parameter(torch.ones(spec.classes), requires_grad=False)
        self.shift = nn.Parameter(torch.zeros(1), requires_grad=False)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Log-probabilities."""
        seen, unseen = _only(self.seen), _only(1 - self.seen)
        own = functional.log_softmax(self.own.logits(x, structure, generator) + seen, dim=1)
        common = functional.log_softmax(self.common.logits(x, structure, generator), dim=1)
        here, there = (torch.logsumexp(common + one, 1, keepdim=True) for one in (seen, unseen))
        odds = here - there + self.shift
        inside = functional.logsigmoid(odds) + own
        outside = functional.logsigmoid(-odds) + common - there
        return torch.where(self.seen > 0.5, inside, outside)


def _only(chosen: Tensor) -> Tensor:
    """What leaves the chosen classes alone when it is added to scores, and takes the others out."""
    return (chosen - 1) * 1e4
