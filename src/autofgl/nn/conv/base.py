"""What all convolutions have in common."""

from torch import Tensor, nn

from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.linear import reset_children
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.structure import Structure


class Convolution(nn.Module):
    """A layer that maps node features along the edges of a graph.

    A convolution without randomness of its own implements :meth:`convolve`, one with dropout
    :meth:`forward`. Parameters are empty until :meth:`reset_parameters` draws them or a state is
    loaded, so that making a module never touches a random state.
    """

    def forward(
        self,
        x: NodeInput,
        structure: Structure,
        generator: Rng = None,  # noqa: ARG002
    ) -> Tensor:
        """Convolve.

        Args:
            x: Features ``[n, C]``; sparse ones are used as such where the layer begins with a
                linear map.
            structure: The graph.
        """
        return self.convolve(x, structure)

    def convolve(self, x: NodeInput, structure: Structure) -> Tensor:
        """The layer's equation."""
        raise NotImplementedError

    def reset_parameters(self, generator: Rng = None) -> None:
        """Draw all parameters."""
        reset_children(self, generator)
