"""Sampled training rounds on ever larger graphs, and drawn edges a second against PyG.

    python benchmarks/sampling.py [--nodes 10000 100000 1000000] [--rounds 15] [--policy 0.2]

*Rounds*: one client, average degree 50, two convolutions of 16 hidden units on 64 features, a
batch of 256; every entry of a row is kept with the probability `--policy`. A round is sampling,
forward and backward. The sizes take turns on one thread; CPU times are medians, `ratio` is the
median of a size over that of the size before. `sources` are the nodes whose features a round
reads: on a small graph many draws meet the same node. `sampling MB` is the greatest memory of the
sampling of one round, `peak MB` that of the process so far, building the graph included.

*Sampling*: two convolutions with at most 25 and 10 neighbors, ours against PyG's NeighborLoader
on the same batches, in turn, on a graph of `--against` nodes. The loader needs pyg-lib or
torch-sparse, which are no dependencies of ours; torch-sparse asks torch for one random number at a
time, and most of its time goes there. A plain loop over nodes always runs. Self loops do not count.
"""

import argparse
import resource
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from autofgl.graphs.catalog import SyntheticSettings
from autofgl.graphs.synthetic import generate
from autofgl.nn.sampling.neighborhood import Block, Neighborhood
from autofgl.nn.sampling.rules import Fanout, Keep, Rule, draw_batch
from autofgl.seeding import numpy_generator, torch_generator

Ints = npt.NDArray[np.int64]

DEGREE, FEATURES, HIDDEN, CLASSES, BATCH = 50, 64, 16, 5, 256
FANOUTS = (25, 10)


@dataclass
class Client:
    """A graph, a network, and what its rounds cost."""

    matrix: Neighborhood
    x: Tensor
    y: Tensor
    labeled: Ints
    rng: np.random.Generator
    weights: list[Tensor]
    sampling: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)

    @classmethod
    def draw(cls, nodes: int) -> "Client":
        # Even degrees: with a heavy tail, a neighbor's degree would grow with the graph.
        settings = SyntheticSettings(
            nodes=nodes,
            degree=DEGREE,
            degree_power=10,
            classes=CLASSES,
            features=FEATURES,
            words_per_node=1,
        )
        rng, torch_rng = numpy_generator(0, "graph", nodes), torch_generator(0, "network")
        graph = generate(settings, rng)
        shapes = ((FEATURES, HIDDEN), (HIDDEN, CLASSES))
        return cls(
            matrix=Neighborhood.from_client(graph),
            x=torch.randn(nodes, FEATURES, generator=torch_rng),
            y=torch.from_numpy(graph.y),
            labeled=np.arange(nodes),
            rng=rng,
            weights=[(0.1 * torch.randn(*s, generator=torch_rng)).requires_grad_() for s in shapes],
        )

    def sample(self, rules: Sequence[Rule]) -> list[Block]:
        """Blocks from the last convolution down."""
        targets = draw_batch(self.labeled, BATCH, self.rng)
        return blocks(self.matrix, targets, rules, self.rng)

    def round(self, rules: Sequence[Rule]) -> None:
        start = time.process_time()
        top, bottom = self.sample(rules)
        self.sampling.append(time.process_time() - start)
        x = self.x.index_select(0, torch.from_numpy(bottom.sources))
        hidden = (bottom.matrix @ x @ self.weights[0]).relu()
        scores = top.matrix @ (hidden @ self.weights[1])
        labels = self.y.index_select(0, torch.from_numpy(top.targets))
        functional.cross_entropy(scores, labels).backward()  # type: ignore[no-untyped-call]
        self.rounds.append(time.process_time() - start)
        self.edges.append(top.edges + bottom.edges)
        self.sources.append(len(bottom.sources))

    def sampling_memory(self, rules: Sequence[Rule]) -> int:
        """Greatest number of bytes in use while a round is sampled, beyond those before."""
        tracemalloc.start()
        self.sample(rules)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak


def blocks(
    matrix: Neighborhood, targets: Ints, rules: Sequence[Rule], rng: np.random.Generator
) -> list[Block]:
    found = []
    for rule in rules:
        found.append(rule(matrix, targets, rng))
        targets = found[-1].sources
    return found


