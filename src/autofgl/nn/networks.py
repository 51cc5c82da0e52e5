"""Networks by their description, fixed or found."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import nn

from autofgl.nn.found import FoundNetwork, FoundSpec, build_found
from autofgl.nn.models import MODELS, ModelSpec, build

NetworkSpec: TypeAlias = ModelSpec | FoundSpec


def spec_from_json(data: Mapping[str, Any]) -> NetworkSpec:
    """The description that ``to_json`` wrote.

    Raises:
        UserError: It is of no known family, or malformed.
    """
    if data.get("family") == "found":
        return FoundSpec.from_json(data)
    return ModelSpec.from_json(data)


def build_network(spec: NetworkSpec, generator: torch.Generator | None = None) -> nn.Module:
    """The network of a description, with freshly drawn parameters."""
    if isinstance(spec, FoundSpec):
        return build_found(spec, generator)
    return build(spec, generator)


def empty_network(spec: NetworkSpec) -> nn.Module:
    """The network of a description, for parameters that are loaded."""
    return FoundNetwork(spec) if isinstance(spec, FoundSpec) else MODELS[spec.family](spec)


def in_words(spec: NetworkSpec) -> str:
    """A network on one line."""
    if isinstance(spec, FoundSpec):
        return spec.genotype
    layers = "1 layer" if spec.layers == 1 else f"{spec.layers} layers"
    return f"{spec.family}, {layers}, {spec.in_features} → {spec.hidden} → {spec.classes}"
