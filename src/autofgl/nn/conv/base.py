"""What all convolutions have in common."""

from torch import Tensor, nn

from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import glorot, reset_children
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class Convolution(nn.Module):
    """A layer that maps node features ``[n, C]`` along the edges of a graph.

    Sparse features are used as such where the layer begins with a linear map. A convolution without
    randomness of its own implements :meth:`convolve`, one with dropout :meth:`forward`. Parameters
    are empty until :meth:`reset_parameters` draws them or a state is loaded, so that making a
    module never touches a random state.
    """

    def forward(
        self,
        x: NodeInput,
        structure: Structure,
        generator: Rng = None,  # noqa: ARG002
    ) -> Tensor:
        """Convolve; the generator drives a dropout."""
        return self.convolve(x, structure)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The layer's equation."""
        raise NotImplementedError

    def reset_parameters(self, generator: Rng = None) -> None:
        """Draw the parts' parameters, then the layer's own: Glorot weights, zero bias."""
        reset_children(self, generator)
        for name, parameter in self.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(parameter)
            else:
                glorot(parameter, generator)