def rounds(clients: dict[int, Client], peaks: dict[int, float], p: float, repeats: int) -> None:
    rules = (Keep(p), Keep(p))
    for _ in range(repeats):
        for client in clients.values():
            client.round(rules)
    print(
        f"{'nodes':>9}{'entries':>10}{'drawn':>8}{'sources':>9}{'sampling ms':>13}{'ratio':>7}",
        end="",
    )
    print(f"{'round ms':>10}{'ratio':>7}{'sampling MB':>13}{'peak MB':>9}")
    before: tuple[float, float] | None = None
    for nodes, client in clients.items():
        now = statistics.median(client.sampling), statistics.median(client.rounds)
        ratios = [f"{a / b:.2f}" for a, b in zip(now, before, strict=True)] if before else ["", ""]
        print(
            f"{nodes:>9}{len(client.matrix.indices):>10}{statistics.median(client.edges):>8.0f}"
            f"{statistics.median(client.sources):>9.0f}{1e3 * now[0]:>13.2f}{ratios[0]:>7}"
            f"{1e3 * now[1]:>10.2f}{ratios[1]:>7}{client.sampling_memory(rules) / 1e6:>13.2f}"
            f"{peaks[nodes]:>9.0f}"
        )
        before = now


#: One way to sample a batch; returns the number of edges without self loops.
Way = Callable[[Ints], int]


def ours(matrix: Neighborhood) -> Way:
    rng, rules = numpy_generator(0, "ours"), [Fanout(k) for k in FANOUTS]

    def sample(batch: Ints) -> int:
        return sum(b.edges - len(b.targets) for b in blocks(matrix, batch, rules, rng))

    return sample


def plain_loop(matrix: Neighborhood) -> Way:
    """One node after the other, as one would write it down first."""
    rng = numpy_generator(0, "loop")

    def sample(batch: Ints) -> int:
        edges = 0
        for k in FANOUTS:
            found = set(batch.tolist())
            for node in batch:
                row = matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]
                row = row[row != node]
                drawn = row if len(row) <= k else rng.choice(row, k, replace=False)
                found.update(drawn.tolist())
                edges += len(drawn)
            batch = np.array(sorted(found))
        return edges

    return sample


def neighbor_loader(matrix: Neighborhood, batches: Sequence[Ints]) -> Way | None:
    """PyG's loader over these batches in their order, or nothing where it cannot run."""
    from torch_geometric import typing
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        print("NeighborLoader needs pyg-lib or torch-sparse, and neither is installed: left out")
        return None
    target = np.repeat(np.arange(matrix.own), np.diff(matrix.indptr))
    edges = np.stack([matrix.indices, target])[:, matrix.indices != target]
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=matrix.own)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*without a 'pyg-lib' installation")
        loader = NeighborLoader(
            data,
            list(FANOUTS),
            input_nodes=torch.from_numpy(np.concatenate(batches)),
            batch_size=BATCH,
        )
    backend = "pyg-lib" if typing.WITH_PYG_LIB else "torch-sparse"
    print(f"NeighborLoader samples with {backend}")
    iterator: Iterator[Data] = iter(loader)

    return lambda _: int(next(iterator).num_edges)


def against_pyg(matrix: Neighborhood, repeats: int) -> None:
    rng = numpy_generator(0, "batches")
    batches = [draw_batch(np.arange(matrix.own), BATCH, rng) for _ in range(repeats + 1)]
    ways = {"ours": ours(matrix), "plain loop": plain_loop(matrix)}
    if loader := neighbor_loader(matrix, batches):
        ways["NeighborLoader"] = loader
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    edges = dict.fromkeys(ways, 0)
    for turn, batch in enumerate(batches):
        for name, way in ways.items():
            start = time.process_time()
            drawn = way(batch)
            if turn:  # the first turn warms up
                seconds[name].append(time.process_time() - start)
                edges[name] += drawn
    print(f"{'sampler':<16}{'edges a batch':>14}{'M edges/s':>11}{'ours faster':>13}")
    speed = {name: edges[name] / repeats / statistics.median(seconds[name]) for name in ways}
    for name in ways:
        print(
            f"{name:<16}{edges[name] / repeats:>14.0f}{speed[name] / 1e6:>11.2f}"
            f"{speed['ours'] / speed[name]:>13.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds, and batches")
    parser.add_argument("--policy", type=float, default=0.2, help="probability to keep an entry")
    parser.add_argument("--against", type=int, default=10**5, help="nodes of the comparison")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clients, peaks = {}, {}
    for nodes in sorted(arguments.nodes):
        clients[nodes] = Client.draw(nodes)
        clients[nodes].round((Keep(arguments.policy),) * 2)
        peaks[nodes] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    rounds(clients, peaks, arguments.policy, arguments.rounds)
    found = clients.get(arguments.against) or Client.draw(arguments.against)
    against_pyg(found.matrix, arguments.rounds)


if __name__ == "__main__":
    main()
