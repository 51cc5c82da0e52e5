"""What `auto_baselines.py` has measured, as tables and a figure.

Of every federation: the accuracy of `auto` and of the best baseline, with the standard error of an
accuracy on so many test nodes (of the mean over seeds, with several); how much of the final
validation accuracy `auto` had after a fifth of its time; and what the run cost against its finalist
alone and the search. Clients are counted as worse off where McNemar's test on their own test nodes
says so at the 5 % level.

Usage: python benchmarks/auto_summary.py ROWS.jsonl RUNS [--svg FILE]   (RUNS: folder of `--runs`)
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

BASELINES = ("alone", "fedavg gcn", "fedavg appnp", "personal", "fedgraph")


def read(file: Path) -> dict[str, dict[str, dict[int, float]]]:
    """Accuracies in percent by federation, method and seed."""
    rows: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for line in file.read_text().splitlines():
        row = json.loads(line)
        rows[row["federation"]][row["method"]][row["seed"]] = row["accuracy"]
    return {name: dict(one) for name, one in rows.items() if "auto" in one and len(one) > 1}


def standard_error(values: list[float], nodes: int) -> float:
    """Of a mean over seeds; with one seed that of an accuracy in percent on so many nodes."""
    if len(values) > 1:
        return stdev(values) / math.sqrt(len(values))
    return math.sqrt(values[0] * (100 - values[0]) / max(nodes, 1))


def history(folder: Path) -> list[dict[str, Any]]:
    """The rounds of a run."""
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def anytime(rounds: list[dict[str, Any]], shares: list[float]) -> list[float | None]:
    """Validation accuracy, in percent, of the recipe with the lowest loss so far, after shares of
    the run's time; None before there is any.
    """
    whole, best, curve, at = rounds[-1]["wall_s"], (math.inf, 0.0), [], 0
    for share in shares:
        while at < len(rounds) and rounds[at]["wall_s"] <= share * whole:
            loss, accuracy = rounds[at].get("val_loss"), rounds[at].get("val_accuracy")
            if loss is not None and accuracy is not None:
                best = min(best, (loss, 100 * accuracy))
            at += 1
        curve.append(best[1] if best[0] < math.inf else None)
    return curve


def costs(rounds: list[dict[str, Any]], result: dict[str, Any]) -> tuple[float, float]:
    """Megabytes of the run, and how many times those of its finalist alone and of the search."""
    by_stage: dict[str, float] = defaultdict(float)
    by_recipe: dict[str, float] = defaultdict(float)
    last = 0.0
    for row in rounds:
        now = row["bytes_up"] + row["bytes_down"]
        by_stage[row["phase"]] += now - last
        by_recipe[row.get("code", "")] += now - last
        last = now
    taken = result["choice"]["label"].removeprefix("mean of ").split(" and ")
    alone = sum(by_recipe[one.split(", ")[0]] for one in taken)
    return last / 1e6, last / max(alone + by_stage["search"], 1.0)


def figure(curves: dict[str, list[float | None]], shares: list[float]) -> str:
    """Validation accuracy of the best so far over the share of the time, by federation."""
    from autofgl.report.charts import Chart, Series
    from autofgl.report.charts.figures import charts_svg

    charts = [
        Chart(name, "share of the time, %", [Series.of("best so far", points)])
        for name, curve in curves.items()
        if (points := [(100 * x, y) for x, y in zip(shares, curve, strict=True) if y is not None])
    ]
    return charts_svg([charts[at : at + 3] for at in range(0, len(charts), 3)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, nargs="?", help="what --out of auto_baselines.py names")
    parser.add_argument("runs", type=Path, nargs="?", help="what its --runs names")
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    if given.rows is None or given.runs is None:
        parser.print_usage()
        return
    shares = [at / 20 for at in range(1, 21)]
    curves: dict[str, list[float | None]] = {}
    ahead, worse_off, sites = [], 0, 0
    print("| federation | seeds | auto | best baseline | ahead | standard error | after a fifth |"
          " final | MB | times finalist and search |\n|" + "---|" * 10)  # fmt: skip
    for name, methods in read(given.rows).items():
        seeds = sorted(set.intersection(*(set(one) for one in methods.values())))
        if not seeds:
            continue
        mean = {one: fmean(values[seed] for seed in seeds) for one, values in methods.items()}
        best = max((one for one in BASELINES if one in mean), key=mean.__getitem__)
        folder = given.runs / f"{name}-{seeds[0]}"
        result, rounds = json.loads((folder / "result.json").read_text()), history(folder)
        error = standard_error(
            [methods["auto"][seed] for seed in seeds], result["certificate"]["test_nodes"]
        )
        curve = curves[name] = anytime(rounds, shares)
        megabytes, times = costs(rounds, result)
        for one in result["certificate"]["against"].values():
            worse_off += one["sites"]["surely_worse"]
            sites += sum(one["sites"][key] for key in ("better", "same", "worse"))
        ahead.append(mean["auto"] - mean[best])
        early = "–" if curve[3] is None else f"{curve[3]:.1f}"
        print(f"| {name} | {len(seeds)} | {mean['auto']:.1f} | {mean[best]:.1f} ({best}) | "
              f"{ahead[-1]:+.1f} | {error:.1f} | {early} | {100 * result['val_accuracy']:.1f} | "
              f"{megabytes:.0f} | {times:.1f} |")  # fmt: skip
    if ahead:
        print(f"\nahead by {fmean(ahead):+.1f} points on average, {min(ahead):+.1f} at worst; "
              f"{worse_off} of {sites} comparisons of a client with a baseline of the certificate "
              "are surely worse")  # fmt: skip
    if given.svg:
        given.svg.write_text(figure(curves, shares))


if __name__ == "__main__":
    main()
