"""What the fixed GNNs have in common."""

from collections.abc import Callable, Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn import init
from autofgl.nn.conv.base import Convolution
from autofgl.nn.dropout import dropout
from autofgl.nn.features import NodeInput
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure

#: The choices of :data:`autofgl.nn.models.spec.ACTIVATIONS`.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": functional.elu,
}


class GNN(nn.Module):
    """A network from node features and edges to class scores.

    It runs on plain tensors, as any module on PyG data, and on precomputed input features and
    structures, which is what training should use: a structure made on the fly is sorted each time.
    Parameters are empty until :meth:`reset_parameters` draws them or a state is loaded.

    Args:
        spec: The sizes.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec

    def forward(
        self, x: NodeInput, edges: Tensor | Structure, generator: torch.Generator | None = None
    ) -> Tensor:
        """Class scores (logits) ``[n, classes]``.

        Args:
            x: Node features ``[n, in_features]``, a tensor or input features.
            edges: An edge index ``[2, E]`` or a structure.
            generator: Source of the dropout's randomness; torch's default one if None.
        """
        return self.logits(x, Structure.of(edges, x.shape[0], x.dtype), generator)

    def logits(
        self, x: NodeInput, structure: Structure, generator: torch.Generator | None
    ) -> Tensor:
        """The network itself."""
        raise NotImplementedError

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters."""
        init.reset(self, generator)

    def dropped(self, x: NodeInput, generator: torch.Generator | None) -> NodeInput:
        """Dropout as the spec has it."""
        return dropout(x, self.spec.dropout, self.training, generator)


class StackedGNN(GNN):
    """Convolutions one after the other, with dropout before each and an activation between.

    Args:
        spec: The sizes.
        convs: The convolutions.
        activation: Applied after all of them but the last.
    """

    def __init__(
        self,
        spec: ModelSpec,
        convs: Iterable[Convolution],
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__(spec)
        self.convs = nn.ModuleList(convs)
        self.activation = activation

    def logits(
        self, x: NodeInput, structure: Structure, generator: torch.Generator | None
    ) -> Tensor:
        """Convolve layer by layer."""
        *hidden, last = self.convs
        for conv in hidden:
            x = self.activation(conv(self.dropped(x, generator), structure, generator))
        out: Tensor = last(self.dropped(x, generator), structure, generator)
        return out


def activation_of(spec: ModelSpec) -> Callable[[Tensor], Tensor]:
    """What the spec has between its layers."""
    return _ACTIVATIONS[spec.activation or "relu"]


def layer_sizes(spec: ModelSpec) -> list[tuple[int, int]]:
    """Input and output width of each of the spec's layers."""
    widths = [spec.in_features, *[spec.hidden] * (spec.layers - 1), spec.classes]
    return list(pairwise(widths))
