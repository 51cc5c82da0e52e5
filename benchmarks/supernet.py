"""CPU time of a generation's network work for one client of Cora, against the naive way.

Run ``python benchmarks/supernet.py``. A generation is E_weight = 5 gradients of the population's
training loss and one evaluation on the validation nodes. *Ours* computes the population as one on
a SuperNet; *naive* computes one architecture after the other with PyG's convolutions of the same
settings and weights, on an edge index and dense features. Both run in turn on one thread, and the
smallest CPU time of each counts. Losses and gradients are compared first.

Populations: ``random`` draws each gene evenly, ``deep`` lets every layer exist, ``evolved`` are
descendants of four deep codes: crossover 0.5, mutation 1/8, a few generations of half survivors.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric import nn as pyg

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.features import InputFeatures
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS
from autofgl.nn.space import Genotype, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import ReceptiveField, SuperNet
from autofgl.search.space import Codes
from autofgl.seeding import numpy_generator, torch_generator

HIDDEN, STEPS = 64, 5

PYG: dict[str, Callable[[], nn.Module]] = {
    "gat": lambda: pyg.GATConv(HIDDEN, HIDDEN // 8, heads=8),
    "gin": lambda: pyg.GINConv(
        nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)),
        train_eps=True,
    ),
    "sage": lambda: pyg.SAGEConv(HIDDEN, HIDDEN),
    "gcn": lambda: pyg.GCNConv(HIDDEN, HIDDEN),
    "sgc": lambda: pyg.SGConv(HIDDEN, HIDDEN, K=2),
    "appnp": lambda: pyg.APPNP(K=10, alpha=0.1),
    "agnn": lambda: pyg.AGNNConv(),
    "arma": lambda: pyg.ARMAConv(HIDDEN, HIDDEN, num_stacks=2),
    "feast": lambda: pyg.FeaStConv(HIDDEN, HIDDEN, heads=2),
    "gen": lambda: pyg.GENConv(HIDDEN, HIDDEN, norm=None),
    "gmm": lambda: pyg.GMMConv(HIDDEN, HIDDEN, dim=2, kernel_size=4),
    "gatedgraph": lambda: pyg.GatedGraphConv(HIDDEN, num_layers=3),
}


class Naive(nn.Module):
    """The same SuperNet of PyG's and torch's layers, which runs one architecture at a time."""

    def __init__(self, net: SuperNet) -> None:
        super().__init__()
        self.dropout = net.dropout
        ends = net.space.activations
        self.inputs = nn.ModuleDict({a: nn.Linear(net.in_features, HIDDEN) for a in ends})
        self.layers = nn.ModuleDict({key: PYG[key.split("-")[1]]() for key in net.layers})
        self.outputs = nn.ModuleDict({a: nn.Linear(HIDDEN, net.classes) for a in ends})
        self.load_state_dict(as_pyg(net, net.state_dict()))

    def forward(self, genotype: Genotype, x: Tensor, edge_index: Tensor, pseudo: Tensor) -> Tensor:
        x = functional.dropout(x, self.dropout, self.training)
        outputs = [ACTIVATION_FUNCTIONS[genotype.input](self.inputs[genotype.input](x))]
        for index, layer in enumerate(genotype.existing, start=1):
            conv = self.layers[f"{index}-{layer.type}"]
            arguments = (edge_index, pseudo) if layer.type == "gmm" else (edge_index,)
            outputs.append(conv(outputs[layer.previous or 0], *arguments))
        fused = sum(outputs[1:]) / genotype.depth if genotype.depth else outputs[0]
        fused = functional.dropout(cast(Tensor, fused), self.dropout, self.training)
        return ACTIVATION_FUNCTIONS[genotype.output](self.outputs[genotype.output](fused))


def as_pyg(net: SuperNet, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by name in PyG's layout: weights of linear maps are transposed."""
    linear = {f"{name}.weight" for name, m in net.named_modules() if isinstance(m, Linear)}
    return {name: value.T if name in linear else value for name, value in tensors.items()}


