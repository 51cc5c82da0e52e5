"""Gated graph network."""

import torch
from torch import Tensor

from autofgl.nn.conv import GatedGraphConv
from autofgl.nn.features import NodeInput
from autofgl.nn.linear import Linear
from autofgl.nn.models.base import GNN
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure


class GatedGraph(GNN):
    """Recurrent message passing between two linear layers, after `"Gated Graph Sequence Neural
    Networks" <https://arxiv.org/abs/1511.05493>`_. The gates are its only nonlinearity.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.lin1 = Linear(spec.in_features, spec.hidden)
        self.conv = GatedGraphConv(spec.hidden, num_layers=spec.layers)
        self.lin2 = Linear(spec.hidden, spec.classes)

    def logits(
        self, x: NodeInput, structure: Structure, generator: torch.Generator | None
    ) -> Tensor:
        """Map, pass messages, map."""
        state = self.conv(self.lin1(self.dropped(x, generator)), structure)
        out: Tensor = self.lin2(self.dropped(state, generator))
        return out
