"""GraphSAGE."""

from autofgl.nn.conv import SAGEConv
from autofgl.nn.models.base import StackedGNN, layer_sizes
from autofgl.nn.models.spec import ModelSpec


class SAGE(StackedGNN):
    """GraphSAGE with the mean aggregator over all neighbours, from `"Inductive Representation
    Learning on Large Graphs" <https://arxiv.org/abs/1706.02216>`_.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, [SAGEConv(*sizes) for sizes in layer_sizes(spec)])
