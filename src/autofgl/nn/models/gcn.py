"""GCN."""

from autofgl.nn.conv import GCNConv
from autofgl.nn.models.base import StackedGNN, activation_of, layer_sizes
from autofgl.nn.models.spec import ModelSpec


class GCN(StackedGNN):
    """The network of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_.
    """

    def __init__(self, spec: ModelSpec) -> None:
        convs = [GCNConv(*sizes) for sizes in layer_sizes(spec)]
        super().__init__(spec, convs, activation_of(spec))
