"""APPNP."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv import APPNPConv
from autofgl.nn.features import NodeInput
from autofgl.nn.linear import Linear
from autofgl.nn.models.base import GNN, activation_of, layer_sizes
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure


class APPNP(GNN):
    """The network of `"Predict then Propagate: Graph Neural Networks meet Personalized PageRank"
    <https://arxiv.org/abs/1810.05997>`_: a perceptron, then propagation of its predictions.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.lins = nn.ModuleList(Linear(*sizes) for sizes in layer_sizes(spec))
        self.activation = activation_of(spec)
        self.prop = APPNPConv(K=spec.steps, alpha=spec.teleport)

    def logits(
        self, x: NodeInput, structure: Structure, generator: torch.Generator | None
    ) -> Tensor:
        """Predict, then propagate."""
        *hidden, last = self.lins
        for lin in hidden:
            x = self.activation(lin(self.dropped(x, generator)))
        out: Tensor = self.prop(last(self.dropped(x, generator)), structure)
        return out
