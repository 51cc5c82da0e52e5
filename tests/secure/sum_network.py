"""A server and its parties, with the real codec between them and a hand on the wire."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload, decode, encode
from autofgl.identity import GroupSecret
from autofgl.secure import Reveal, SecureSumError, SumClient, SumServer, make_client, make_server

#: What the parties know each other by, unless a test gives them another identity, or none.
SECRET = b"a secret of the parties"
#: Settings of parties that the server has no part in.
OWN = ("identity", "run", "min_parties")

Alter = Callable[[str, str, Payload], Payload]


def names(count: int) -> list[str]:
    return [f"p{index:02}" for index in range(count)]


def carry(payload: Payload) -> Payload:
    return decode(encode(payload))


class SumNetwork:
    """Runs one mode.

    Attributes:
        lost_at: Phase from which on a party is lost, by party.
        alter: Changes a message to a party; for tampering.
        alter_answer: Changes a party's answer; for parties that cheat.
        server_view: All that the server received and sent, in order.
        refusals: Why parties did not answer.
    """

    def __init__(self, mode: str, count: int, folder: Path | None = None, **settings: Any) -> None:
        self.mode = mode
        self.parties = names(count)
        ledgers = {name: folder / name if folder else None for name in (*self.parties, "server")}
        self.clients: dict[str, SumClient] = {
            name: make_client(
                mode,
                name=name,
                parties=self.parties,
                ledger=ledgers[name],
                **{"identity": GroupSecret(name, SECRET), **settings},
            )
            for name in self.parties
        }
        settings = {key: settings[key] for key in settings if key not in OWN}
        self.server: SumServer = make_server(
            mode, parties=self.parties, ledger=ledgers["server"], **settings
        )
        self.lost_at: dict[str, str] = {}
        self.alter: Alter = lambda phase, name, message: message
        self.alter_answer: Alter = lambda phase, name, answer: answer
        self.server_view: list[Payload] = []
        self.refusals: list[str] = []
        self.asked: list[str] = []
        self._gone: set[str] = set()

    def ready(self) -> "SumNetwork":
        self.server.setup(self.ask)
        return self

    def ask(self, phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        assert messages, "the server asked nobody"
        self.asked.append(phase)
        answers = {}
        for name, message in messages.items():
            if self.lost_at.get(name) == phase:
                self._gone.add(name)
            if name in self._gone:
                continue
            self.server_view.append(carry(message))
            try:
                answer = self.clients[name].handle(phase, carry(self.alter(phase, name, message)))
            except SecureSumError as error:
                self.refusals.append(str(error))
                continue
            answers[name] = carry(self.alter_answer(phase, name, answer))
            self.server_view.append(answers[name])
        return answers

    def contribute(
        self,
        tag: str,
        vectors: Mapping[str, Mapping[str, Any]],
        reveal: Reveal = "server",
        idle: Collection[str] = (),
    ) -> dict[str, Payload]:
        """Contributions of all parties that are not lost at ``protect``; the idle send zeros."""
        contributions = {}
        for name, own in vectors.items():
            if self.lost_at.get(name) == "protect":
                self._gone.add(name)
            if name not in self._gone:
                active = name not in idle
                sent = self.clients[name].protect(tag, own, reveal=reveal, active=active)
                contributions[name] = carry(sent)
        self.server_view.extend(contributions.values())
        return contributions

    def sum(self, tag: str, vectors: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The sum as the server gets it."""
        return self.server.total(tag, self.contribute(tag, vectors), self.ask).vectors

    def shared_sum(self, tag: str, vectors: Mapping[str, Mapping[str, Any]]) -> list[Any]:
        """The sum as each living party gets it."""
        sealed = self.server.seal(tag, self.contribute(tag, vectors, "parties"), self.ask)
        self.server_view.append(carry(sealed))
        living = [name for name in self.parties if name not in self._gone]
        return [self.clients[name].open(carry(sealed)) for name in living]


def draw(parties: list[str], shape: tuple[int, ...] = (40,), seed: int = 0) -> dict[str, Any]:
    """A vector called ``w`` for each party, values up to 10."""
    generator = np.random.default_rng(seed)
    return {name: {"w": generator.uniform(-10, 10, shape).astype(np.float32)} for name in parties}


def exact_sum(vectors: Mapping[str, Mapping[str, Any]], fraction_bits: int) -> Any:
    """The sum of ``w`` in whole steps, by Python's integers, as a float64 array."""
    rows = [np.asarray(own["w"], np.float64).reshape(-1).tolist() for own in vectors.values()]
    shape = np.shape(next(iter(vectors.values()))["w"])
    columns = zip(*rows, strict=True)
    steps = [sum(round(value * 2**fraction_bits) for value in column) for column in columns]
    return np.array([step / 2**fraction_bits for step in steps]).reshape(shape)
