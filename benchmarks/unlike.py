"""Is a search at least as good as the best fixed network on graphs that nobody tuned for?

Two graphs of our own making that are unlike citation graphs: one whose labels follow the neighbors
at two hops while direct neighbors are of another class, and one with dense Gaussian features. Each
is cut into three parts; fl-agcns has no setting but its budget, fixed networks have the defaults.

Usage: python benchmarks/unlike.py [--seeds 5] [--budget '1m cpu'] [--graphs two-hop dense]
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import autofgl

FIXED = ("gcn", "sage", "gat", "appnp", "agnn", "gin", "sgc")
NODES = 3000


def two_hop(rng: np.random.Generator, classes: int = 6, features: int = 40) -> Any:
    """Classes come in pairs, and edges lead to the other class of a pair."""
    labels = rng.integers(0, classes, NODES)
    x = rng.normal(0, 0.35, (classes, features))[labels] + rng.normal(0, 1, (NODES, features))
    return x, edges(rng, labels, labels ^ 1, share=0.8), labels


def dense(rng: np.random.Generator, classes: int = 6, features: int = 64) -> Any:
    """Gaussian features, and neighbors of whom half are of the same class."""
    labels = rng.integers(0, classes, NODES)
    x = rng.normal(0, 0.3, (classes, features))[labels] + rng.normal(0, 1, (NODES, features))
    return x, edges(rng, labels, labels, share=0.5), labels


def edges(rng: np.random.Generator, labels: Any, wanted: Any, share: float) -> Any:
    """Three edges a node on average: the given share leads to a node of the wanted class."""
    count = 3 * NODES
    source = rng.integers(0, NODES, count)
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    low, high = first[wanted[source]], first[wanted[source] + 1]
    chosen = order[low + (rng.random(count) * (high - low)).astype(int)]
    target = np.where(rng.random(count) < share, chosen, rng.integers(0, NODES, count))
    kept = source != target
    pairs = np.unique(np.sort(np.stack([source[kept], target[kept]]), axis=0), axis=1)
    return np.concatenate([pairs, pairs[::-1]], axis=1)


GRAPHS = {"two-hop": two_hop, "dense": dense}


def clients_of(name: str, seed: int) -> Any:
    """Three parts of a graph of its own for each seed, with 20 training nodes of each class."""
    x, edge_index, labels = GRAPHS[name](np.random.default_rng(seed))
    graph = autofgl.as_graph((x.astype(np.float32), edge_index, labels), seed=seed)
    return autofgl.partition(graph, clients=3, method="metis", seed=seed)


def accuracy(method: str, clients: Any, seed: int, **settings: Any) -> float:
    with tempfile.TemporaryDirectory() as folder:
        result = autofgl.run(method, clients, seed=seed, out=Path(folder) / "run", **settings)
        return 100 * result.test_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budget", default="1m cpu")
    parser.add_argument("--graphs", nargs="*", choices=GRAPHS, default=list(GRAPHS))
    given = parser.parse_args()
    for name in given.graphs:
        rows: dict[str, list[float]] = {}
        for seed in range(given.first, given.first + given.seeds):
            clients = clients_of(name, seed)
            for model in FIXED:
                found = accuracy("fedavg", clients, seed, model=model, rounds=600, patience=100)
                rows.setdefault(model, []).append(found)
            found = accuracy("fl-agcns", clients, seed, budget=given.budget)
            rows.setdefault("fl-agcns", []).append(found)
            print(f"{name}, seed {seed}:", {key: round(one[-1], 1) for key, one in rows.items()})
        for model, values in rows.items():
            spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
            print(f"{name:8} {model:9} {np.mean(values):5.1f} ± {spread:.1f}")


if __name__ == "__main__":
    main()
