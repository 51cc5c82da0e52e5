"""Graph convolutions, an operator per file, with the definitions and parameter names of PyG."""

from autofgl.nn.conv.agnn import AGNNConv
from autofgl.nn.conv.appnp import APPNPConv
from autofgl.nn.conv.arma import ARMAConv
from autofgl.nn.conv.feast import FeaStConv
from autofgl.nn.conv.gat import GATConv
from autofgl.nn.conv.gated_graph import GatedGraphConv
from autofgl.nn.conv.gcn import GCNConv
from autofgl.nn.conv.gen import GENConv
from autofgl.nn.conv.gin import GINConv
from autofgl.nn.conv.gmm import GMMConv
from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.conv.sgc import SGConv

__all__ = [
    "AGNNConv",
    "APPNPConv",
    "ARMAConv",
    "FeaStConv",
    "GATConv",
    "GCNConv",
    "GENConv",
    "GINConv",
    "GMMConv",
    "GatedGraphConv",
    "SAGEConv",
    "SGConv",
]
