"""What a searched network may be made of: the one place to add a convolution or an activation.

A new kind of layer, or a known one with other settings (more hops, more heads), is one line in
``CONVOLUTIONS``; a search over it is ``Space(types=(*PAPER_TYPES, "name"))``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from autofgl.nn.conv import (
    AGNNConv,
    APPNPConv,
    ARMAConv,
    FeaStConv,
    GATConv,
    GatedGraphConv,
    GCNConv,
    GENConv,
    GINConv,
    GMMConv,
    SAGEConv,
    SGConv,
)
from autofgl.nn.conv.base import Convolution


@dataclass(frozen=True)
class Choice:
    """A kind of layer.

    Attributes:
        make: Its convolution, from the width of input and output.
        hops: How far it looks: nodes at a greater distance do not enter a node's output.
        per_edge: Whether it computes weights for every edge and input. Inputs side by side then
            need a longer list of edges each, and gain less.
    """

    make: Callable[[int], Convolution]
    hops: int = 1
    per_edge: bool = False


def _gat(width: int) -> Convolution:
    heads = math.gcd(8, width)
    return GATConv(width, width // heads, heads=heads)


#: FL-AGCNS, Table 1, ``LType``. The paper gives no settings. They are those of the authors' code,
#: but for GAT, which has the eight concatenated heads of its own paper instead of six averaged
#: ones (``gat6``, six times as dear), and for GIN and GEN, which have no batch normalisation.
CONVOLUTIONS: dict[str, Choice] = {
    "gat": Choice(_gat, per_edge=True),
    "gin": Choice(lambda width: GINConv(width, width, train_eps=True)),
    "sage": Choice(lambda width: SAGEConv(width, width)),
    "gcn": Choice(lambda width: GCNConv(width, width)),
    "sgc": Choice(lambda width: SGConv(width, width, K=2), hops=2),
    "appnp": Choice(lambda _: APPNPConv(K=10, alpha=0.1), hops=10),
    "agnn": Choice(lambda _: AGNNConv(), per_edge=True),
    "arma": Choice(lambda width: ARMAConv(width, width, num_stacks=2)),
    "feast": Choice(lambda width: FeaStConv(width, width, heads=2), per_edge=True),
    "gen": Choice(lambda width: GENConv(width, width)),
    "gmm": Choice(lambda width: GMMConv(width, width, kernel_size=4), per_edge=True),
    "gatedgraph": Choice(lambda width: GatedGraphConv(width, num_layers=3), hops=3),
    # Beyond the paper.
    "gat6": Choice(lambda width: GATConv(width, width, heads=6, concat=False), per_edge=True),
    "sgc4": Choice(lambda width: SGConv(width, width, K=4), hops=4),
    "appnp3": Choice(lambda _: APPNPConv(K=3, alpha=0.1), hops=3),
    "gatedgraph1": Choice(lambda width: GatedGraphConv(width, num_layers=1)),
}

#: The twelve of FL-AGCNS.
PAPER_TYPES = tuple(CONVOLUTIONS)[:12]


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def _identity(x: Tensor) -> Tensor:
    return x


#: FL-AGCNS, Table 1, ``IS`` and ``OS``.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "softmax": _softmax,
    "identity": _identity,
}
