"""Networks of PyG, as a user hands them over, against our own of the same shape, federated on Cora.

Five models of ``torch_geometric.nn`` and ours, METIS clients, several seeds; mean test accuracy and
its standard deviation, and the difference in points. Our family ``gin`` has no BatchNorm: PyG's GIN
with it (``gin``) stands against our convolution with the same BatchNorm, and PyG's without it
(``gin-plain``) against the family, whose last perceptron is wider. With BatchNorm another draw of
the initial weights is worth up to ten points here, so that both begin with the same.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/own_models.py --rounds 100 --seeds 3
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GAT, GCN, GIN, GraphSAGE
from torch_geometric.nn import Linear as PyGLinear

import autofgl
from autofgl.nn.conv.gin import GINConv
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.structure import Structure

HIDDEN, DROPOUT = 64, 0.5


class PredictThenPropagate(nn.Module):
    """PyG's APPNP layer behind a perceptron, as its own example has it."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(in_features, HIDDEN), nn.Linear(HIDDEN, classes)
        self.propagate = APPNP(K=10, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Predict, then propagate."""
        x = nn.functional.dropout(x, DROPOUT, self.training)
        x = nn.functional.dropout(torch.relu(self.lin1(x)), DROPOUT, self.training)
        out: Tensor = self.propagate(self.lin2(x), edge_index)
        return out


class WithInputDropout(nn.Module):
    """A PyG model with dropout on its features too, as the papers and our networks have it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Class scores."""
        out: Tensor = self.model(nn.functional.dropout(x, DROPOUT, self.training), edge_index)
        return out


def gcn(in_features: int, classes: int) -> nn.Module:
    """PyG's GCN."""
    return WithInputDropout(GCN(in_features, HIDDEN, 2, classes, dropout=DROPOUT))


def gat(in_features: int, classes: int) -> nn.Module:
    """PyG's GAT with eight heads."""
    sizes = (in_features, HIDDEN, 2, classes)
    return WithInputDropout(GAT(*sizes, heads=8, dropout=DROPOUT, act="elu"))


def sage(in_features: int, classes: int) -> nn.Module:
    """PyG's GraphSAGE."""
    return WithInputDropout(GraphSAGE(in_features, HIDDEN, 2, classes, dropout=DROPOUT))


def gin(in_features: int, classes: int) -> nn.Module:
    """PyG's GIN with BatchNorm."""
    sizes = (in_features, HIDDEN, 2, classes)
    return WithInputDropout(GIN(*sizes, dropout=DROPOUT, norm="batch_norm"))


def plain_gin(in_features: int, classes: int) -> nn.Module:
    """PyG's GIN without BatchNorm."""
    return WithInputDropout(GIN(in_features, HIDDEN, 2, classes, dropout=DROPOUT))


def maps(network: nn.Module) -> list[Any]:
    """The linear maps of a network, in order."""
    return [one for one in network.modules() if isinstance(one, Linear | PyGLinear)]


class NormedGIN(nn.Module):
    """Our GIN convolution with BatchNorm where PyG's model has it: in perceptrons, and between; the
    initial weights are those that PyG's model draws.
    """

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        theirs = maps(gin(in_features, classes))
        self.first, self.last = GINConv(in_features, HIDDEN), GINConv(HIDDEN, classes)
        for conv, width in ((self.first, HIDDEN), (self.last, classes)):
            conv.reset_parameters()
            conv.nn.insert(1, nn.BatchNorm1d(width))
        self.norm = nn.BatchNorm1d(HIDDEN)
        with torch.no_grad():
            for own, other in zip(maps(self), theirs, strict=True):
                own.weight.copy_(other.weight.T)
                own.bias.copy_(other.bias)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Class scores."""
        structure = Structure(edge_index, len(x))
        x = self.first(nn.functional.dropout(x, DROPOUT, self.training), structure)
        x = nn.functional.dropout(torch.relu(self.norm(x)), DROPOUT, self.training)
        out: Tensor = self.last(x, structure)
        return out


Model: TypeAlias = str | Callable[[int, int], nn.Module]
#: Ours and PyG's, by name.
MODELS: dict[str, tuple[Model, Model]] = {
    "gcn": ("gcn", gcn), "gat": ("gat", gat), "sage": ("sage", sage), "gin": (NormedGIN, gin),
    "gin-plain": ("gin", plain_gin), "appnp": ("appnp", PredictThenPropagate),
}  # fmt: skip


def accuracies(model: Model, rounds: int, seeds: int) -> list[float]:
    """Test accuracies of a model, by seed."""
    found = []
    for seed in range(seeds):
        clients = autofgl.partition(autofgl.load("cora", seed=seed), clients=3, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            result = autofgl.run("fedavg", clients, seed=seed, out=out, model=model, rounds=rounds)
            found.append(result.test_accuracy)
    return found


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    args = parser.parse_args()
    print("| model | ours | PyG's | difference | CPU seconds |\n|---|---|---|---|---|")
    for name in args.models:
        begin = time.process_time()
        ours, theirs = (accuracies(one, args.rounds, args.seeds) for one in MODELS[name])
        texts = [
            f"{100 * statistics.mean(one):.2f} ± {100 * statistics.pstdev(one):.2f}"
            for one in (ours, theirs)
        ]
        gap = 100 * (statistics.mean(theirs) - statistics.mean(ours))
        seconds = time.process_time() - begin
        print(f"| {name} | {texts[0]} | {texts[1]} | {gap:+.2f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
