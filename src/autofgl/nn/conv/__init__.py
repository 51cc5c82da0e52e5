"""Graph convolutions with the definitions and parameter names of PyG.

They map ``[n, in_channels]`` to ``[n, out_channels]``, and have what the networks and the search
use of PyG's options. :data:`CONVOLUTIONS` has the layer types of searched networks. A new one, or
one with other settings (more hops, more heads), is a line there and its name in
:data:`autofgl.nn.space.LAYER_TYPES`; a search over it is ``Space(types=(*PAPER_TYPES, "name"))``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autofgl.nn.conv.agnn import AGNNConv
from autofgl.nn.conv.appnp import APPNPConv
from autofgl.nn.conv.arma import ARMAConv
from autofgl.nn.conv.base import Convolution
from autofgl.nn.conv.feast import FeaStConv
from autofgl.nn.conv.gat import GATConv
from autofgl.nn.conv.gated_graph import GatedGraphConv
from autofgl.nn.conv.gcn import GCNConv
from autofgl.nn.conv.gen import GENConv
from autofgl.nn.conv.gin import GINConv
from autofgl.nn.conv.gmm import GMMConv
from autofgl.nn.conv.own import own_layer
from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.conv.sgc import SGConv


@dataclass(frozen=True)
class LayerType:
    """A type of layer of a searched network: its convolution, by the width of input and output.

    It looks as far as its hops: nodes at a greater distance do not enter a node's output. A layer
    *per edge* computes weights for every edge and input; inputs side by side then need a longer
    list of edges each, and gain less.
    """

    make: Callable[[int], Convolution]
    hops: int = 1
    per_edge: bool = False
    #: What a training pass keeps for the backward pass, besides input and output: numbers for each
    #: node, over the width, and for each edge. For planning; a test compares it with the truth.
    held: float = 1.0
    held_edge: float = 0.0
    #: Whether it is computed on the whole graph, one input at a time: how far a layer from outside
    #: looks, and what it makes of nodes without all their edges, is not known.
    whole: bool = False


def _gat(width: int) -> Convolution:
    heads = math.gcd(8, width)
    return GATConv(width, width // heads, heads=heads)


#: FL-AGCNS, Table 1, ``LType``. The paper gives no settings. They are those of the authors' code,
#: but for GAT, which has the eight concatenated heads of its own paper instead of six averaged
#: ones (``gat6``, six times as expensive), and for GIN and GEN, which have no batch normalization.
CONVOLUTIONS: dict[str, LayerType] = {
    "gat": LayerType(_gat, per_edge=True, held=1.4, held_edge=24),
    "gin": LayerType(lambda width: GINConv(width, width, train_eps=True), held=2),
    "sage": LayerType(lambda width: SAGEConv(width, width)),
    "gcn": LayerType(lambda width: GCNConv(width, width)),
    "sgc": LayerType(lambda width: SGConv(width, width, K=2), hops=2),
    "appnp": LayerType(lambda _: APPNPConv(K=10, alpha=0.1), hops=10, held=0),
    "agnn": LayerType(lambda _: AGNNConv(), per_edge=True, held=1.1, held_edge=2),
    "arma": LayerType(lambda width: ARMAConv(width, width, num_stacks=2), held=3.4),
    "feast": LayerType(
        lambda width: FeaStConv(width, width, heads=2), per_edge=True, held=2.1, held_edge=2
    ),
    "gen": LayerType(GENConv, held=9.1),
    "gmm": LayerType(lambda width: GMMConv(width, width, kernel_size=4), held=3.3, held_edge=25),
    "gatedgraph": LayerType(lambda width: GatedGraphConv(width, num_layers=3), hops=3, held=19),
    # Beyond the paper.
    "gat6": LayerType(
        lambda width: GATConv(width, width, heads=6, concat=False),
        per_edge=True,
        held=6.4,
        held_edge=18,
    ),
    "sgc4": LayerType(lambda width: SGConv(width, width, K=4), hops=4),
    "appnp3": LayerType(lambda _: APPNPConv(K=3, alpha=0.1), hops=3, held=0),
    "gatedgraph1": LayerType(lambda width: GatedGraphConv(width, num_layers=1), held=5.4),
}


def layer_type(name: str, own: Mapping[str, str] | None = None) -> LayerType:
    """The layer type of a name, one of ours or one from outside, given by name and home."""
    if own and name in own:
        return LayerType(own_layer(own[name]), whole=True, held=8, held_edge=8)
    return CONVOLUTIONS[name]
