"""Layers from outside the package, such as PyG's, as convolutions of searched networks."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autofgl import plugins
from autofgl.errors import UserError, one_line
from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput, as_tensor
from autofgl.nn.kernels.operation import Rng, global_randomness
from autofgl.nn.structure import Structure


class OwnConvolution(Convolution):
    """A layer that is built as ``Layer(width, width)`` and called as ``layer(x, edge_index)``."""

    def __init__(self, home: str, width: int) -> None:
        super().__init__()
        self._home, self._width = home, width
        with global_randomness(None):
            self.layer = self._make()

    def forward(self, x: NodeInput, structure: Structure, generator: Rng = None) -> Tensor:
        """The layer itself; it draws from torch's own generator."""
        if not self.training:
            return self._call(as_tensor(x), structure.edge_index)
        with global_randomness(generator):
            return self._call(as_tensor(x), structure.edge_index)

    def reset_parameters(self, generator: Rng = None) -> None:
        """As the layer itself draws them when it is made."""
        with global_randomness(generator):
            self.layer.load_state_dict(self._make().state_dict())

    def _make(self) -> nn.Module:
        make = plugins.find("layer", self._home)
        try:
            with torch.device("cpu"):
                layer = make(self._width, self._width)
                ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
                with torch.no_grad():
                    out = layer.float().eval()(torch.ones(3, self._width), ends)
        except Exception as error:  # whatever somebody's code raises
            what = f"layer '{self._home}' does not work as Layer({self._width}, {self._width})"
            said = f"{what} on (x, edge_index): {type(error).__name__}: {error}"
            raise UserError(one_line(said, 500)) from error
        if not isinstance(out, Tensor) or out.shape != (3, self._width):
            shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            wide = f"[3, {self._width}]"
            raise UserError(f"layer '{self._home}' gives {shape} for 3 nodes, and not {wide}")
        assert isinstance(layer, nn.Module)
        return layer.train()

    def _call(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.layer(x, edge_index)
        return out


def own_layer(home: str) -> Callable[[int], Convolution]:
    """Makes the layer of a home, by its width."""
    return lambda width: OwnConvolution(home, width)
