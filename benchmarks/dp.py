"""What differential privacy of whole clients costs: accuracy by epsilon and number of clients.

    python benchmarks/dp.py [--datasets cora planetoid:pubmed] [--clients 10 50 100] [--seeds 3]
    python benchmarks/dp.py --tune --grid '{"rounds": [1, 5, 15], "dp_clip": [3, 10, 30]}'

    python benchmarks/dp.py --rows      what noise on fedgraph's rows costs, for 5 clients

The second prints validation accuracies of other seeds, by which ``WITH_NOISE`` was chosen.

Test accuracies are exact, as an experimenter sees them who has all graphs; those in a run's own
``result.json`` carry noise as well. Noise is that of ``--secure shares``: each client adds its
share, by the fewest clients that its sums can have. Only the masks are left out here, which cancel
in every sum (``tests/secure/test_noise.py`` shows that the sums are the same), because 100 clients
mask for seconds in every round.
"""

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import autofgl
from autofgl import secure
from autofgl.federation.engines.inprocess import InProcess
from autofgl.methods.baselines import FedAvg
from autofgl.runtime.metrics import Metrics
from autofgl.secure import SumSettings
from autofgl.secure.plain import PlainClient, PlainServer

EPSILONS = (2.0, 4.0, 8.0, 0.0)
#: Settings of every run, and of those with noise; those without have the usual 200 rounds of Adam.
COMMON: dict[str, Any] = {
    "model": "sgc", "hops": 4, "dropout": 0.0, "weight_decay": 0.0, "normalize_features": False,
}  # fmt: skip
WITH_NOISE = {"rounds": 5, "dp_clip": 10.0}


class Unmasked(PlainClient):
    """A party of ``shares`` without its masks."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        super().__init__(name, settings)
        self.fewest = 2 * len(settings.parties) // 3 + 1


class UnmaskedServer:
    """The server of such parties."""

    def __init__(self, settings: SumSettings) -> None:
        plain = PlainServer(settings)
        self.setup, self.total, self.seal = plain.setup, plain.total, plain.seal
        self.wrong, self.fewest = plain.wrong, plain.fewest


def run(dataset: str, clients: int, seed: int, **settings: Any) -> Metrics:
    """Exact figures of the last weights of a run."""
    graphs = _parts(dataset, clients, seed)
    usual = {**COMMON, **WITH_NOISE} if settings["dp_epsilon"] else COMMON
    checked = FedAvg.Settings(**{**usual, **settings})
    factories = {graph.name: FedAvg.party(graph, checked, seed, "shares") for graph in graphs}
    federation = InProcess(factories, strict=False)
    method = FedAvg(federation, checked, seed, "shares")
    method.connect()
    method.setup()
    while not method.done:
        method.step()
    method.training.evaluate_last(report=False)
    sides: list[Any] = [actor.party for actor in federation._actors.values()]
    models = [client.sharing.local for client in sides]
    sums = np.sum([model.evaluate() for model in models], axis=0)
    federation.close()
    return Metrics.of(sums)


def rows(dataset: str, clients: int, seed: int, **settings: Any) -> float:
    """Test accuracy of fedgraph, whose figures are exact without noise of their own."""
    graphs = _parts(dataset, clients, seed, "random")  # which cuts most edges
    few: dict[str, Any] = {"rounds": 60, "evaluate_every": 60}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        result = autofgl.run("fedgraph", graphs, seed=seed, out=out, **few, **settings)
    return result.test_accuracy


_GRAPHS: dict[Any, Any] = {}


def _parts(dataset: str, clients: int, seed: int, cut: str = "metis") -> Any:
    key = dataset, clients, seed, cut
    if key not in _GRAPHS:
        graph = autofgl.load(dataset, seed=seed)
        _GRAPHS[key] = autofgl.partition(graph, clients=clients, method=cut, seed=seed)
    return _GRAPHS[key]


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", nargs="+", default=["cora"])
    parser.add_argument("--clients", nargs="+", type=int, default=[10, 50, 100])
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--grid", type=json.loads, default={})
    parser.add_argument("--set", type=json.loads, default={})
    chosen = parser.parse_args()
    if chosen.rows:
        for dataset, share in itertools.product(chosen.datasets, ("none", "hidden", "all")):
            for epsilon in (0,) if share == "none" else (0, 8, 100, 1000):
                own: dict[str, Any] = {"share": share, "dp_rows_epsilon": epsilon}
                figures = [rows(dataset, 5, seed, **own) for seed in range(chosen.seeds)]
                mean, spread = statistics.mean(figures), statistics.stdev(figures)
                print(f"{dataset} {share} rows={epsilon} {mean:.3f} ± {spread:.3f}", flush=True)
        return
    setattr(secure, "_sides", lambda _: (Unmasked, UnmaskedServer))  # noqa: B010
    seeds = range(100, 100 + chosen.seeds) if chosen.tune else range(chosen.seeds)
    for dataset, clients, epsilon in itertools.product(
        chosen.datasets, chosen.clients, chosen.epsilons
    ):
        for values in itertools.product(*chosen.grid.values()):
            own = {**chosen.set, **dict(zip(chosen.grid, values, strict=True))}
            runs = [run(dataset, clients, seed, dp_epsilon=epsilon, **own) for seed in seeds]
            figures = [one.val_accuracy if chosen.tune else one.test_accuracy for one in runs]
            spread = statistics.stdev(figures) if len(figures) > 1 else 0.0
            mean = statistics.mean(figures)
            print(f"{dataset} {clients} {epsilon:g} {own} {mean:.3f} ± {spread:.3f}", flush=True)


if __name__ == "__main__":
    main()
