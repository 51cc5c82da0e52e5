"""Is `auto` ever worse than what one would have tried by hand?

Federations that are unlike each other, each with the baselines that a user would try first: every
client alone, federated averaging of a GCN and of APPNP, one GCN that every client fine-tunes, and
convolution across clients. `auto` has nothing but its budget. The rows that `--out` keeps have the
accuracy of every client, bytes and CPU time.

Usage: python benchmarks/auto_baselines.py [--seeds 3] [--budget "60s cpu"] [--only cora-10 mixed …]
       [--methods auto alone …] [--out rows.jsonl]; AUTOFGL_DATA names the folder with raw datasets
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import autofgl
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.graphs.client_graph import Boundary
from autofgl.methods.baselines import FedAvg
from autofgl.sharing.personal import PERSONAL


class Personal(FedAvg):
    """One common network that every client fine-tunes."""

    ways: ClassVar = {"personal": PERSONAL}


def synthetic(seed: int, **knobs: Any) -> Any:
    """A graph of 2,000 nodes with few words a node."""
    return autofgl.load("synthetic", seed=seed, settings=DataSettings(**knobs))


def dense(seed: int) -> Any:
    """Gaussian features, and neighbors of whom half are of the same class."""
    rng, nodes, classes = np.random.default_rng(seed), 2000, 6
    labels = rng.integers(0, classes, nodes)
    x = rng.normal(0, 0.3, (classes, 64))[labels] + rng.normal(0, 1, (nodes, 64))
    source, target = rng.integers(0, nodes, (2, 12 * nodes))
    same, lucky = labels[source] == labels[target], rng.random(12 * nodes) < 0.12
    kept = (same | lucky) & (source != target)
    pairs = np.unique(np.sort(np.stack([source[kept], target[kept]]), axis=0), axis=1)
    edges = np.concatenate([pairs, pairs[::-1]], axis=1)
    return autofgl.as_graph((x.astype(np.float32), edges, labels), seed=seed)


def cut(graph: Any, clients: int, how: str, seed: int, **knobs: Any) -> Any:
    """The clients of a federation."""
    settings = PartitionSettings(**knobs)
    return autofgl.partition(graph, clients, how, seed, settings)


def own_split(clients: Any, seed: int) -> Any:
    """Per client and class 20 % of the nodes for training, 40 % for validation (OpenFGL)."""
    every = []
    for client in clients:
        rng, masks = np.random.default_rng(seed), np.zeros((3, client.num_nodes), np.bool_)
        for label in range(client.classes):
            nodes = rng.permutation(np.flatnonzero(client.y == label))
            first, second = round(0.2 * len(nodes)), round(0.6 * len(nodes))
            for mask, part in zip(masks, np.split(nodes, [first, second]), strict=True):
                mask[part] = True
        every.append(client.with_masks(*masks))
    return every


def apart(clients: Any) -> Any:
    """The same without edges between clients, as in most federations outside of papers."""
    return [replace(one, boundary=Boundary.empty()) for one in clients]


def foreign(seed: int) -> Any:
    """Clients whose words mean other classes than elsewhere, for the most part."""
    every = []
    for at in range(5):
        graph = synthetic(seed + 100 * at, nodes=400, homophily=0.6, topic_strength=0.25)
        every.append(replace(graph, name=f"land-{at}"))
    return own_split(every, seed)


def natural(seed: int) -> Any:
    """Clients of very different sizes."""
    graph = synthetic(seed, nodes=3000, homophily=0.6, topic_strength=0.15)
    parts = cut(graph, 16, "metis", seed)
    from autofgl.graphs.cut import cut as by_owner
    from autofgl.graphs.cut import pool

    whole = pool(parts)
    sizes = np.cumsum([part.num_nodes for part in parts])
    ends = sizes[[0, 1, 3, 7, 15]]
    owner = np.searchsorted(ends, np.arange(whole.num_nodes), side="right")
    return own_split(by_owner(replace(whole, name="g"), owner, list("abcde")), seed)


FEDERATIONS: dict[str, Callable[[int], Any]] = {
    "cora-public-3": lambda seed: cut(autofgl.load("cora", seed=seed), 3, "metis", seed),
    "cora-10": lambda seed: own_split(
        cut(autofgl.load("cora", seed=seed), 10, "louvain", seed), seed
    ),
    "citeseer-10": lambda seed: own_split(
        cut(autofgl.load("planetoid:citeseer", seed=seed), 10, "louvain", seed), seed
    ),
    "pubmed-10": lambda seed: own_split(
        cut(autofgl.load("planetoid:pubmed", seed=seed), 10, "louvain", seed), seed
    ),
    "cora-random-5": lambda seed: own_split(
        cut(autofgl.load("cora", seed=seed), 5, "random", seed), seed
    ),
    "alike": lambda seed: cut(synthetic(seed), 5, "metis", seed),
    "skewed": lambda seed: own_split(
        cut(synthetic(seed), 8, "dirichlet", seed, dirichlet_beta=0.3), seed
    ),
    "mixed": lambda seed: own_split(
        cut(synthetic(seed, homophily=0.2, topic_strength=0.3), 5, "random", seed), seed
    ),
    "dense": lambda seed: own_split(cut(dense(seed), 5, "metis", seed), seed),
    "disjoint": lambda seed: own_split(cut(synthetic(seed), 5, "labels", seed), seed),
    "few-labels": lambda seed: cut(synthetic(seed, topic_strength=0.3), 20, "random", seed),
    "natural": natural,
    "foreign": foreign,
    "cora-10-apart": lambda seed: apart(FEDERATIONS["cora-10"](seed)),
    "citeseer-10-apart": lambda seed: apart(FEDERATIONS["citeseer-10"](seed)),
    "skewed-apart": lambda seed: apart(FEDERATIONS["skewed"](seed)),
    "dense-apart": lambda seed: apart(FEDERATIONS["dense"](seed)),
    "natural-apart": lambda seed: apart(FEDERATIONS["natural"](seed)),
}
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "alone": ("separate", {"rounds": 400, "patience": 60}),
    "fedavg gcn": ("fedavg", {"rounds": 400, "patience": 60}),
    "fedavg appnp": ("fedavg", {"model": "appnp", "rounds": 400, "patience": 60}),
    "personal": (Personal, {"rounds": 400, "patience": 60}),
    "fedgraph": ("fedgraph", {"rounds": 200}),
    "auto": ("auto", {}),
}


def measured(name: str, clients: Any, seed: int, budget: str, out: Path) -> dict[str, Any]:
    """Figures of one run, whose folder is ``out``."""
    method, settings = METHODS[name]
    if name == "auto":
        settings = {**settings, "budget": budget, "secure": "none"}
    begin, used = time.perf_counter(), time.process_time()
    result = autofgl.run(method, clients, seed=seed, out=out, **settings)
    figures = result.figures
    row = {
        "accuracy": 100 * result.test_accuracy,
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - used,
        "rounds": figures["rounds"],
        "mb": (figures["bytes_up"] + figures["bytes_down"]) / 1e6,
        "clients": [100 * one.get("test_accuracy", 0.0) for one in figures["per_client"]],
    }
    if "certificate" in figures:
        row["sentence"] = figures["certificate"]["sentence"]
        row["taken"] = [(one["sites"], one["label"]) for one in figures["certificate"]["taken"]]
        row["stages"] = [(one["stage"], one["rounds"]) for one in figures["stages"]]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budget", default="60s cpu")
    parser.add_argument(
        "--only", nargs="*", choices=FEDERATIONS, default=["cora-public-3", "mixed"]
    )
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=Path, help="keep the run folders of auto here")
    given = parser.parse_args()
    for name in given.only:
        for seed in range(given.first, given.first + given.seeds):
            clients = FEDERATIONS[name](seed)
            for method in given.methods:
                row = {"federation": name, "seed": seed, "method": method}
                with tempfile.TemporaryDirectory() as folder:
                    kept = given.runs and method == "auto"
                    out = given.runs / f"{name}-{seed}" if kept else Path(folder) / "run"
                    row |= measured(method, clients, seed, given.budget, out)
                if given.out:
                    with given.out.open("a") as stream:
                        stream.write(json.dumps(row) + "\n")
                shown = f"{row['accuracy']:5.1f}  {row['cpu_s']:6.1f} s cpu  {row['rounds']} rounds"
                print(f"{name:14} {seed} {method:13} {shown}", flush=True)
                if "sentence" in row:
                    print(f"    {row['sentence']}\n    {row['taken']}", flush=True)


if __name__ == "__main__":
    main()
