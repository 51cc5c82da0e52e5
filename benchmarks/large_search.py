"""Memory and seconds of a search by FL-AGCNS on graphs that are large for it.

    python benchmarks/large_search.py [wide] [million]

*wide*: 20,000 nodes with 5,000 features, 3 METIS clients, the method's own settings but for the
number of generations; every generation has its weight steps, and the last ones evolve. *million*:
10^6 nodes, 10 clients, ten generations and one finalist; nothing else is set, so that the clients
choose mini-batches by themselves. Each runs in a process of its own; `data` is the peak memory once
the graph is cut, `peak` that of the whole process, CPU seconds are of all threads.
"""

import json
import subprocess
import sys
import time
import warnings
from typing import Any

from large import peak_gb

CASES: dict[str, dict[str, Any]] = {
    "wide": {
        "data": {"nodes": 20_000, "features": 5_000, "classes": 4},
        "clients": 3,
        "settings": {"generations": 3, "warmup": 1, "trials": 0, "finalists": 1, "rounds": 5},
    },
    "million": {
        "data": {"nodes": 1_000_000},
        "clients": 10,
        "settings": {"generations": 10, "warmup": 5, "trials": 0, "finalists": 1, "rounds": 20},
    },
}


def one_run(case: str) -> None:
    """In a process of its own: generate, cut, search, train; tell what it took."""
    import autofgl
    from autofgl.errors import GraphNotice
    from autofgl.federation.engines.inprocess import InProcess
    from autofgl.graphs.catalog import DataSettings
    from autofgl.methods.fl_agcns.controller import FLAGCNS
    from autofgl.methods.fl_agcns.settings import FLAGCNSSettings

    warnings.simplefilter("ignore", GraphNotice)
    about = CASES[case]
    begin = time.process_time()
    graph = autofgl.load("synthetic", settings=DataSettings(**about["data"]))
    parts = autofgl.partition(graph, clients=about["clients"], method="metis", seed=0)
    del graph
    told: dict[str, Any] = {"data_s": time.process_time() - begin, "data_gb": peak_gb()}
    settings = FLAGCNSSettings(**about["settings"])
    factories = {part.name: FLAGCNS.party(part, settings, 0) for part in parts}
    method = FLAGCNS(InProcess(factories), settings, 0)
    method.connect()
    method.setup()
    seconds: dict[str, list[float]] = {"search": [], "train": []}
    while not method.done:
        start = time.process_time()
        row = method.step()
        seconds[row["phase"]].append(time.process_time() - start)
        print(json.dumps({"round": row["round"], "cpu_s": seconds[row["phase"]][-1],
                          "peak_gb": peak_gb()}), flush=True)  # fmt: skip
        if row["phase"] == "search":
            told["search_gb"] = peak_gb()
    outcome = method.finish()
    told |= {f"{phase}_s": sum(each) for phase, each in seconds.items()}
    told |= {"peak_gb": peak_gb(), "accuracy": outcome.test_accuracy}
    print(json.dumps(told | {"network": outcome.architecture, "cpu_s": time.process_time()}))


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        one_run(sys.argv[2])
        return
    for case in sys.argv[1:] or CASES:
        words = [sys.executable, __file__, "--one", case]
        done = subprocess.run(words, capture_output=True, check=True, text=True)
        told = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{case}: data {told['data_gb']:.2f} GB, search {told['search_gb']:.2f} GB and "
            f"{told['search_s']:.0f} s CPU, training {told['train_s']:.0f} s, peak "
            f"{told['peak_gb']:.2f} GB, {told['cpu_s']:.0f} s CPU in all; {told['network']}, "
            f"test accuracy {told['accuracy']:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
