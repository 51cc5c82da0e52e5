"""A FedAvg round of GCN on Cora under each secure mode, against the plain round.

    python benchmarks/secure_round.py [--rounds 20] [--repeats 5] [--compress none half int8]
    python benchmarks/secure_round.py --generation     # a generation of fl-agcns instead

3 METIS clients, 3 local epochs, width 64, on the in-process engine. The modes take turns; the CPU
time of a round, all clients and the server together, is compared with `none` within each turn.
Bytes are those of a round, of all clients, up and down.
"""

import argparse
import statistics
import time
from typing import Any

import autofgl
from autofgl.federation.engines.inprocess import InProcess
from autofgl.methods.baselines import FedAvg
from autofgl.methods.fl_agcns.controller import FLAGCNS
from autofgl.runtime.federated_settings import AveragingSettings
from autofgl.secure import MODES

#: What a generation costs in bytes are its steps on the SuperNet, each of which has 20 codes.
SEARCH = {"population": 20, "warmup": 0, "generations": 99}
HAS_COMPRESS = "compress" in AveragingSettings.model_fields  # an older version, for comparison


def start(kind: Any, mode: str, given: dict[str, Any]) -> Any:
    clients = autofgl.partition(autofgl.load("cora"), clients=3, method="metis", seed=0)
    settings = kind.Settings.model_validate(given)
    factories = {graph.name: kind.party(graph, settings, 0, mode) for graph in clients}
    method = kind(InProcess(factories), settings, 0, mode)
    method.connect()
    method.setup()
    for _ in range(2):  # warm up
        method.step()
    return method


def traffic(method: Any) -> list[int]:
    meter = method.federation.meter
    return [meter.total("up"), meter.total("down")]


def seconds(method: Any, rounds: int) -> float:
    begin = time.process_time()
    for _ in range(rounds):
        method.step()
    return (time.process_time() - begin) / rounds


def compare(kind: Any, title: str, given: dict[str, Any], options: argparse.Namespace) -> None:
    modes = options.modes
    methods = {mode: start(kind, mode, given) for mode in modes}
    before = {mode: traffic(method) for mode, method in methods.items()}
    turns = [
        {mode: seconds(method, options.rounds) for mode, method in methods.items()}
        for _ in range(options.repeats)
    ]
    for mode, method in methods.items():
        cpu = statistics.median(turn[mode] for turn in turns)
        ratio = statistics.median(turn[mode] / turn[modes[0]] for turn in turns)
        rounds = options.rounds * options.repeats
        up, down = (
            (now - then) / rounds for now, then in zip(traffic(method), before[mode], strict=True)
        )
        print(
            f"{title:20s} {mode:15s} {1e3 * cpu:8.1f} ms CPU a round, ratio {ratio:5.2f}, "
            f"{up / 1e6:7.3f} MB up, {down / 1e6:7.3f} MB down",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compress", nargs="+", default=["none"])
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--aggregate", nargs="+", default=["parameters", "gradients"])
    parser.add_argument("--generation", action="store_true")
    options = parser.parse_args()
    for compress in options.compress:
        given = {"compress": compress} if HAS_COMPRESS else {}
        if options.generation:
            compare(FLAGCNS, f"generation {compress}", {**SEARCH, **given}, options)
            continue
        for aggregate in options.aggregate:
            about = {"local_epochs": 3, "aggregate": aggregate, **given}
            compare(FedAvg, f"{aggregate} {compress}", about, options)


if __name__ == "__main__":
    main()
