"""Average precision of a class with 3 % of the nodes: the default against balanced classes.

`fedavg` on `synthetic` with two classes, METIS clients, several seeds. All edges between the
classes end at the rare one: with the usual homophily of 0.8 most of its neighbors are of the other
class, with 0.98 a quarter of them. Mean and standard deviation of test nodes' average precision.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/rare_class.py --seeds 5
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import autofgl
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "objective": {"objective": "average_precision"},
    "balanced": {"objective": "average_precision", "class_weight": "balanced"},
}


def own_neighbors(graph: ClientGraph) -> float:
    """Share of the rare class's neighbors that are of it."""
    source, target = graph.y[graph.edge_index]
    return float(np.mean(source[target == 1] == 1))


def precisions(homophily: float, model: str, rounds: int, seeds: int) -> dict[str, list[float]]:
    """Average precision by way and seed."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    data = DataSettings(nodes=3000, classes=2, minority=0.03, homophily=homophily)
    for seed in range(seeds):
        graph = autofgl.load("synthetic", seed=seed, settings=data)
        if not seed:
            share = own_neighbors(graph)
            print(f"homophily {homophily}: {share:.0%} of the rare class's neighbors are of it")
        clients = autofgl.partition(graph, clients=3, seed=seed)
        for way, settings in WAYS.items():
            with tempfile.TemporaryDirectory() as folder:
                given = {"out": Path(folder) / "run", "model": model, "rounds": rounds, **settings}
                result = autofgl.run("fedavg", clients, seed=seed, **given)
            found[way].append(result.figures["metrics"]["test"]["average_precision"])
    return found


def main() -> None:
    """Print a line for each homophily and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--homophily", type=float, nargs="+", default=[0.8, 0.98])
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    for homophily in args.homophily:
        found = precisions(homophily, args.model, args.rounds, args.seeds)
        for way, values in found.items():
            mean, spread = statistics.mean(values), statistics.pstdev(values)
            each = " ".join(f"{value:.3f}" for value in values)
            print(f"  {way:10} {mean:.3f} ± {spread:.3f} ({each})", flush=True)


if __name__ == "__main__":
    main()
