"""SGC."""

from autofgl.nn.conv import SGConv
from autofgl.nn.models.base import StackedGNN
from autofgl.nn.models.spec import ModelSpec


class SGC(StackedGNN):
    """The network of `"Simplifying Graph Convolutional Networks"
    <https://arxiv.org/abs/1902.07153>`_: propagation and one linear map.

    The paper has no dropout; here the spec's applies to the input, as in the other families.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, [SGConv(spec.in_features, spec.classes, K=spec.steps)])
