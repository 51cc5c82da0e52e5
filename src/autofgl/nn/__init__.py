"""Convolutions and graph networks that run on precomputed sparse operators."""

from autofgl.nn.features import InputFeatures
from autofgl.nn.models import GNN, MODELS, ModelSpec, build, parameter_count
from autofgl.nn.structure import Structure

__all__ = [
    "GNN",
    "MODELS",
    "InputFeatures",
    "ModelSpec",
    "Structure",
    "build",
    "parameter_count",
]
