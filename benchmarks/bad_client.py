"""One client of ten sends wrong updates: what is left of the accuracy.

    python benchmarks/bad_client.py [--rounds 100] [--seeds 3] [--first 0] [--secure none shares]

Federated averaging on Cora, cut into ten clients by METIS. One of them sends, from the first round
on, in place of every update: random bits of the right type and size (garbage), its own times -1000
(huge), NaN (which no fixed-point number is: random bits with secure sums), or its own with the
sign flipped, as long as it is or ten times as long. *Without it* is the same run with the nine
others from the start. Accuracies are of the nine honest clients' test nodes, in percent, mean and
standard deviation over the seeds.
"""

import argparse
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import autofgl
from autofgl.errors import AutoFGLError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.baselines import FedAvg
from autofgl.runtime.federated_settings import FederatedSettings

BAD = "client-4"
ATTACKS = ("garbage", "huge", "nan", "flipped", "flipped-10")
#: What an attack multiplies an update by.
FACTORS = {"huge": -1000, "flipped": -1, "flipped-10": -10}


@dataclass(frozen=True)
class End:
    """How a run ended: accuracy on the honest clients' test nodes, refused rounds, who is out."""

    accuracy: float
    refused: int = 0
    dropped: str = ""


def run(
    clients: list[ClientGraph], settings: FederatedSettings, seed: int, secure: str, how: str
) -> End:
    """One run; the bad client is part of it if it does something."""
    taking_part = [graph for graph in clients if how or graph.name != BAD]
    federation = InProcess(
        {graph.name: FedAvg.party(graph, settings, seed, secure) for graph in taking_part}
    )
    try:
        method = FedAvg(federation, settings, seed, secure)
        method.connect()
        method.setup()
        if how:
            misbehave(federation._actors[BAD].party, how, seed)
        rows = []
        while not method.done:
            rows.append(method.step())
        weights = method.finish().models["model"]
        refused = sum("refused" in row for row in rows)
        return End(honest_accuracy(federation, weights), refused, ", ".join(method.clients.dropped))
    finally:
        federation.close()


def honest_accuracy(federation: InProcess, weights: Mapping[str, Any]) -> float:
    """Of a model, on the test nodes of all but the bad client."""
    right = nodes = 0.0
    for name, actor in federation._actors.items():
        if name != BAD:
            local = actor.party.sharing.local  # type: ignore[attr-defined]
            local.load_weights(weights)
            _, correct, count = local.evaluate().reshape(3, 3)[2]
            right, nodes = right + correct, nodes + count
    return 100 * right / nodes


def misbehave(party: Any, how: str, seed: int) -> None:
    """Have a client spoil its part of every update."""
    protect, take, rng = party.sums.protect, party.sharing.take, np.random.default_rng(seed)
    start: dict[str, Any] = {}

    def remember(payload: Payload, opened: Mapping[str, Any]) -> None:
        take(payload, opened)
        start.update(party.sharing.local.weights())

    def spoil(tag: str, vectors: Mapping[str, Any], **about: Any) -> Payload:
        if "update" not in tag:
            return dict(protect(tag, vectors, **about))
        if how in FACTORS:
            factor = np.float32(FACTORS[how])
            share = np.float32(vectors["share"])
            gradients = party.settings.aggregate == "gradients"
            bad = {
                name: value if name not in start
                else factor * value if gradients or how == "huge"
                else factor * value + (1 - factor) * share * start[name]
                for name, value in vectors.items()
            }  # fmt: skip
            return dict(protect(tag, bad, **about))
        sent = dict(protect(tag, vectors, **about))
        if "words" in sent:
            return {**sent, "words": rng.integers(0, 2**64, sent["words"].shape, np.uint64)}
        if how == "nan":
            return {**sent, "values": np.full_like(sent["values"], np.nan)}
        bits = rng.integers(0, 2**32, sent["values"].shape, np.uint32).view(np.float32)
        return {**sent, "values": bits.astype(sent["values"].dtype)}

    party.sharing.take, party.sums.protect = remember, spoil


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--attacks", nargs="+", default=ATTACKS)
    parser.add_argument("--secure", nargs="+", default=["none", "shares"])
    parser.add_argument("--aggregate", nargs="+", default=["gradients", "parameters"])
    given = parser.parse_args()
    console, graph = Console(), autofgl.load("cora")
    table = Table(title=f"{given.rounds} rounds, {given.seeds} seeds", min_width=100)
    for heading in (
        "aggregate",
        "secure",
        "one of ten sends",
        "accuracy",
        "lost",
        "refused",
        "out",
    ):
        table.add_column(heading)
    for aggregate in given.aggregate:
        settings = FederatedSettings(rounds=given.rounds, aggregate=aggregate)
        for secure in given.secure:
            usual = 0.0
            for how in ("", *given.attacks):
                ends = []
                for seed in range(given.first, given.first + given.seeds):
                    clients = autofgl.partition(graph, clients=10, method="metis", seed=seed)
                    try:
                        ends.append(run(clients, settings, seed, secure, how))
                    except AutoFGLError as error:
                        console.print(f"{aggregate} {secure} {how} seed {seed}: {error}")
                accuracies = [end.accuracy for end in ends]
                mean = statistics.mean(accuracies) if ends else float("nan")
                usual = usual if how else mean
                cells = [aggregate, secure, how or "(without it)"]
                cells.append(f"{mean:.1f} ± {statistics.pstdev(accuracies or [0.0]):.1f}")
                cells += [f"{usual - mean:+.1f}", ", ".join(str(end.refused) for end in ends)]
                table.add_row(*cells, " | ".join(end.dropped or "-" for end in ends))
                console.print(*cells, " | ".join(end.dropped or "-" for end in ends))
    console.print(table)


if __name__ == "__main__":
    main()
