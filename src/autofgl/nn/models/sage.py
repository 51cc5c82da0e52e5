"""GraphSAGE."""

from autofgl.nn.conv import SAGEConv
from autofgl.nn.models.base import StackedGNN, activation_of, layer_sizes
from autofgl.nn.models.spec import ModelSpec


class SAGE(StackedGNN):
    """GraphSAGE with the mean aggregator over all neighbours, from `"Inductive Representation
    Learning on Large Graphs" <https://arxiv.org/abs/1706.02216>`_.
    """

    def __init__(self, spec: ModelSpec) -> None:
        convs = [SAGEConv(*sizes) for sizes in layer_sizes(spec)]
        super().__init__(spec, convs, activation_of(spec))
