"""What a share of its own discriminator is worth to a client of SFGNN, whatever rule chooses it.

    python -m benchmarks.asfgnn_mixing --dataset cora

Every client keeps a constant share (``mixing=constant``), from 0, which is SFGNN without JS, to 1,
which shares nothing. Printed for each α: validation and test accuracy, and the differences from
share 0, seed by seed. Hyperparameters are those of ``asfgnn-fig3``; seeds are none of its.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import mean

import autofgl
from autofgl.experiments.papers import FIGURES
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph

FIGURE = FIGURES["asfgnn-fig3"]
PANELS = {panel.name: panel for panel in FIGURE.settings}
ALPHAS = sorted({panel.level for panel in FIGURE.settings}, reverse=True)
SFGNN = FIGURE.variants[0]
SHARES = (0.0, 0.3, 0.6, 0.9, 1.0)


def accuracies(
    clients: list[ClientGraph], seed: int, column: str, share: float
) -> tuple[float, float]:
    """Validation and test accuracy of a run, in percent."""
    settings = {**SFGNN.settings, **SFGNN.own[column], "mixing": "constant", "keep": share}
    with tempfile.TemporaryDirectory() as folder:
        result = autofgl.run(
            "sfgnn", clients, secure="none", out=Path(folder) / "run", rounds=FIGURE.rounds,
            seed=seed, checkpoint_every=10**6, **settings,
        )  # fmt: skip
    return 100 * result.val_accuracy, 100 * result.test_accuracy


def differences(found: list[float], base: list[float]) -> str:
    """Mean difference, and that of each seed."""
    each = [one - other for one, other in zip(found, base, strict=True)]
    return f"{mean(found):.1f} ({mean(each):+.1f}: {', '.join(f'{one:+.1f}' for one in each)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=("cora", "citeseer"), default="cora")
    parser.add_argument("--alphas", nargs="*", choices=ALPHAS, default=ALPHAS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[10, 11, 12])
    given = parser.parse_args()
    graph = autofgl.load(f"planetoid:{given.dataset}")
    for alpha in given.alphas:
        column = f"{given.dataset}-{alpha}"
        settings = PartitionSettings(**PANELS[column].shared)
        cuts = [
            autofgl.partition(graph, clients=2, method="labels", seed=seed, settings=settings)
            for seed in given.seeds
        ]
        base: list[list[float]] = []
        for share in SHARES:
            runs = [
                accuracies(clients, seed, column, share)
                for clients, seed in zip(cuts, given.seeds, strict=True)
            ]
            val, test = map(list, zip(*runs, strict=True))
            base = base or [val, test]
            print(
                f"α = {alpha}, share {share}: validation {differences(val, base[0])}, "
                f"test {differences(test, base[1])}",
                flush=True,
            )


if __name__ == "__main__":
    main()
