"""Hyperparameters of ASFGNN's tables: the same search for each row, by validation.

    python -m benchmarks.asfgnn_tuning --dataset planetoid:cora --groups "0,1,2,4|3,5,6" --trials 16
    python -m benchmarks.asfgnn_tuning --rows sfgnn without --alphas 0.6 0.7 0.8 0.9 --seeds 10 11

Each row, all with the same network, is run with hyperparameters that Bayesian optimization
proposes, the same for all clients; the first trial is the defaults. At the end each tries what the
others found, since a dozen trials may miss by chance what is good for all. The loss is one minus
the validation accuracy, its mean over the cuts of seeds that no table reports on, for each α. Test
figures are not read. One JSON line for each trial; ``--known`` takes up the winners of an earlier
run's lines.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import autofgl
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.search.bayes import Bayes
from autofgl.search.genes import Categorical, Integer, LogFloat, Ordinal
from autofgl.search.space import SearchSpace

BASELINE = {"model": "sfgnn", "select": "accuracy"}
#: Method and settings of each row; ``without`` is SFGNN without JS.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "sfgnn": ("sfgnn", {"chosen_by": "client"}),
    "without": ("sfgnn", {"chosen_by": "client", "mixing": "none"}),
    "separate": ("separate", BASELINE),
    "fedavg": ("fedavg", BASELINE),
    "centralized": ("centralized", BASELINE),
}
#: Those of ``asfgnn-table3``.
TABLE_3 = [name for name in ROWS if name != "without"]
#: Clients of each cut, by α and seed.
Cuts = Mapping[tuple[float, int], list[ClientGraph]]
SPACE = SearchSpace(
    (
        Ordinal("dropout", (0.0, 0.25, 0.5, 0.7)),
        Ordinal("weight_decay", (0.0, 1e-4, 5e-4, 1e-3)),
        Integer("layers", 1, 4),
        LogFloat("lr", 2e-3, 2e-2),
        Categorical("normalize_features", (True, False)),
    )
)
DEFAULTS = {
    "dropout": 0.5, "weight_decay": 5e-4, "layers": 2, "lr": 0.01, "normalize_features": True,
}  # fmt: skip


def measure(row: str, cuts: Cuts, hyper: dict[str, Any], rounds: int) -> tuple[list[float], float]:
    """Validation accuracy of each cut, and the seconds of all runs."""
    method, settings = ROWS[row]
    accuracies, seconds = [], 0.0
    for (_, seed), clients in cuts.items():
        with tempfile.TemporaryDirectory() as folder:
            result = autofgl.run(
                method, clients, secure="none", out=Path(folder) / "run", rounds=rounds, seed=seed,
                checkpoint_every=10**6, **settings, **hyper,
            )  # fmt: skip
        accuracies.append(result.val_accuracy)
        seconds += result.figures["wall_s"]
    return accuracies, seconds


def tune(row: str, cuts: Cuts, trials: int, rounds: int) -> dict[str, Any]:
    """The best trial of a row."""
    tuner = Bayes(SPACE, seed=0, startup=6)
    done = []
    for number in range(trials):
        hyper = DEFAULTS if number == 0 else tuner.ask()[0]
        done.append(tried(row, cuts, hyper, rounds))
        if number:
            tuner.tell([hyper], [1 - done[-1]["val_accuracy"]])
    return max(done, key=accuracy_of)


def tried(row: str, cuts: Cuts, hyper: dict[str, Any], rounds: int) -> dict[str, Any]:
    """One trial, printed."""
    accuracies, seconds = measure(row, cuts, hyper, rounds)
    trial = {"row": row, "val_accuracy": mean(accuracies), "each": accuracies}
    trial |= {"seconds": seconds, "hyper": hyper}
    print(json.dumps(trial), flush=True)
    return trial


def accuracy_of(trial: Mapping[str, Any]) -> float:
    """What trials are compared by."""
    return float(trial["val_accuracy"])


def winners(path: Path) -> dict[str, dict[str, Any]]:
    """The best trial of each row in an earlier run's lines."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["best"]["row"]: line["best"] for line in lines if "best" in line}


def exchange(
    best: Mapping[str, dict[str, Any]], cuts: Cuts, rounds: int
) -> dict[str, dict[str, Any]]:
    """Every row tries what the others found."""
    found = {}
    for row, own in best.items():
        others = [trial["hyper"] for trial in best.values() if trial["hyper"] != own["hyper"]]
        trials = [tried(row, cuts, hyper, rounds) for hyper in others]
        found[row] = max([own, *trials], key=accuracy_of)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="planetoid:cora")
    parser.add_argument("--groups", default="0,1,2,4|3,5,6")
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=TABLE_3)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--alphas", type=float, nargs="*", default=[1.0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[10, 11, 12])
    parser.add_argument("--known", type=Path)
    given = parser.parse_args()
    graph = autofgl.load(given.dataset)
    cuts = {
        (alpha, seed): autofgl.partition(
            graph, clients=2, method="labels", seed=seed,
            settings=PartitionSettings(label_groups=given.groups, label_alpha=alpha),
        )
        for alpha in given.alphas
        for seed in given.seeds
    }  # fmt: skip
    best = winners(given.known) if given.known else {}
    for row in given.rows:
        if row not in best:
            best[row] = tune(row, cuts, given.trials, given.rounds)
            print(json.dumps({"best": best[row]}), flush=True)
    for trial in exchange(best, cuts, given.rounds).values():
        print(json.dumps({"best": trial}), flush=True)


if __name__ == "__main__":
    main()
