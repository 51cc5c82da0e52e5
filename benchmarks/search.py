"""A whole generation of FL-AGCNS on Cora, against the naive way and under secure sums.

    [AUTOFGL_DATA=...] python benchmarks/search.py [--repeats 3] [--naive 1]

3 METIS clients on the in-process engine, |P| 60, L 6, E_weight 5; one torch thread for each client.
A generation is five weights steps, the federated losses of P, and the evolution of controller and
clients with all its evaluations.

*Naive* is the same method, federation and evolution, but its clients compute one architecture after
the other with PyG's convolutions, on an edge index and dense features. The CPU time of all threads
is compared, with ours before and after each naive generation. Secure modes are compared with plain
sums by wall time, turn by turn.

Every generation starts from the same population, one of ``benchmarks/supernet.py``; weights and
the clients' own populations go on. Our first generation, which builds what later ones share, is not
timed. ``difference`` is that of naive and ours in the first generation's training loss and median
federated loss, after its five steps: without dropout both compute the same.
"""

import argparse
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import autofgl
from autofgl.federation.engines.inprocess import InProcess
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import FLAGCNSClient
from autofgl.methods.fl_agcns.controller import FLAGCNS
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_space
from autofgl.nn.space import Genotype
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import SuperNet
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.outcome import Row
from autofgl.runtime.sharing import Sharing
from supernet import Naive, populations

MODES = ("none", "shares", "ckks")

#: A generation of the paper, whatever the method's own settings are.
PAPER: dict[str, Any] = {
    "population": 60, "layers": 6, "weight_steps": 5, "hidden": 64,
    "codes_per_step": 0, "warmup": 0, "optimizers": "both", "known": False,
    "compress": "none",
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Seconds of a generation, and what the method tells of it."""

    wall: float
    cpu: float
    row: Row


@dataclass(frozen=True)
class Nodes:
    """Nodes on which networks are measured; stands for a field of ours."""

    index: Tensor

    @property
    def measured(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class AllNodes:
    """All nodes of a client; stands for what chooses among them."""

    train: Nodes
    val_field: Nodes
    val_weight: float = 1.0

    @property
    def train_nodes(self) -> int:
        return self.train.measured

    @property
    def val_nodes(self) -> int:
        return self.val_field.measured

    def train_field(self, *_at: int) -> Nodes:
        return self.train

    def weigh(self, loss: Any) -> None:
        """The loss is always cross-entropy."""


class OneByOne(Naive):
    """The naive SuperNet with the interface of ours."""

    def __init__(self, net: SuperNet, data: ClientData, settings: FLAGCNSSettings) -> None:
        super().__init__(net)
        graph = data.graph
        structure = Structure.from_client(graph)
        self.dense = data.inputs(settings.normalize_features).features.to_dense()
        self.edge_index = structure.edge_index
        degree = torch.bincount(self.edge_index[1], minlength=graph.num_nodes)
        self.pseudo = (1.0 + degree[self.edge_index]).rsqrt().T.contiguous()
        self.labels = torch.from_numpy(graph.y.copy())

    def gradient(
        self, population: Sequence[Genotype], nodes: Nodes, generator: Any
    ) -> tuple[dict[str, Any], Any]:
        """Gradient of the sum of losses, and the losses; dropout is torch's own."""
        del generator
        self.zero_grad()
        losses = []
        for genotype in population:
            loss = functional.cross_entropy(*self._measured(genotype, nodes))
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.item())
        touched = ((name, p.grad) for name, p in self.named_parameters() if p.grad is not None)
        return {name: grad.numpy() for name, grad in touched}, np.array(losses)

    @torch.no_grad()
    def evaluate(self, population: Sequence[Genotype], nodes: Nodes) -> Any:
        """Sum of losses, correct predictions and number of nodes, ``[P, 1, 3]``."""
        self.eval()
        return np.array([[self._sums(genotype, nodes)] for genotype in population])

    def _sums(self, genotype: Genotype, nodes: Nodes) -> tuple[float, int, int]:
        scores, labels = self._measured(genotype, nodes)
        loss = functional.cross_entropy(scores, labels, reduction="sum").item()
        return loss, int((scores.argmax(1) == labels).sum()), nodes.measured

    def _measured(self, genotype: Genotype, nodes: Nodes) -> tuple[Tensor, Tensor]:
        scores = self(genotype, self.dense, self.edge_index, self.pseudo)
        return scores[nodes.index], self.labels[nodes.index]


