"""A FedAvg round of GCN on Cora under each secure mode, against the plain round.

    python benchmarks/secure_round.py [--rounds 20] [--repeats 5]

3 METIS clients, 3 local epochs, width 64, on the in-process engine. The modes take turns; wall
time and bytes of a round are compared with `none` within each turn.
"""

import argparse
import statistics
import time

import autofgl
from autofgl.federation.engines.inprocess import InProcess
from autofgl.methods.baselines import FedAvg
from autofgl.runtime.settings import FederatedSettings
from autofgl.secure import MODES


def start(mode: str, aggregate: str) -> FedAvg:
    clients = autofgl.partition(autofgl.load("cora"), clients=3, method="metis", seed=0)
    settings = FederatedSettings.model_validate({"local_epochs": 3, "aggregate": aggregate})
    factories = {graph.name: FedAvg.party(graph, settings, 0, mode) for graph in clients}
    method = FedAvg(InProcess(factories), settings, 0, mode)
    method.connect()
    method.setup()
    method.step()  # warm up
    return method


def traffic(method: FedAvg) -> int:
    meter = method.federation.meter
    return meter.total("up") + meter.total("down")


def seconds(method: FedAvg, rounds: int) -> float:
    begin = time.perf_counter()
    for _ in range(rounds):
        method.step()
    return (time.perf_counter() - begin) / rounds


def compare(aggregate: str, rounds: int, repeats: int) -> None:
    methods = {mode: start(mode, aggregate) for mode in MODES}
    before = {mode: traffic(method) for mode, method in methods.items()}
    turns = [
        {mode: seconds(method, rounds) for mode, method in methods.items()} for _ in range(repeats)
    ]
    for mode, method in methods.items():
        wall = statistics.median(turn[mode] for turn in turns)
        ratio = statistics.median(turn[mode] / turn["none"] for turn in turns)
        sent = (traffic(method) - before[mode]) / (rounds * repeats)
        print(
            f"{aggregate:10s} {mode:15s} {1e3 * wall:7.1f} ms a round, ratio {ratio:5.2f}, "
            f"{sent / 1e6:5.2f} MB a round"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for aggregate in ("parameters", "gradients"):
        compare(aggregate, arguments.rounds, arguments.repeats)


if __name__ == "__main__":
    main()
