"""Seconds to a common accuracy: a learned sampling policy, GraphSAGE and full batch.

The graph is drawn (dataset reddit-like), and is not Reddit; clients are disjoint and random. The
policy is learned once, on the clients of the first seed, and what that costs is told apart. Then
all samplers train, seed by seed and in turn. The target is a point below the lowest of their best
validation accuracies of a seed. Seconds are those of training rounds, of all clients on one
machine, without evaluations; CPU seconds those of a whole run, in proportion to the rounds made.

Usage: python benchmarks/reddit_like.py [--nodes 230000] [--clients 20] [--rounds 60]
           [--episodes 8] [--episode-rounds 20] [--batch 128] [--seeds 0 1 2]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import autofgl
from autofgl.graphs.catalog import DataSettings

TRAINING: dict[str, Any] = {"hidden": 128, "dropout": 0.2, "lr": 0.01, "evaluate_every": 2}
SAMPLERS = ("ddpg", "sage", "full")


def reached(history: list[dict[str, Any]], cpu: float, target: float) -> tuple[float, ...]:
    """Rounds, seconds, CPU seconds and cost until a validation accuracy; NaN if there is none."""
    seconds = cost = 0.0
    for at, row in enumerate(history, 1):
        seconds, cost = seconds + row["train_s"], cost + row["cost"]
        if row["val_accuracy"] is not None and row["val_accuracy"] >= target:
            return at, seconds, cpu * at / len(history), cost / 1e6
    return (float("nan"),) * 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=230_000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--episode-rounds", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    given = parser.parse_args()
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in SAMPLERS}
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy" / "policy.afp"
        for seed in given.seeds:
            graph = autofgl.load("reddit-like", seed=seed, settings=DataSettings(nodes=given.nodes))
            clients = autofgl.partition(graph, clients=given.clients, method="random", seed=seed)
            common = {**TRAINING, "batch": given.batch}
            if not policy.exists():
                learning = {"episodes": given.episodes, "episode_rounds": given.episode_rounds}
                learning |= {"profile_rounds": given.episode_rounds, "warm_up": given.episodes // 4}
                learned = autofgl.run(
                    "fedgraph", clients, out=policy.parent, sampler="ddpg", rounds=0, seed=seed,
                    **common, **learning,
                )  # fmt: skip
                spent = [row for row in learned.history if row["phase"] != "train"]
                seconds, cost = (sum(row[key] for row in spent) for key in ("train_s", "cost"))
                print(f"learning the policy: {seconds:.1f} s, cost {cost / 1e6:.1f} M", flush=True)
            runs, cpu = {}, {}
            for sampler in SAMPLERS:
                more: dict[str, Any] = {"policy": str(policy)} if sampler == "ddpg" else {}
                out, begin = Path(folder) / f"{sampler}-{seed}", time.process_time()
                runs[sampler] = autofgl.run(
                    "fedgraph", clients, out=out, sampler=sampler, rounds=given.rounds, seed=seed,
                    **common, **more,
                )  # fmt: skip
                cpu[sampler] = time.process_time() - begin
            histories = {name: list(run.history) for name, run in runs.items()}
            best = [max(row["val_accuracy"] or 0 for row in rows) for rows in histories.values()]
            for name, rows in histories.items():
                found[name].append(
                    (
                        100 * runs[name].test_accuracy,
                        *reached(rows, cpu[name], min(best) - 0.01),
                        cpu[name],
                        sum(row["cost"] for row in rows) / 1e6,
                    )
                )
    print("to the target: sampler, accuracy, rounds, s, CPU s, cost; in all: CPU s, cost")
    for name, figures in found.items():
        accuracy, *others = (statistics.fmean(column) for column in zip(*figures, strict=True))
        print(f"{name:9} {accuracy:9.1f}" + "".join(f" {value:12.1f}" for value in others))


if __name__ == "__main__":
    main()
