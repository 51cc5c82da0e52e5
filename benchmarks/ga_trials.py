"""Trials of graphfl-ga per second: linear networks all at once, and one by one.

    python benchmarks/ga_trials.py [--population 20] [--iterations 10] [--clients 6] [--whole]

One client of Cora searches for two rounds with the weights at first, after a search that lays out
what all have in common. CPU seconds of this process. ``one by one`` is what every trial was before
they were batched; networks with layers of their own (gcn, appnp) still are.
"""

import argparse
import time
from typing import Any

import autofgl
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.trials import ChromosomeTrials, Situation


def rate(client: ClientGraph, settings: GraphFLGASettings) -> tuple[float, int]:
    """Trials per CPU second, and how many there were; a search before warms up."""
    search = Configurator(client, settings, 0)
    blocks = search.space.initial(0)
    weights = [0.4] * len(search.space.shapes)
    search.evolve(Situation(1, blocks, weights))
    trials, start = 0, time.process_time()
    for at in (6, 7):  # when structure may differ
        trials += search.evolve(Situation(at, blocks, weights)).trials
    return trials / (time.process_time() - start), trials


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--whole", action="store_true", help="all have the whole graph")
    given = parser.parse_args()
    whole = PartitionSettings(whole_graph=given.whole)
    client = autofgl.partition(autofgl.load("cora"), given.clients, "random", 0, settings=whole)[0]
    batched = ChromosomeTrials.is_linear
    for first_order in (True, False):
        for families in ("sgc", "sgc,gcn,appnp"):
            for horizon in (1, 3):
                about: dict[str, Any] = {"families": families, "horizon": horizon}
                about |= {"population": given.population, "iterations": given.iterations}
                settings = GraphFLGASettings(**about, first_order=first_order)
                found, count = rate(client, settings)
                ChromosomeTrials.is_linear = lambda *_: False  # type: ignore[method-assign]
                few = settings.model_copy(update={"population": 8, "iterations": 2})
                alone, _ = rate(client, few)
                ChromosomeTrials.is_linear = batched  # type: ignore[method-assign]
                order = "first" if first_order else "second"
                print(
                    f"{order} order, {families}, horizon {horizon}: {found:7.1f} trials per CPU "
                    f"second ({count} trials), one by one {alone:6.1f}: {found / alone:.1f} times",
                    flush=True,
                )


if __name__ == "__main__":
    main()