class Client:
    """A generation's work on one client's graph, both ways."""

    def __init__(self, graph: ClientGraph, space: Space) -> None:
        x = InputFeatures.from_client(graph.x).row_normalized()
        structure = Structure.from_client(graph)
        self.labels = torch.from_numpy(graph.y.copy())
        self.train, self.val = (
            torch.from_numpy(np.flatnonzero(mask)) for mask in (graph.train_mask, graph.val_mask)
        )
        self.net = SuperNet(space, x.shape[1], int(self.labels.max()) + 1)
        self.net.reset_parameters(torch_generator(0, "weights"))
        self.fields = [
            ReceptiveField(x, structure, self.labels, [part]) for part in (self.train, self.val)
        ]
        self.naive = Naive(self.net)
        self.dense, self.edge_index = x.to_dense(), structure.edge_index
        degree = torch.bincount(self.edge_index[1], minlength=graph.num_nodes)
        self.pseudo = (1.0 + degree[self.edge_index]).rsqrt().T.contiguous()

    def ours(self, population: Sequence[Genotype]) -> None:
        for _ in range(STEPS):
            self.net.gradient(population, self.fields[0])
        self.net.evaluate(population, self.fields[1])

    def theirs(self, population: Sequence[Genotype]) -> None:
        for _ in range(STEPS):
            self.naive_gradient(population)
        with torch.no_grad():
            for genotype in population:
                self.naive_loss(genotype, self.val).item()

    def naive_gradient(self, population: Sequence[Genotype]) -> None:
        self.naive.zero_grad()
        for genotype in population:
            self.naive_loss(genotype, self.train).backward()  # type: ignore[no-untyped-call]

    def naive_loss(self, genotype: Genotype, nodes: Tensor) -> Tensor:
        scores = self.naive(genotype, self.dense, self.edge_index, self.pseudo)
        return functional.cross_entropy(scores[nodes], self.labels[nodes])

    def deviation(self, population: Sequence[Genotype]) -> float:
        """Greatest difference of gradients, relative to the largest entry of each."""
        found, _ = self.net.gradient(population, self.fields[0])
        self.naive_gradient(population)
        tensors = {name: torch.from_numpy(value) for name, value in found.items()}
        worst = 0.0
        for name, value in as_pyg(self.net, tensors).items():
            gradient = self.naive.get_parameter(name).grad
            want = torch.zeros_like(value) if gradient is None else gradient
            scale = max(1.0, float(want.abs().max()))
            worst = max(worst, float((want - value).abs().max()) / scale)
        return worst


def evolved(space: Space, size: int, generator: np.random.Generator) -> list[Genotype]:
    """Descendants of a few parents."""
    codes = Codes(
        space.cardinalities.tolist(), sample=lambda draw: space.encode(space.random(draw))
    )
    population = codes.population(4, generator)
    for _ in range(4):
        children = []
        for _ in range(size):
            left, right = generator.integers(len(population), size=2)
            child = codes.crossover(population[left], population[right], 0.5, generator)
            redrawn = generator.random(len(child)) < 1 / 8
            children.append(np.where(redrawn, codes.draw(generator), child))
        survivors = generator.permutation(len(population))[: size // 2]
        population = codes.stack([*population[survivors], *children])[:size]
    return [space.decode(code) for code in population]


def populations(layers: int, size: int) -> dict[str, list[Genotype]]:
    draw = numpy_generator(0, "supernet")
    even, deep = Space(layers), Space(layers, stop=0.0)
    return {
        "random": [even.random(draw) for _ in range(size)],
        "deep": [deep.random(draw) for _ in range(size)],
        "evolved": evolved(Space(layers, stop=0.05), size, draw),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="timed generations of each way")
    parser.add_argument("--population", type=int, default=60)
    parser.add_argument("--layers", type=int, default=6)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    graph = autofgl.partition(autofgl.load("cora"), clients=3, method="metis", seed=0)[0]
    client = Client(graph, Space(arguments.layers))
    print(f"{'population':<12}{'networks':>9}{'paths':>7}{'error':>10}", end="")
    print(f"{'naive s':>9}{'ours s':>9}{'ratio':>8}")
    for name, population in populations(arguments.layers, arguments.population).items():
        error = client.deviation(population)
        ours, naive = interleaved((client.ours, client.theirs), population, arguments.repeats)
        plan = client.net.plan(population)
        print(
            f"{name:<12}{len(plan.networks):>9}{len(plan.steps):>7}{error:>10.1e}"
            f"{naive:>9.2f}{ours:>9.2f}{naive / ours:>8.2f}",
            flush=True,
        )


def interleaved(
    ways: Sequence[Callable[[Sequence[Genotype]], None]],
    population: Sequence[Genotype],
    repeats: int,
) -> list[float]:
    """The smallest CPU time of each way, timed in turn."""
    best = [float("inf")] * len(ways)
    for _ in range(repeats):
        for index, way in enumerate(ways):
            start = time.process_time()
            way(population)
            best[index] = min(best[index], time.process_time() - start)
    return best


if __name__ == "__main__":
    main()
