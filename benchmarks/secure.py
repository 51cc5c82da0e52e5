"""Secure sums: seconds and bytes per million float32 values and party, for each mode.

    python benchmarks/secure.py [--values 1000000] [--parties 3] [--rounds 3]

Encrypt is a party's work before it sends, add the server's for one contribution, decrypt what a
party does to open the sum. Up and down are the bytes that a party sends and receives for a sum
that the server may read, on average. The modes take turns and the best of the rounds counts, since
a busy machine only ever adds time. The reference is TenSEAL at the parameters of its tutorials:
ring 8192, primes of 60, 40, 40 and 60 bits, scale 2**40.

The second table has whole sums of a GCN on Cora: all parties' work together, in one thread.

    python benchmarks/secure.py --by-parties [--against ../other/src]

`shares` by the number of parties instead: CPU seconds of a whole sum of a tiny network, all parties
together, and bytes of a party. With the source folder of another version, the two take turns, and
the ratio of their CPU seconds is shown too, at 3 parties also for larger networks.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from autofgl.federation.payload import Payload, encoded_size
from autofgl.secure import MODES, make_client, make_server

REFERENCE = "tenseal default"
CORA_GCN = 92_231  # 1433 x 64 + 64 + 64 x 7 + 7
TINY = 1000
BY_PARTIES = (
    (3, TINY),
    (3, CORA_GCN),
    (3, 1_000_000),
    (10, TINY),
    (30, TINY),
    (100, TINY),
    (300, TINY),
)
MEGA = 1e6

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Cost:
    """What one party's part of a sum costs, in seconds and bytes."""

    encrypt: float
    add: float
    decrypt: float
    up: float
    down: float

    @property
    def seconds(self) -> float:
        return self.encrypt + self.add + self.decrypt

    def scaled(self, factor: float) -> "Cost":
        return Cost(*(getattr(self, field.name) * factor for field in fields(self)))

    def best(self, other: "Cost") -> "Cost":
        return Cost(*(min(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


class Clock:
    """Adds up the time spent in its blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start


class SumBench:
    """One mode, set up: the server and all parties in this thread."""

    def __init__(self, mode: str, parties: int) -> None:
        names = [f"party-{index}" for index in range(parties)]
        self.clients = {name: make_client(mode, name=name, parties=names) for name in names}
        self.server = make_server(mode, parties=names)
        self.rounds = 0
        self._begin()
        self.server.setup(self._ask)

    def run(self, values: Values) -> Cost:
        """Protect at every party, and let the server read the sum."""
        self._begin()
        self.rounds += 1
        tag = f"round-{self.rounds}"
        sent: dict[str, Payload] = {}
        for name, client in self.clients.items():
            with self.protecting:
                sent[name] = client.protect(tag, {"w": values})
            self.up += encoded_size(sent[name])
        whole = Clock()
        with whole:
            self.server.total(tag, sent, self._ask)
        parties = len(self.clients)
        return Cost(
            self.protecting.seconds / parties,
            (whole.seconds - self.opening.seconds - self.counting.seconds) / parties,
            self.opening.seconds / max(1, self.answered),
            self.up / parties,
            self.down / parties,
        )

    def answer(self, phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        """What the parties answer, not measured."""
        return {name: self.clients[name].handle(phase, m) for name, m in messages.items()}

    def _begin(self) -> None:
        self.protecting, self.opening, self.counting = Clock(), Clock(), Clock()
        self.up = self.down = self.answered = 0

    def _ask(self, phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        with self.opening:
            answers = self.answer(phase, messages)
        with self.counting:
            self.up += sum(map(encoded_size, answers.values()))
            self.down += sum(map(encoded_size, messages.values()))
        self.answered = len(answers)  # the last phase has the work
        return answers


class TenSealBench:
    """TenSEAL's vectors, a chunk of as many values as there are slots at a time."""

    def __init__(self, parties: int) -> None:
        self.parties = parties
        self.tenseal = importlib.import_module("tenseal")
        self.context = self.tenseal.context(
            self.tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60]
        )
        self.context.global_scale = 2.0**40

    def run(self, values: Values) -> Cost:
        encrypting, adding, decrypting = Clock(), Clock(), Clock()
        with encrypting:
            sent = [
                self.tenseal.ckks_vector(self.context, values[start : start + 4096]).serialize()
                for start in range(0, values.size, 4096)
            ]
        with adding:
            summed = [self._add(data).serialize() for data in sent]
        with decrypting:
            for data in summed:
                np.array(self._load(data).decrypt())
        up, down = sum(map(len, sent)), sum(map(len, summed))
        # as with our ckks: one party decrypts, and tells the server 8 bytes a value
        return Cost(
            encrypting.seconds,
            adding.seconds / self.parties,
            decrypting.seconds,
            up + 8 * values.size / self.parties,
            down / self.parties,
        )

    def _add(self, data: bytes) -> Any:
        total = self._load(data)
        for _ in range(self.parties - 1):
            total += self._load(data)
        return total

    def _load(self, data: bytes) -> Any:
        return self.tenseal.ckks_vector_from(self.context, data)


def measure(
    benches: Mapping[str, Callable[[Values], Cost]], values: Values, rounds: int
) -> dict[str, Cost]:
    """The best of several rounds, in which all take turns."""
    costs: dict[str, Cost] = {}
    for _ in range(rounds):
        for name, run in benches.items():
            cost = run(values)
            costs[name] = costs[name].best(cost) if name in costs else cost
    return costs


def per_million(costs: Mapping[str, Cost], size: int) -> Table:
    table = Table(title=f"Per million float32 values and party ({size:,} measured)")
    for column in ("mode", "encrypt s", "add s", "decrypt s", "up MB", "down MB"):
        table.add_column(column, justify="left" if column == "mode" else "right")
    for column in ("time / default", "bytes / default"):
        table.add_column(column, justify="right")
    reference = costs[REFERENCE]
    for name, cost in costs.items():
        million = cost.scaled(MEGA / size)
        table.add_row(
            name,
            *(f"{part:.4f}" for part in (million.encrypt, million.add, million.decrypt)),
            *(f"{part / MEGA:.2f}" for part in (million.up, million.down)),
            f"{cost.seconds / reference.seconds:.3f}",
            f"{(cost.up + cost.down) / (reference.up + reference.down):.3f}",
        )
    return table


def whole_sums(benches: Mapping[str, SumBench], size: int, rounds: int) -> Table:
    """Seconds of a whole sum, read by the server, and read by the parties."""
    table = Table(title=f"A whole sum of {size:,} values, all parties together")
    for column in ("mode", "server reads, ms", "parties read, ms"):
        table.add_column(column, justify="left" if column == "mode" else "right")
    values = np.random.default_rng(1).normal(size=size).astype(np.float32)
    best = {name: [np.inf, np.inf] for name in benches}
    for _ in range(max(5, rounds)):
        for name, bench in benches.items():
            for index, seconds in enumerate(_whole_sum(bench, values)):
                best[name][index] = min(best[name][index], seconds)
    for name, (server, parties) in best.items():
        table.add_row(name, f"{1000 * server:.1f}", f"{1000 * parties:.1f}")
    return table


def _whole_sum(bench: SumBench, values: Values) -> tuple[float, float]:
    times = []
    for reveal in ("server", "parties"):
        bench.rounds += 1
        tag = f"round-{bench.rounds}"
        clock = Clock()
        with clock:
            if reveal == "server":
                sent = {n: c.protect(tag, {"w": values}) for n, c in bench.clients.items()}
                bench.server.total(tag, sent, bench._ask)
            else:
                sent = {
                    n: c.protect(tag, {"w": values}, reveal="parties")
                    for n, c in bench.clients.items()
                }
                sealed = bench.server.seal(tag, sent, bench._ask)
                for client in bench.clients.values():
                    client.open(sealed)
        times.append(clock.seconds)
    return times[0], times[1]


def one_sum(parties: int, size: int, rounds: int) -> dict[str, float]:
    """CPU seconds of a sum under ``shares``, the best of several, and a party's bytes."""
    bench = SumBench("shares", parties)
    values = np.random.default_rng(0).normal(size=size).astype(np.float32)
    seconds = []
    for round_ in range(rounds):
        begin = time.process_time()
        sent = {n: c.protect(f"cpu-{round_}", {"w": values}) for n, c in bench.clients.items()}
        bench.server.total(f"cpu-{round_}", sent, bench.answer)
        seconds.append(time.process_time() - begin)
    cost = bench.run(values)
    return {"cpu": min(seconds), "up": cost.up, "down": cost.down}


def by_parties(against: Path | None) -> Table:
    """What a sum costs with more and more parties, against another version if there is one."""
    table = Table(title="A sum under shares, all parties together")
    for column in (
        "parties",
        "values",
        "CPU ms",
        "bytes up",
        "bytes down",
        "CPU / other",
        "up / other",
    ):
        table.add_column(column, justify="right")
    for parties, size in BY_PARTIES:
        rounds = 20 if parties < 30 else 3
        own, other = [], []
        for _ in range(3):
            own.append(_in_process(None, parties, size, rounds))
            if against:
                other.append(_in_process(against, parties, size, rounds))
        best = min(own, key=lambda cost: cost["cpu"])
        row = [f"{parties}", f"{size:,}", f"{1000 * best['cpu']:.2f}"]
        row += [f"{best['up']:,.0f}", f"{best['down']:,.0f}"]
        if against:
            cpu = min(cost["cpu"] for cost in other)
            row += [f"{best['cpu'] / cpu:.2f}", f"{best['up'] / other[0]['up']:.2f}"]
        table.add_row(*row)
    return table


def _in_process(source: Path | None, parties: int, size: int, rounds: int) -> dict[str, float]:
    """Measure one version in a process of its own."""
    words = [sys.executable, __file__, "--one-sum", str(parties), str(size), str(rounds)]
    environment = {**os.environ, "PYTHONPATH": str(source)} if source else None
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    cost: dict[str, float] = json.loads(done.stdout)
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--by-parties", action="store_true")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--one-sum", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_sum:
        print(json.dumps(one_sum(*options.one_sum)))
        return
    if options.by_parties:
        Console(width=120).print(by_parties(options.against))
        return
    values = np.random.default_rng(0).normal(size=options.values).astype(np.float32)
    sums = {mode: SumBench(mode, options.parties) for mode in MODES}
    benches: dict[str, Callable[[Values], Cost]] = {name: b.run for name, b in sums.items()}
    benches[REFERENCE] = TenSealBench(options.parties).run
    console = Console(width=120)
    console.print(per_million(measure(benches, values, options.rounds), options.values))
    console.print(whole_sums(sums, CORA_GCN, options.rounds))


if __name__ == "__main__":
    main()
