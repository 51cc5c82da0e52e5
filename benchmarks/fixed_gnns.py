"""The fixed GNNs under federation, paper beside ours: docs/results/fixed-gnns.md.

    AUTOFGL_DATA=... python benchmarks/fixed_gnns.py [--datasets planetoid:cora …] [--seeds 5]

Without raw files it takes the embedded Cora, whose split is not the paper's.

3 METIS clients, public split, gradients averaged every epoch, weights of the best validation round.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import autofgl

#: FL-AGCNS, Table 3 (FLACC in percent), where METHODS.md carries it.
PAPER = {
    "planetoid:cora": {
        "gat": 79.0, "sage": 78.8, "gcn": 81.3, "sgc": 78.1,
        "appnp": 82.2, "agnn": 81.2, "arma": 75.2, "gatedgraph": 76.6,
    },
    "planetoid:citeseer": {"gcn": 68.6, "appnp": 69.5},
    "planetoid:pubmed": {"gcn": 77.3, "agnn": 78.1},
}  # fmt: skip

#: Where the common protocol does not suit a family.
OWN_SETTINGS: dict[str, dict[str, float]] = {"sgc": {"lr": 0.2, "weight_decay": 1e-4}}

MODELS = ("gcn", "gat", "sage", "sgc", "appnp", "agnn", "arma", "gatedgraph")


def accuracies(dataset: str, model: str, seeds: int, **settings: Any) -> list[float]:
    found = []
    for seed in range(seeds):
        graph = autofgl.load(dataset, seed=seed)
        clients = autofgl.partition(graph, clients=3, method="metis", seed=seed)
        own: dict[str, Any] = {**OWN_SETTINGS.get(model, {}), **settings}
        with tempfile.TemporaryDirectory() as folder:
            result = autofgl.run(
                "fedavg",
                clients,
                seed=seed,
                out=Path(folder) / "run",
                model=model,
                aggregate="gradients",
                **own,
            )
        found.append(100 * result.test_accuracy)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    usual = "planetoid:cora" if os.environ.get("AUTOFGL_DATA") else "cora"
    parser.add_argument("--datasets", nargs="+", default=[usual])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", nargs="*", default=[], help="settings for all runs, key=value")
    arguments = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    print(f"| dataset | network | paper | ours, {arguments.seeds} seeds |")
    print("|---|---|---|---|")
    for dataset in arguments.datasets:
        for model in arguments.models:
            found = accuracies(dataset, model, arguments.seeds, **settings)
            paper = PAPER.get(dataset, {}).get(model, "")
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            mean = statistics.mean(found)
            print(f"| {dataset} | {model} | {paper} | {mean:.1f} ± {spread:.1f} |", flush=True)


if __name__ == "__main__":
    main()
