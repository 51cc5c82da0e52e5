"""What all networks have in common."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.nn.features import InputFeatures, NodeInput, Scaling
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import reset_children
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.models.spec import NetworkSpec
from autofgl.nn.structure import Structure

#: The activations of :mod:`autofgl.nn.space` and :mod:`autofgl.nn.models.spec`.
ACTIVATION_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": functional.elu,
    "softmax": partial(torch.softmax, dim=-1),
    "identity": lambda x: x,
}


class GNN(nn.Module):
    """A network from node features and edges to class scores.

    It runs on plain tensors, as any module on PyG data, and on precomputed input features and
    structures, which is what training should use: a structure made on the fly is sorted each time.
    Parameters are empty until :meth:`reset_parameters` draws them or a state is loaded.
    """

    spec: NetworkSpec
    #: How features were scaled that the network was trained on.
    scales_features: Scaling = False

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec

    def forward(
        self,
        x: NodeInput,
        edges: Tensor | Structure,
        edge_weight: Tensor | None = None,
        *,
        generator: Rng = None,
    ) -> Tensor:
        """Class scores ``[n, classes]`` of node features ``[n, F]``.

        An edge index ``[2, E]``, with weights ``[E]`` if there are any, does for a structure.
        Together with plain features it is data as it came, so that features are scaled as they
        were in training.
        """
        if isinstance(edges, Tensor):
            edges = Structure(edges, x.shape[0], x.dtype, edge_weight)
            if self.scales_features and isinstance(x, Tensor):
                x = InputFeatures(x).scaled(self.scales_features)
        elif edge_weight is not None:
            raise TypeError("a structure has its own weights")
        edges.begin()
        return self.logits(x, edges, generator)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """The network itself."""
        raise NotImplementedError

    def reset_parameters(self, generator: Rng = None) -> None:
        """Draw all parameters."""
        reset_children(self, generator)

    @property
    def tracked_buffers(self) -> tuple[str, ...]:
        """Names of buffers that training changes, such as running statistics; ours have none."""
        return ()

    def fingerprint(self) -> str:
        """What tells networks of unlike parts apart, where a description does not; empty if it
        does.
        """
        return ""

    def as_module(self) -> nn.Module:
        """The network as it is handed to a user."""
        return self

    def apply_dropout(self, x: NodeInput, generator: Rng) -> NodeInput:
        """Dropout as the spec has it."""
        return dropout(x, self.spec.dropout, self.training, generator)
