"""The three modes of graphfl-ga against GraphFL: accuracy, wall time, CPU time.

    python benchmarks/ga_modes.py [--rounds 100] [--clients 6] [--population 8] [--iterations 2]

Cora, random clients, features of the whole graph as in GraphFL's public code. The paper bounds the
time of the continuous method by e(m(cn + A) + n + B) for e rounds, m populations of c chromosomes
and a training time n of a client, against en of GraphFL: the printed bound is mc + 1. CPU time is
that of this process and of those in which clients search; `parallel` has to stay within 1.3 times
the wall time of GraphFL.
"""

import argparse
import os
import resource
import time
from typing import Any

import autofgl
from autofgl.federation.engines.inprocess import InProcess
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.workers import close_pools

MODES = ("continuous", "parallel", "threshold")


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(name: str, clients: list[ClientGraph], **settings: Any) -> dict[str, float]:
    method_class = find_method(name)
    checked = method_class.Settings(**settings)
    factories = {graph.name: method_class.party(graph, checked, 0) for graph in clients}
    method = method_class(InProcess(factories), checked, 0)
    method.connect()
    method.setup()
    cpu, wall = cpu_seconds(), time.perf_counter()
    while not method.done:
        method.step()
    outcome = method.finish()
    wall = time.perf_counter() - wall
    method.federation.close()
    close_pools()  # so that their time is counted
    return {
        "accuracy": outcome.test_accuracy,
        "wall": wall,
        "cpu": cpu_seconds() - cpu,
        "trials": outcome.extra.get("trials", 0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--population", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--threshold", type=float, default=0.75)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    given = parser.parse_args()
    graph = autofgl.load("cora", settings=DataSettings(whole_graph_hops=2))
    clients = autofgl.partition(graph, given.clients, "random", 0)
    search = {"population": given.population, "iterations": given.iterations}
    measure("graphfl", clients, rounds=2)  # warm up
    base = measure("graphfl", clients, rounds=given.rounds)
    print(f"{len(os.sched_getaffinity(0))} cores, {given.rounds} rounds, {given.clients} clients")
    for name in ("graphfl", *given.modes):
        found = base
        if name != "graphfl":
            more = {"threshold": given.threshold} if name == "threshold" else {}
            found = measure(
                "graphfl-ga", clients, rounds=given.rounds, mode=name, **search, **more
            )  # fmt: skip
        print(
            f"{name:10s} test accuracy {100 * found['accuracy']:5.1f}, {found['trials']:5.0f} "
            f"trials, wall {found['wall']:6.1f} s, ratio {found['wall'] / base['wall']:5.2f}, "
            f"CPU {found['cpu']:6.1f} s, ratio {found['cpu'] / base['cpu']:5.2f}"
        )
    print(f"the paper's bound for continuous: {given.population * given.iterations + 1} times")


if __name__ == "__main__":
    main()
