"""The fixed GNNs, an architecture per file, and how to build one from its description."""

import torch
from torch import nn

from autofgl.nn.models.agnn import AGNN
from autofgl.nn.models.appnp import APPNP
from autofgl.nn.models.arma import ARMA
from autofgl.nn.models.base import GNN
from autofgl.nn.models.gat import GAT
from autofgl.nn.models.gated_graph import GatedGraph
from autofgl.nn.models.gcn import GCN
from autofgl.nn.models.gin import GIN
from autofgl.nn.models.sage import SAGE
from autofgl.nn.models.sfgnn import SFGNN
from autofgl.nn.models.sgc import SGC
from autofgl.nn.models.spec import ModelSpec

__all__ = ["GNN", "MODELS", "ModelSpec", "build", "parameter_count"]

MODELS: dict[str, type[GNN]] = {
    "agnn": AGNN,
    "appnp": APPNP,
    "arma": ARMA,
    "gat": GAT,
    "gatedgraph": GatedGraph,
    "gcn": GCN,
    "gin": GIN,
    "sage": SAGE,
    "sfgnn": SFGNN,
    "sgc": SGC,
}


def build(spec: ModelSpec, generator: torch.Generator | None = None) -> GNN:
    """The network of a spec, with freshly drawn parameters."""
    model = MODELS[spec.family](spec)
    model.reset_parameters(generator)
    return model


def parameter_count(model: nn.Module) -> int:
    """Number of trained scalars."""
    return sum(parameter.numel() for parameter in model.parameters())
