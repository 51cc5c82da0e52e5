import warnings

import pytest
import torch
from torch import Tensor

with warnings.catch_warnings():
    # At import, PyG scripts a class, which torch has deprecated.
    warnings.filterwarnings("ignore", message="`torch.jit.script", category=DeprecationWarning)
    import torch_geometric.nn  # noqa: F401


def _random_edges(nodes: int, edges: int, seed: int) -> Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))


#: Edge index and number of nodes; the last nodes of ``isolated`` have no edges.
GRAPHS: dict[str, tuple[Tensor, int]] = {
    "directed": (_random_edges(9, 25, 1), 9),
    "isolated": (_random_edges(7, 15, 2), 11),
    "undirected": (
        torch.tensor([[0, 1, 1, 2, 2, 0, 3, 2, 4, 4], [1, 0, 2, 1, 0, 2, 2, 3, 4, 4]]),
        6,
    ),
    "edgeless": (torch.empty(2, 0, dtype=torch.int64), 4),
}


@pytest.fixture(params=list(GRAPHS))
def graph(request: pytest.FixtureRequest) -> tuple[Tensor, int]:
    return GRAPHS[request.param]


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)
