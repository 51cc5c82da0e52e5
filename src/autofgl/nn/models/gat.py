"""GAT."""

from torch.nn import functional

from autofgl.nn.conv import GATConv
from autofgl.nn.models.base import StackedGNN
from autofgl.nn.models.spec import ModelSpec


class GAT(StackedGNN):
    """The network of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_: several
    heads side by side in the hidden layers, one in the last.
    """

    def __init__(self, spec: ModelSpec) -> None:
        wide = spec.hidden // spec.heads
        convs, width = [], spec.in_features
        for _ in range(spec.layers - 1):
            convs.append(GATConv(width, wide, heads=spec.heads, dropout=spec.dropout))
            width = spec.hidden
        convs.append(GATConv(width, spec.classes, concat=False, dropout=spec.dropout))
        super().__init__(spec, convs, activation=functional.elu)
