"""Sums under an adversarial scheduler; any number of them: python schedules.py 100000

Every schedule is drawn from its number, one of two kinds:

- *network*: an honest server, and a network that drops, duplicates, delays, swaps and alters
  messages, and colluding parties that answer anything. The sum must be exact or refused.
- *server*: a server that cheats, with as many colluding parties as are safe. It tells every party
  another story, in any order, replays what it has, and makes parties agree on new keys in between.
  What it can read (:mod:`hostile`) must be one sum for each tag, of enough parties.

Exact means: the sum of the vectors whose masked words arrived. Whoever alters the words of a party
has it contribute something else, as that party itself could.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from hostile import HostileServer
from sum_network import names

from autofgl.federation.payload import Payload
from autofgl.secure import Reveal, SecureSumError, make_client, make_server
from autofgl.secure.shares.client import VIEW, SharesClient

_SIZES = [(n, t) for n in range(2, 8) for t in range(n // 2 + 1, n + 1) if t > 1]
_REUSES = 300  # schedules with one set of clients


@dataclass(frozen=True)
class Outcome:
    """How a schedule ended: what kind, whether a sum was made, and what went wrong, if anything."""

    kind: str
    opened: bool
    violation: str = ""


class Schedules:
    """Runs schedules by number; parties with their keys serve for several."""

    def __init__(self) -> None:
        self._worlds: dict[Any, tuple[int, Any]] = {}

    def run(self, number: int) -> Outcome:
        random = Random(number)
        count, threshold = random.choice(_SIZES)
        if random.random() < 0.5:
            world = self._world(("network", count, threshold), lambda: Network(count, threshold))
            return world.run(random, f"tag-{number}")
        colluders = random.randint(0, max(0, min(2 * threshold - count - 1, count - 2)))
        least = random.choice([0, 0, count])
        key = ("server", count, threshold, colluders, least)
        world = self._world(
            key, lambda: HostileServer(count, threshold, colluders, min_parties=least)
        )
        return cheat(world, random, number)

    def _world(self, key: Any, make: Any) -> Any:
        uses, world = self._worlds.get(key, (0, None))
        if world is None or uses >= _REUSES:
            uses, world = 0, make()
        self._worlds[key] = uses + 1, world
        return world


class Network:
    """Honest clients and an honest server with a hostile network between them."""

    def __init__(self, count: int, threshold: int) -> None:
        self.parties = names(count)
        self.threshold = threshold
        given: dict[str, Any] = {"parties": self.parties, "threshold": threshold}
        self.clients: dict[str, SharesClient] = {}
        for name in self.parties:
            client = make_client("shares", name=name, **given)
            assert isinstance(client, SharesClient)
            self.clients[name] = client
        self.server = make_server("shares", **given)
        self.server.setup(self._deliver)
        self.history: list[Payload] = []

    def _deliver(self, phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        answers = {}
        for name, message in messages.items():
            try:
                answers[name] = self.clients[name].handle(phase, message)
            except SecureSumError:
                continue
        return answers

    def run(self, random: Random, tag: str) -> Outcome:
        rate = random.choice([0.01, 0.05, 0.2])
        reveal: Reveal = random.choice(["server", "parties"])
        guard = self.clients[self.parties[0]]._words.guard if reveal == "parties" else 0
        values = {name: float(random.randint(-1000, 1000)) for name in self.parties}
        shifts = dict.fromkeys(self.parties, 0.0)
        sent: dict[str, Payload] = {}
        for name, value in values.items():
            message = self.clients[name].protect(tag, {"w": np.array([value, 1.0])}, reveal=reveal)
            if random.random() >= rate:
                sent[name] = self._altered(message, random) if random.random() < rate else message
            if name in sent and random.random() < rate / 2:
                shifts[name] = float(random.randint(1, 9))
                shift = np.array([shifts[name] * 2 ** (40 + guard), 0]).astype(np.uint64)
                words = message["words"] + shift
                sent[name] = {**message, "words": words}

        def ask(phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
            return self._hostile(phase, messages, random, rate)

        try:
            if reveal == "server":
                total = self.server.total(tag, sent, ask)
                contributors, got = total.contributors, total.vectors["w"]
            else:
                sealed = self.server.seal(tag, sent, ask)
                contributors = tuple(sealed["contributors"])
                reader = self.clients[random.choice(self._confirmed(tag))]
                if random.random() < rate:
                    sealed = {**sealed, "contributors": _changed(list(contributors), random)}
                got = reader.open(sealed)["w"]
        except SecureSumError:
            return Outcome("network", opened=False)
        expected = sum(values[name] + shifts[name] for name in contributors)
        exact = got.tolist() == [expected, float(len(contributors))]
        wrong = "" if exact else "the sum is wrong"
        if len(contributors) < self.threshold:
            wrong = "the sum is of too few"
        return Outcome("network", opened=True, violation=wrong)

    def _confirmed(self, tag: str) -> list[str]:
        found = [name for name, own in self.clients.items() if own._ledger.get(tag, VIEW)]
        return found or self.parties

    def _hostile(
        self, phase: str, messages: Mapping[str, Payload], random: Random, rate: float
    ) -> dict[str, Payload]:
        order = list(messages)
        random.shuffle(order)
        answers: dict[str, Payload] = {}
        for name in order:
            if random.random() < rate:
                continue  # lost on the way
            message = messages[name]
            if random.random() < rate:
                message = messages[random.choice(order)]  # for somebody else
            if random.random() < rate:
                message = self._altered(message, random)
            for _ in range(1 + (random.random() < rate)):  # perhaps twice
                answers |= self._deliver(phase, {name: message})
        for name in list(answers):
            if random.random() < rate:
                answers[name] = self._altered(answers[name], random)
            elif random.random() < rate / 2:
                answers[name] = random.choice([*self.history[-20:], {}])
            elif random.random() < rate / 2:
                del answers[name]
            else:
                self.history.append(answers[name])
        del self.history[:-50]
        return answers

    def _altered(self, message: Payload, random: Random) -> Payload:
        """The message with one thing changed, at any depth, but for the masked words."""
        keys = [key for key in message if key != "words"]
        if not keys:
            return message
        key = random.choice(keys)
        return {**message, key: _changed(message[key], random)}


def _changed(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value:
        key = random.choice(list(value))
        kind = random.randrange(3)
        if kind == 0:
            return {name: item for name, item in value.items() if name != key}
        if kind == 1:
            return {**value, key: value[random.choice(list(value))]}
        return {**value, key: _changed(value[key], random)}
    if isinstance(value, list) and value:
        index = random.randrange(len(value))
        if random.random() < 0.5:
            return value[:index] + value[index + 1 :]
        return [*value[:index], _changed(value[index], random), *value[index + 1 :]]
    if isinstance(value, bytes) and value:
        at = random.randrange(len(value))
        return value[:at] + bytes([value[at] ^ (1 << random.randrange(8))]) + value[at + 1 :]
    return random.choice([None, 7, "p00", b"", [], {}])


def cheat(server: HostileServer, random: Random, number: int) -> Outcome:
    """Two names of sums, a few stories of each, and messages in any order."""
    client = server.clients[server.parties[0]]
    fewest = client.fewest
    tags = [f"{number}-a", f"{number}-b"]
    vectors, idle, stories = {}, {}, {}
    for tag in tags:
        there = [name for name in server.parties if random.random() < 0.9]
        vectors[tag] = {name: np.array([float(random.randint(-9, 9))]) for name in there}
        idle[tag] = {name for name in there if random.random() < random.choice([0.0, 0.0, 0.3])}
        server.contribute(tag, vectors[tag], idle[tag])
        stories[tag] = _stories(server, random)
    readable: dict[str, set[frozenset[str]]] = {tag: set() for tag in tags}
    for _ in range(random.choice([1, 1, 1, 2])):
        for tag in tags:
            _tell(server, random, tag, stories[tag])
            readable[tag] |= server.readable(tag)
        if random.random() < 0.15:
            server.rekey()
            for tag in tags:
                server.contribute(tag, vectors[tag], idle[tag])
    violation = ""
    for tag in tags:
        if len(server.stories[tag]) > 1:
            violation = f"shares were told for two stories: {server.stories[tag]}"
        if len(readable[tag]) > 1:
            violation = f"two sums of one name: {readable[tag]}"
        for part in readable[tag]:
            if len(part - idle[tag]) < fewest - len(server.evil):
                violation = f"a sum of too few: {part}"
    opened = any(readable.values())
    return Outcome("server", opened, violation)


def _stories(server: HostileServer, random: Random) -> dict[str, list[list[str]]]:
    """Which contributors each party hears of, first and then."""
    camps = []
    for _ in range(random.choice([1, 1, 2, 2, 3])):
        lost = random.choice([0, 1, 1, 2, 3])
        gone = set(random.sample(server.parties, min(lost, len(server.parties))))
        camps.append([name for name in server.parties if name not in gone])
    return {
        name: [random.choice(camps) for _ in range(random.choice([1, 1, 2]))]
        for name in server.honest
    }


def _tell(
    server: HostileServer, random: Random, tag: str, stories: Mapping[str, list[list[str]]]
) -> None:
    heard = [(name, story) for name, own in stories.items() for story in own]
    for _, story in heard:
        server.forge(tag, story)
    steps = [(phase, *pair) for phase in (0, 1, 2) for pair in heard if random.random() < 0.95]
    if random.random() < 0.3:
        random.shuffle(steps)
        steps += steps[: random.randrange(len(steps) + 1)]
    for phase, name, story in steps:
        lost = [peer for peer in server.parties if peer not in story]
        if phase == 0 and lost:
            server.settle(name, tag, lost)
        elif phase == 1:
            server.confirm(name, tag, story)
        elif phase == 2:
            codes = None
            if server.of(tag).codes and random.random() < 0.1:  # of something else
                others = list(server.of(tag).codes.values())
                codes = {**random.choice(others), **random.choice(others)}
            server.reveal(name, tag, story, codes=codes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    schedules, seen = Schedules(), Counter[tuple[str, bool]]()
    begin = time.process_time()
    for number in range(options.first, options.first + options.count):
        outcome = schedules.run(number)
        seen[outcome.kind, outcome.opened] += 1
        if outcome.violation:
            raise SystemExit(f"schedule {number} ({outcome.kind}): {outcome.violation}")
        if number % 5000 == 4999:
            print(number + 1, dict(seen), f"{time.process_time() - begin:.0f} s", flush=True)
    print(f"{options.count} schedules without a violation, {time.process_time() - begin:.0f} CPU s")
    for (kind, opened), times in sorted(seen.items()):
        print(f"  {kind}: {times} {'with a sum' if opened else 'refused'}")


if __name__ == "__main__":
    main()
