"""Hyper-parameters of the rows of ``asfgnn-table3``: the same search for each, by validation.

    python -m benchmarks.asfgnn_tuning --dataset planetoid:cora --groups "0,1,2,4|3,5,6" --trials 16

Each of centralized, fedavg, separate and sfgnn, all with the same network, is run on the cut of
seed 0 with hyper-parameters that Bayesian optimisation proposes, the same for all clients. The loss
is one minus the validation accuracy. Test figures are not read. One JSON line for each trial.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.partition import PartitionSettings
from autofgl.search.bayes import Bayes
from autofgl.search.genes import Genes, Integer, LogFloat, Ordinal

BASELINE = {"model": "sfgnn", "select": "accuracy"}
METHODS: dict[str, dict[str, Any]] = {
    "sfgnn": {},
    "separate": BASELINE,
    "fedavg": BASELINE,
    "centralized": BASELINE,
}
SPACE = Genes(
    (
        Ordinal("dropout", (0.0, 0.25, 0.5)),
        Ordinal("weight_decay", (0.0, 5e-4, 1e-3, 5e-3, 1e-2)),
        Integer("layers", 1, 4),
        LogFloat("lr", 2e-3, 2e-2),
    )
)


def measure(
    method: str, clients: list[ClientGraph], hyper: dict[str, Any], rounds: int
) -> tuple[float, float]:
    """Validation accuracy and seconds of a run."""
    with tempfile.TemporaryDirectory() as folder:
        result = autofgl.run(
            method, clients, secure="none", out=Path(folder) / "run", rounds=rounds,
            checkpoint_every=10**6, **METHODS[method], **hyper,
        )  # fmt: skip
    return result.val_accuracy, result.figures["wall_s"]


def tune(method: str, clients: list[ClientGraph], trials: int, rounds: int) -> dict[str, Any]:
    tuner = Bayes(SPACE, seed=0, startup=6)
    best: dict[str, Any] = {"val_accuracy": -1.0}
    for _ in range(trials):
        [hyper] = tuner.ask()
        accuracy, seconds = measure(method, clients, hyper, rounds)
        tuner.tell([hyper], [1 - accuracy])
        trial = {"method": method, "val_accuracy": accuracy, "seconds": seconds, "hyper": hyper}
        print(json.dumps(trial), flush=True)
        if accuracy > best["val_accuracy"]:
            best = trial
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="planetoid:cora")
    parser.add_argument("--groups", default="0,1,2,4|3,5,6")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    settings = PartitionSettings(label_groups=given.groups)
    clients = autofgl.partition(
        autofgl.load(given.dataset), clients=2, method="labels", seed=0, settings=settings
    )
    for method in given.methods:
        best = tune(method, clients, given.trials, given.rounds)
        print(json.dumps({"best": best}), flush=True)


if __name__ == "__main__":
    main()
