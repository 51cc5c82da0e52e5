"""CPU time of one training step of every fixed GNN, against the same network of PyG's layers.

Run ``python benchmarks/convolutions.py``. The graph has the size of Cora. Ours runs on precomputed
operators and sparse features; PyG's on an edge index and dense features, as in its examples. Both
are timed in turn, on one thread, and the smallest time of each counts. A step is a forward pass
with dropout, the loss and a backward pass.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric import nn as pyg

from autofgl.nn.features import InputFeatures
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import FAMILIES, ModelSpec
from autofgl.nn.structure import Structure
from autofgl.seeding import numpy_generator, torch_generator

NODES, EDGES, FEATURES, DENSITY = 2708, 10556, 1433, 0.013
HIDDEN, CLASSES = 64, 7

Layers = list[tuple[str, nn.Module]]


class PygNet(nn.Module):
    """Layers as PyG's examples stack them; each is dropped out before, activated after, or not."""

    def __init__(self, layers: Layers, dropout: float) -> None:
        super().__init__()
        self.kinds = [kind for kind, _ in layers]
        self.layers = nn.ModuleList(layer for _, layer in layers)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            if "dropout" in kind:
                x = functional.dropout(x, self.dropout, self.training)
            x = layer(x) if "dense" in kind else layer(x, edge_index)
            if "elu" in kind:
                x = functional.relu(x) if "relu" in kind else functional.elu(x)
        return x


def pyg_layers(family: str, dropout: float) -> Layers:
    """The layers of PyG that make up a family's default network."""
    f, h, c = FEATURES, HIDDEN, CLASSES
    arma = partial(
        pyg.ARMAConv,
        num_stacks=3,
        num_layers=2,
        shared_weights=True,
        dropout=0.25 if dropout else 0.0,
    )
    stacked: dict[str, Layers] = {
        "gcn": [("dropout relu", pyg.GCNConv(f, h)), ("dropout", pyg.GCNConv(h, c))],
        "sage": [("dropout relu", pyg.SAGEConv(f, h)), ("dropout", pyg.SAGEConv(h, c))],
        "gin": [
            ("dropout relu", pyg.GINConv(_perceptron(f, h, h))),
            ("dropout", pyg.GINConv(_perceptron(h, h, c))),
        ],
        "gat": [
            ("dropout elu", pyg.GATConv(f, h // 8, heads=8, dropout=dropout)),
            ("dropout", pyg.GATConv(h, c, concat=False, dropout=dropout)),
        ],
        "arma": [("dropout relu", arma(f, h)), ("dropout", arma(h, c, act=None))],
        "sgc": [("dropout", pyg.SGConv(f, c, K=2))],
        "appnp": [
            ("dropout dense relu", nn.Linear(f, h)),
            ("dropout dense", nn.Linear(h, c)),
            ("", pyg.APPNP(K=10, alpha=0.1)),
        ],
        "agnn": [
            ("dropout dense relu", nn.Linear(f, h)),
            ("", pyg.AGNNConv(requires_grad=False)),
            ("", pyg.AGNNConv()),
            ("dropout dense", nn.Linear(h, c)),
        ],
        "gatedgraph": [
            ("dropout dense", nn.Linear(f, h)),
            ("", pyg.GatedGraphConv(h, num_layers=2)),
            ("dropout dense", nn.Linear(h, c)),
        ],
    }
    return stacked[family]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="timed steps of each network")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x, edge_index, y = cora_sized()
    print(f"{'family':<12}{'dropout':>8}{'ours ms':>10}{'PyG ms':>10}{'ratio':>8}")
    for family in arguments.families:
        for dropout in (0.5, 0.0):
            steps = _steps(family, dropout, x, edge_index, y)
            ours, theirs = interleaved(steps, arguments.repeats)
            print(
                f"{family:<12}{dropout:>8}{ours * 1e3:>10.2f}{theirs * 1e3:>10.2f}"
                f"{ours / theirs:>8.3f}",
                flush=True,
            )


def cora_sized() -> tuple[sp.csr_array, Tensor, Tensor]:
    """Random binary features, an undirected edge index and labels."""
    random = numpy_generator(0, "convolutions")
    x = sp.random_array((NODES, FEATURES), density=DENSITY, format="csr", rng=random)
    x.data[:] = 1.0
    half = torch.from_numpy(random.integers(NODES, size=(2, EDGES // 2)))
    y = torch.from_numpy(random.integers(CLASSES, size=NODES))
    return x.astype("float32"), torch.cat([half, half.flip(0)], dim=1), y


def interleaved(steps: tuple[Callable[[], None], ...], repeats: int) -> list[float]:
    """The smallest CPU time of each step, timed in turn after a warm-up."""
    best = [float("inf")] * len(steps)
    for repeat in range(repeats + 2):
        for index, step in enumerate(steps):
            start = time.process_time()
            step()
            taken = time.process_time() - start
            if repeat >= 2:
                best[index] = min(best[index], taken)
    return best


def _steps(
    family: str, dropout: float, x: sp.csr_array, edge_index: Tensor, y: Tensor
) -> tuple[Callable[[], None], Callable[[], None]]:
    spec = ModelSpec(
        family, FEATURES, CLASSES, dropout=dropout, root_dropout=0.25 if dropout else 0.0
    )
    ours = build_network(spec, torch_generator(0, "weights"))
    theirs = PygNet(pyg_layers(family, dropout), dropout)
    features, structure = InputFeatures.from_client(x), Structure(edge_index, NODES)
    forward = partial(ours, features, structure, torch_generator(0, "dropout"))
    dense = torch.from_numpy(x.toarray())
    return (
        partial(_step, ours, forward, y),
        partial(_step, theirs, partial(theirs, dense, edge_index), y),
    )


def _step(model: nn.Module, forward: Callable[[], Tensor], y: Tensor) -> None:
    model.zero_grad()
    functional.cross_entropy(forward(), y).backward()  # type: ignore[no-untyped-call]


def _perceptron(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


if __name__ == "__main__":
    main()
