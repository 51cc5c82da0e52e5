"""The stand-alone network of a genotype, the one that is trained and kept after a search."""

import torch
from torch import Tensor, nn

from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS, GNN
from autofgl.nn.models.spec import SearchedSpec
from autofgl.nn.space import fused_layers
from autofgl.nn.structure import Structure


class SearchedNetwork(GNN):
    r"""A network of A(L), FL-AGCNS section 3.1.

    Stage 1 is a fully connected layer with the activation IS, stage 2 the tree of convolutions
    with the mean of their outputs, stage 3 a fully connected layer with the activation OS. There
    is no activation between convolutions. Without any layer, stage 2 hands on stage 1's output;
    stage 3 has the width of the classes (the paper says 64).
    """

    spec: SearchedSpec

    def __init__(self, spec: SearchedSpec) -> None:
        super().__init__(spec)
        self.genotype = spec.parsed()
        self.input = Linear(spec.in_features, spec.hidden)
        self.convs = nn.ModuleList(
            CONVOLUTIONS[layer.type].make(spec.hidden) for layer in self.genotype.layers
        )
        self.output = Linear(spec.hidden, spec.classes)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """The three stages; the scores are those after the output activation."""
        start = self.input(self.apply_dropout(x, generator))
        outputs = [ACTIVATION_FUNCTIONS[self.genotype.input](start)]
        for conv, layer in zip(self.convs, self.genotype.layers, strict=True):
            inputs = outputs[layer.previous or 0]
            inputs = dropout(inputs, self.spec.layer_dropout, self.training, generator)
            outputs.append(conv(inputs, structure, generator))
        chosen = [outputs[index] for index in fused_layers(self.genotype, self.spec.fusion)]
        fused = chosen[0] if len(chosen) == 1 else torch.stack(chosen).mean(0)
        out = self.output(self.apply_dropout(fused, generator))
        return ACTIVATION_FUNCTIONS[self.genotype.output](out)
