"""ARMA."""

from autofgl.nn.conv import ARMAConv
from autofgl.nn.models.base import StackedGNN, layer_sizes
from autofgl.nn.models.spec import ModelSpec


class ARMA(StackedGNN):
    """The network of `"Graph Neural Networks with Convolutional ARMA Filters"
    <https://arxiv.org/abs/1901.01343>`_. The last convolution has no activation.
    """

    def __init__(self, spec: ModelSpec) -> None:
        convs = [
            ARMAConv(
                *sizes,
                num_stacks=spec.stacks,
                num_layers=spec.stack_layers,
                shared_weights=True,
                dropout=spec.root_dropout,
            )
            for sizes in layer_sizes(spec)
        ]
        convs[-1].act = None
        super().__init__(spec, convs)
