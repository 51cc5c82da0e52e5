"""The stand-alone network of a genotype, the one that is trained and kept after a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from autofgl.errors import UserError, unknown_name
from autofgl.nn import init
from autofgl.nn.choices import ACTIVATIONS, CONVOLUTIONS
from autofgl.nn.dropout import dropout
from autofgl.nn.features import NodeInput
from autofgl.nn.linear import Linear
from autofgl.nn.space import Genotype, Space
from autofgl.nn.structure import Structure

#: Which layers' outputs are averaged: all existing ones, or those that feed no other layer.
Fusion = Literal["all", "leaves"]


@dataclass(frozen=True)
class FoundSpec:
    """Everything about a found network but its weights.

    Attributes:
        genotype: Text form of the architecture.
        in_features: Width of the node features.
        classes: Number of classes.
        hidden: Width between input and output stage.
        dropout: Dropout on the node features and on the fused output of the layers, that is
            before both fully connected layers.
        layer_dropout: Dropout on the input of every convolution.
        fusion: Which layers' outputs are averaged.
        family: Tells this description from that of a fixed network.
    """

    genotype: str
    in_features: int
    classes: int
    hidden: int = 64
    dropout: float = 0.0
    layer_dropout: float = 0.0
    fusion: Fusion = "all"
    family: str = "found"

    def __post_init__(self) -> None:
        if self.family != "found":
            raise UserError(f"a found network is of the family 'found', not '{self.family}'")
        object.__setattr__(self, "genotype", str(self.parsed()))
        for name in ("in_features", "classes", "hidden"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"found network: {name} must be a positive integer, not {value!r}")
        check_fusion(self.fusion)
        for name in ("dropout", "layer_dropout"):
            check_probability(name, getattr(self, name))

    def parsed(self) -> Genotype:
        """The genotype, with exactly its existing layers."""
        layers = len(self.genotype.split("|")[1].split()) if self.genotype.count("|") == 2 else 0
        space = Space(layers, tuple(CONVOLUTIONS), tuple(ACTIVATIONS))
        genotype = space.parse(self.genotype)
        return Genotype(genotype.input, genotype.existing, genotype.output)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for files and payloads."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FoundSpec:
        """The spec that :meth:`to_json` wrote; keys with a default may be missing."""
        names = [field.name for field in fields(cls)]
        for key in data:
            if key not in names:
                raise unknown_name("model option", str(key), names)
        for key in ("genotype", "in_features", "classes"):
            if key not in data:
                raise UserError(f"model description lacks '{key}'")
        return cls(**data)


class FoundNetwork(nn.Module):
    r"""A network of A(L), FL-AGCNS section 3.1.

    Stage 1 is a fully connected layer with the activation IS, stage 2 the tree of convolutions
    with the mean of their outputs, stage 3 a fully connected layer with the activation OS. There
    is no activation between convolutions. Without any layer, stage 2 hands on stage 1's output;
    stage 3 has the width of the classes (the paper says 64).

    Args:
        spec: The architecture and the sizes.
    """

    def __init__(self, spec: FoundSpec) -> None:
        super().__init__()
        self.spec = spec
        self.genotype = spec.parsed()
        self.input = Linear(spec.in_features, spec.hidden)
        self.convs = nn.ModuleList(
            CONVOLUTIONS[layer.type].make(spec.hidden) for layer in self.genotype.layers
        )
        self.output = Linear(spec.hidden, spec.classes)

    def forward(
        self, x: NodeInput, edges: Tensor | Structure, generator: torch.Generator | None = None
    ) -> Tensor:
        """Class scores ``[n, classes]``, after the output activation.

        Args:
            x: Node features ``[n, in_features]``, a tensor or input features.
            edges: An edge index ``[2, E]`` or a structure.
            generator: Source of the dropout's randomness; torch's default one if None.
        """
        structure = Structure.of(edges, x.shape[0], x.dtype)
        start = self.input(self._dropped(x, self.spec.dropout, generator))
        outputs = [ACTIVATIONS[self.genotype.input](start)]
        for conv, layer in zip(self.convs, self.genotype.layers, strict=True):
            inputs = outputs[layer.previous or 0]
            inputs = self._dropped(inputs, self.spec.layer_dropout, generator)
            outputs.append(conv(inputs, structure, generator))
        chosen = [outputs[index] for index in fused_layers(self.genotype, self.spec.fusion)]
        fused = chosen[0] if len(chosen) == 1 else torch.stack(chosen).mean(0)
        out = self.output(self._dropped(fused, self.spec.dropout, generator))
        return ACTIVATIONS[self.genotype.output](out)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters."""
        init.reset(self, generator)

    def _dropped(self, x: Any, p: float, generator: torch.Generator | None) -> Any:
        return dropout(x, p, self.training, generator)


def build_found(spec: FoundSpec, generator: torch.Generator | None = None) -> FoundNetwork:
    """The network of a spec, with freshly drawn parameters."""
    network = FoundNetwork(spec)
    network.reset_parameters(generator)
    return network


def fused_layers(genotype: Genotype, fusion: Fusion) -> tuple[int, ...]:
    """Indices of the outputs that are averaged; stage 1's, index 0, where there is no layer."""
    if not genotype.depth:
        return (0,)
    return tuple(range(1, genotype.depth + 1)) if fusion == "all" else genotype.leaves()


def check_fusion(fusion: str) -> None:
    """Refuse an unknown fusion."""
    if fusion not in get_args(Fusion):
        raise unknown_name("fusion", fusion, get_args(Fusion))


def check_probability(name: str, value: object) -> None:
    """Refuse what is no probability."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0.0 <= float(str(value)) <= 1.0):
        raise UserError(f"found network: {name} must lie in [0, 1], not {value!r}")
