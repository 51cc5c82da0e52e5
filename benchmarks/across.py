"""What edges between clients are worth: fedavg against the same network with sharing=across.

Each graph is cut into parts, with its public split; every network is trained with edges between
clients dropped (common), with hidden embeddings shared (hidden), with all embeddings shared (all),
the latter two with gradients sent back as well (backward), and on the pooled graph (centralized).
Accuracy in percent, mean ± std over seeds, and the megabytes of all messages.

Usage: python benchmarks/across.py [--graphs cora citeseer pubmed] [--partitions random louvain]
           [--models gcn appnp] [--variants common hidden …] [--clients 10] [--seeds 0 1 2]
           [--rounds 200]
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import autofgl

#: Settings by variant; None stands for the pooled graph.
VARIANTS: dict[str, dict[str, Any] | None] = {
    "common": {"sharing": "common"},
    "hidden": {"sharing": "across", "share": "hidden"},
    "all": {"sharing": "across", "share": "all"},
    "hidden, backward": {"sharing": "across", "share": "hidden", "backward": True},
    "all, backward": {"sharing": "across", "share": "all", "backward": True},
    "centralized": None,
}


def variants(model: str, partition: str, first: str) -> Iterator[str]:
    """Those that differ: APPNP's hops are all of hidden embeddings, and pooling undoes any cut."""
    for name in VARIANTS:
        same = (name.startswith("all") and model == "appnp") or (
            name == "centralized" and partition != first
        )
        if not same:
            yield name


def run_one(clients: Any, seed: int, pooled: bool, **settings: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        out, method = Path(folder) / "run", "centralized" if pooled else "fedavg"
        return autofgl.run(method, clients, seed=seed, out=out, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="*", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--partitions", nargs="*", default=["random", "louvain"])
    parser.add_argument("--models", nargs="*", default=["gcn", "appnp"])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    for name in given.graphs:
        graph = autofgl.load(f"planetoid:{name}")
        for partition in given.partitions:
            parts = {
                seed: autofgl.partition(graph, clients=given.clients, method=partition, seed=seed)
                for seed in given.seeds
            }
            for model in given.models:
                for variant in variants(model, partition, given.partitions[0]):
                    if variant not in given.variants:
                        continue
                    chosen = {**(VARIANTS[variant] or {}), "model": model, "rounds": given.rounds}
                    results = [
                        run_one(cut, seed, variant == "centralized", **chosen)
                        for seed, cut in parts.items()
                    ]
                    scores = [100 * one.test_accuracy for one in results]
                    sent = [
                        (one.figures["bytes_up"] + one.figures["bytes_down"]) / 1e6
                        for one in results
                    ]
                    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
                    print(
                        f"{name:9} {partition:8} {model:6} {variant:16} "
                        f"{statistics.fmean(scores):5.1f} ± {spread:3.1f}  "
                        f"{statistics.fmean(sent):7.0f} MB",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
