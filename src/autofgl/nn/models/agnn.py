"""AGNN."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv import AGNNConv
from autofgl.nn.features import NodeInput
from autofgl.nn.linear import Linear
from autofgl.nn.models.base import GNN
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure


class AGNN(GNN):
    """The network of `"Attention-based Graph Neural Network for Semi-supervised Learning"
    <https://arxiv.org/abs/1803.03735>`_: attention layers between two linear ones. The first
    attention layer's β is fixed.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.lin1 = Linear(spec.in_features, spec.hidden)
        self.convs = nn.ModuleList(AGNNConv(requires_grad=i > 0) for i in range(spec.layers))
        self.lin2 = Linear(spec.hidden, spec.classes)

    def logits(
        self, x: NodeInput, structure: Structure, generator: torch.Generator | None
    ) -> Tensor:
        """Map, attend layer by layer, map."""
        x = torch.relu(self.lin1(self.dropped(x, generator)))
        for conv in self.convs:
            x = conv(x, structure)
        out: Tensor = self.lin2(self.dropped(x, generator))
        return out
