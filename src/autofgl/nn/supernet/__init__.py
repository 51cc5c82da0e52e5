"""One weight set for all networks of a search space, and how to train and measure many at once."""

from autofgl.nn.supernet.field import Field
from autofgl.nn.supernet.network import SuperNet

__all__ = ["Field", "SuperNet"]
