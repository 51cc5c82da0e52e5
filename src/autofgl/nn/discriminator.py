"""The part of a separated network that turns embeddings into class scores."""

import torch
from torch import Tensor, nn

from autofgl.nn import init
from autofgl.nn.dropout import dropout
from autofgl.nn.linear import Linear


class Discriminator(nn.Module):
    r"""Two fully connected layers with a hyperbolic tangent between them (ASFGNN, section 5.1.4,
    L = 2).

    .. math::
        \mathbf{Y} = \tanh(\mathbf{H} \mathbf{W}_1 + \mathbf{b}_1) \mathbf{W}_2 + \mathbf{b}_2

    Args:
        hidden: Width of the embeddings and of the layer between.
        classes: Number of classes.
        dropout: Probability, on the output of the first layer.

    Shapes:
        - **input:** ``[n, hidden]``
        - **output:** ``[n, classes]``
    """

    def __init__(self, hidden: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = Linear(hidden, hidden)
        self.second = Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, embeddings: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Class scores."""
        between = torch.tanh(self.first(embeddings))
        scores: Tensor = self.second(dropout(between, self.dropout, self.training, generator))
        return scores

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters."""
        init.reset(self, generator)