class NaiveClient(FLAGCNSClient):
    """A client of FL-AGCNS with the naive SuperNet."""

    def __init__(
        self,
        context: Any,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: FLAGCNSSettings,
        secure: str,
    ) -> None:
        super().__init__(context, data, ways, settings, secure)
        naive = OneByOne(self._supernet.network, data, settings)
        self._supernet.network = cast(Any, naive)
        self._supernet._optimizer = torch.optim.Adam(
            naive.parameters(),
            lr=settings.search_lr or settings.lr,
            weight_decay=settings.search_weight_decay,
        )
        masks = (data.graph.train_mask, data.graph.val_mask)
        train, val = (Nodes(torch.from_numpy(np.flatnonzero(mask))) for mask in masks)
        self._nodes = cast(Any, AllNodes(train, val))


class NaiveFLAGCNS(FLAGCNS):
    """FL-AGCNS with such clients."""

    Client = NaiveClient


class Search:
    """The method on a federation of its own; every generation starts from the given population."""

    def __init__(
        self,
        clients: Sequence[ClientGraph],
        settings: FLAGCNSSettings,
        population: Sequence[Genotype],
        mode: str = "none",
        kind: type[FLAGCNS] = FLAGCNS,
    ) -> None:
        factories = {graph.name: kind.party(graph, settings, 0, mode) for graph in clients}
        self._engine = InProcess(factories)
        self._method = kind(self._engine, settings, 0, mode)
        self._method.connect()
        self._method.setup()
        space = make_space(settings)
        self._codes = np.stack([space.encode(genotype) for genotype in population])

    def generation(self) -> Cost:
        """Costs and figures of one generation."""
        self._method.search.population = self._codes
        wall, cpu = time.perf_counter(), _cpu()
        row = self._method.step()
        return Cost(time.perf_counter() - wall, _cpu() - cpu, row)

    def close(self) -> None:
        self._engine.close()


def _cpu() -> float:
    """CPU seconds of this process and its ended children."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def against_naive(
    clients: Sequence[ClientGraph],
    settings: FLAGCNSSettings,
    population: Sequence[Genotype],
    repeats: int,
) -> tuple[float, float, float]:
    """CPU seconds of a generation, naive and ours, and the difference of the first losses."""
    ours = Search(clients, settings, population)
    naive = Search(clients, settings, population, kind=NaiveFLAGCNS)
    first = ours.generation().row
    own: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(repeats):
        own.append(ours.generation())
        theirs.append(naive.generation())
        own.append(ours.generation())
    other = theirs[0].row
    difference = max(abs(first[key] - other[key]) for key in ("median_fll", "train_loss"))
    for search in (ours, naive):
        search.close()
    return median_cpu(theirs), median_cpu(own), difference


def median_cpu(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.cpu for cost in costs)


def secured(
    clients: Sequence[ClientGraph],
    settings: FLAGCNSSettings,
    population: Sequence[Genotype],
    repeats: int,
) -> tuple[float, dict[str, float]]:
    """Wall seconds of a plain generation, and each mode's ratio to it."""
    searches = {mode: Search(clients, settings, population, mode) for mode in MODES}
    for search in searches.values():
        search.generation()
    turns = [
        {mode: search.generation().wall for mode, search in searches.items()}
        for _ in range(repeats)
    ]
    for search in searches.values():
        search.close()
    plain = statistics.median(turn["none"] for turn in turns)
    return plain, {
        mode: statistics.median(turn[mode] / turn["none"] for turn in turns) for mode in MODES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="timed generations of each mode")
    parser.add_argument("--naive", type=int, default=1, help="timed naive generations")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--populations", nargs="+", default=["random", "evolved"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = "planetoid:cora" if os.environ.get("AUTOFGL_DATA") else "cora"
    clients = autofgl.partition(autofgl.load(dataset), clients=3, method="metis", seed=0)
    settings = FLAGCNSSettings.model_validate({**PAPER, "dropout": options.dropout})
    summary: list[str] = []
    for name in options.populations:
        population = populations(settings.layers, settings.population)[name]
        plain, ratios = secured(clients, settings, population, options.repeats)
        told = ", ".join(f"{mode} {ratios[mode]:.2f} x" for mode in MODES[1:])
        print(f"{name}: wall {plain:.2f} s a plain generation, {told}", flush=True)
        naive, ours, difference = against_naive(clients, settings, population, options.naive)
        print(
            f"{name}: CPU naive {naive:.1f} s, ours {ours:.1f} s, ratio {naive / ours:.2f}, "
            f"difference {difference:.1e}",
            flush=True,
        )
        summary.append(f"{name}: naive/ours {naive / ours:.2f}, {told}")
    print("; ".join(summary))


if __name__ == "__main__":
    main()
