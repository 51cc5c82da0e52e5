"""The mean of several networks' predictions, as one module."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class MeanNetwork(nn.Module):
    """log p = log mean_m softmax((z_m + s_m) / T_m), of networks with outputs z_m, temperatures T_m
    and shifts s_m of the classes (none: 0).
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        temperatures: Sequence[float],
        shifts: Sequence[Sequence[float]] = (),
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.temperatures = tuple(temperatures)
        self.shifts = tuple(shifts or [()] * len(temperatures))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logarithms of the probabilities, ``[n, classes]``."""
        edges = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        each = [
            torch.log_softmax(shifted(network(x, *edges), shift) / temperature, dim=1)
            for network, temperature, shift in zip(
                self.networks, self.temperatures, self.shifts, strict=True
            )
        ]
        return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))


def shifted(logits: Tensor, shift: Sequence[float]) -> Tensor:
    """Outputs ``[n, classes]`` with a shift of each class, if there is one."""
    return logits + logits.new_tensor(shift) if len(shift) else logits


def mean_network(networks: Sequence[nn.Module], mean: Mapping[str, Any] | None) -> nn.Module:
    """The mean that a run's description has of networks; without one a network as it is."""
    if mean is None:
        return networks[0]
    return MeanNetwork(networks, mean["temperatures"], mean.get("shifts", ()))
