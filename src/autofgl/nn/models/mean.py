"""The mean of several networks' predictions, as one module."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class MeanNetwork(nn.Module):
    """log p = log mean_m softmax(z_m / T_m), of networks with outputs z_m and temperatures T_m."""

    def __init__(self, networks: Sequence[nn.Module], temperatures: Sequence[float]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.temperatures = tuple(temperatures)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logarithms of the probabilities, ``[n, classes]``."""
        edges = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        each = [
            torch.log_softmax(network(x, *edges) / temperature, dim=1)
            for network, temperature in zip(self.networks, self.temperatures, strict=True)
        ]
        return torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
