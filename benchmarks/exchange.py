"""CPU seconds of a round in which clients exchange rows.

Runs of two lengths are made in turn, and the difference is a round's: what comes before the first
round and after the last does not count.

Usage: python benchmarks/exchange.py [--clients 20] [--rounds 5 25] [--repeats 3]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import autofgl

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedgraph, full batch": ("fedgraph", {}),
    "fedgraph, sampled": ("fedgraph", {"sampler": "fixed", "keep": "0.3", "batch": 64}),
    "gcn, common": ("fedavg", {}),
    "gcn, across": ("fedavg", {"sharing": "across"}),
    "appnp, across": ("fedavg", {"sharing": "across", "model": "appnp"}),
}


def seconds(clients: Any, method: str, rounds: int, settings: dict[str, Any]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        autofgl.run(method, clients, out=Path(folder) / "run", hidden=16, rounds=rounds, **settings)
        return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, nargs=2, default=[5, 25])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    graph = autofgl.load("cora")
    clients = autofgl.partition(graph, clients=given.clients, method="random", seed=0)
    few, many = given.rounds
    costs: dict[str, list[float]] = {}
    for _ in range(given.repeats):
        for name, (method, settings) in RUNS.items():
            short, long = (seconds(clients, method, rounds, settings) for rounds in (few, many))
            costs.setdefault(name, []).append((long - short) / (many - few))
    for name, found in costs.items():
        print(f"{name:22} {statistics.median(found):.3f} s")


if __name__ == "__main__":
    main()
