"""Mini-batches against full batches on ever larger graphs: seconds, memory and accuracy.

    python benchmarks/large.py [--nodes 100000 1000000] [--clients 20] [--rounds 40]

`fedavg` (GCN, two layers of 64) on `synthetic`, cut by `--partition`. *full*: every round has the
gradient of all training nodes. *batches*: `batch=1024 fanout=10,10`, the gradient of one batch of
every client. *epochs*: `aggregate=parameters local_epochs=1`, a step for every batch of the client;
a tenth of the rounds, since each has as many steps. Every setting runs in a process of its own;
a round is the median, its evaluation of all nodes included. `data` is the peak memory once the
graph is cut, `peak` that of the whole process. Growth is over the size before.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BATCHES = {"batch": 1024, "fanout": "10,10"}
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "batches": BATCHES,
    "epochs": {**BATCHES, "aggregate": "parameters", "local_epochs": 1},
}


def peak_gb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e6


def one_run(nodes: int, clients: int, partition: str, rounds: int, variant: str) -> None:
    """In a process of its own: generate, cut, train; tell what it took."""
    import autofgl
    from autofgl.federation.engines.inprocess import InProcess
    from autofgl.graphs.catalog import DataSettings
    from autofgl.methods.baselines import FedAvg
    from autofgl.runtime.federated_settings import FederatedSettings

    begin = time.process_time()
    graph = autofgl.load("synthetic", settings=DataSettings(nodes=nodes))
    parts = autofgl.partition(graph, clients=clients, method=partition, seed=0)
    del graph
    told: dict[str, Any] = {"data_s": time.process_time() - begin, "data_gb": peak_gb()}
    settings = FederatedSettings(rounds=rounds, lr=0.05, **VARIANTS[variant])
    factories = {part.name: FedAvg.party(part, settings, 0) for part in parts}
    method = FedAvg(InProcess(factories), settings, 0)
    method.setup()
    cpu, wall = [], []
    for _ in range(rounds):
        start = time.process_time(), time.perf_counter()
        method.step()
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
    outcome = method.finish()
    told |= {"cpu_s": statistics.median(cpu), "wall_s": statistics.median(wall)}
    told |= {"first_s": wall[0], "peak_gb": peak_gb(), "accuracy": outcome.test_accuracy}
    print(json.dumps(told))


def measure(nodes: int, clients: int, partition: str, rounds: int, variant: str) -> dict[str, Any]:
    rounds = max(1, rounds // 10) if variant == "epochs" else rounds
    words = [sys.executable, __file__, "--one", nodes, clients, partition, rounds, variant]
    done = subprocess.run([*map(str, words)], capture_output=True, check=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        nodes, clients, partition, rounds, variant = sys.argv[2:]
        one_run(int(nodes), int(clients), partition, int(rounds), variant)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--clients", type=int, nargs="+", default=[20])
    parser.add_argument("--partition", default="metis")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--variants", nargs="+", default=["full", "batches"], choices=VARIANTS)
    given = parser.parse_args()
    for clients in given.clients:
        before: dict[str, dict[str, Any]] = {}
        for nodes in given.nodes:
            for variant in given.variants:
                told = measure(nodes, clients, given.partition, given.rounds, variant)
                last = before.get(variant)
                growth = (
                    f"; growth: {told['cpu_s'] / last['cpu_s']:.1f} x seconds, "
                    f"{told['peak_gb'] / last['peak_gb']:.1f} x memory"
                    if last
                    else ""
                )
                before[variant] = told
                print(
                    f"{nodes:8d} nodes, {clients} clients, {variant:7}: round {told['cpu_s']:.2f} s"
                    f" CPU, {told['wall_s']:.2f} s wall (first {told['first_s']:.2f}); data "
                    f"{told['data_s']:.1f} s CPU, {told['data_gb']:.2f} GB, peak "
                    f"{told['peak_gb']:.2f} GB; test accuracy {told['accuracy']:.4f}{growth}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
