"""One weight set for all networks of a search space, and how to train and measure many at once."""

from autofgl.nn.supernet.network import SuperNet
from autofgl.nn.supernet.receptive_field import ReceptiveField

__all__ = ["ReceptiveField", "SuperNet"]
