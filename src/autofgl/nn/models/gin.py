"""GIN."""

from autofgl.nn.conv import GINConv
from autofgl.nn.models.base import StackedGNN, layer_sizes
from autofgl.nn.models.spec import ModelSpec


class GIN(StackedGNN):
    """The network of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ for nodes, without batch normalisation.
    """

    def __init__(self, spec: ModelSpec) -> None:
        convs = [GINConv(*sizes, hidden_channels=spec.hidden) for sizes in layer_sizes(spec)]
        super().__init__(spec, convs)
