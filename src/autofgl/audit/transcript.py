"""A short run with the present settings, and every message of it as its receivers see it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.federation import Direction, Federation
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context, Party, PartyFactory
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, Ints
from autofgl.runtime.clients import Clients
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome
from autofgl.sharing.across.client import AcrossClient

#: Searches are cut to so much: one candidate shows what every other one gives away too. Rounds of
#: a training are cut to what the audit is asked for.
_SEARCHES = {
    "candidates": 1, "candidate_rounds": 2, "finalists": 1, "generations": 1, "warmup": 1,
    "population": 6, "codes_per_step": 4, "trials": 1, "trial_rounds": 2, "startup": 1,
    "episodes": 1, "episode_rounds": 2, "profile_rounds": 2, "iterations": 2, "recipes": 4,
}  # fmt: skip

Vectors: TypeAlias = Mapping[str, npt.NDArray[Any]]
#: Puts somebody between the method and its clients.
Wrap: TypeAlias = Callable[[Federation], Federation]


@dataclass(frozen=True, eq=False)
class Message:
    """What travelled: to a client (``down``), to the server (``up``) or between clients."""

    direction: Direction
    party: str
    op: str
    payload: Payload


@dataclass(frozen=True, eq=False)
class SumSeen:
    """A sum that was made. Without ``vectors`` the server sealed it for the clients."""

    tag: str
    contributors: tuple[str, ...]
    vectors: Vectors | None


@dataclass(frozen=True, eq=False)
class RowsSeen:
    """Rows that a client received from a peer: h W of convolution ``k`` for nodes of the owner."""

    tag: str
    k: int
    owner: str
    nodes: Ints
    rows: npt.NDArray[np.float32]


@dataclass
class Transcript:
    """Everything that was seen in a run, by whom.

    Attributes:
        messages: All messages that an engine carried, in order.
        sums: The sums that the server made.
        opened: The sums that each client opened.
        rows: The rows that each client received from its peers.
        contributed: What each client put into each sum: the truth, which no attacker sees.
        outcome: How the run ended; none if it was broken off.
    """

    messages: list[Message] = field(default_factory=list)
    sums: list[SumSeen] = field(default_factory=list)
    opened: dict[str, list[SumSeen]] = field(default_factory=dict)
    rows: dict[str, list[RowsSeen]] = field(default_factory=dict)
    contributed: dict[str, dict[str, Vectors]] = field(default_factory=dict)
    outcome: Outcome | None = None

    def observe(self, direction: Direction, party: str, op: str, payload: Payload) -> None:
        """The engine's observer."""
        self.messages.append(Message(direction, party, op, payload))

    def received(self, party: str, op: str) -> Iterator[Payload]:
        """What the server sent to a client."""
        for one in self.messages:
            if (one.direction, one.party, one.op) == ("down", party, op):
                yield one.payload


def shortened(settings: Any, rounds: int) -> Any:
    """Settings of a method with the same protocol and fewer rounds; a search tries one thing."""
    most = {**_SEARCHES, "rounds": rounds}
    if "evaluate_every" in type(settings).model_fields:
        del most["iterations"]  # mini-batches of a round, not of a search
    values = {
        key: min(value, getattr(settings, key))
        for key, value in most.items()
        if key in type(settings).model_fields
    }
    return settings.model_copy(update=values)


@contextmanager
def live_run(
    kind: type[Method],
    graphs: Sequence[ClientGraph],
    settings: Any,
    seed: int,
    secure: str,
    wrap: Wrap | None = None,
) -> Iterator[tuple[Method, Transcript]]:
    """A method on clients in this process that have agreed on nothing yet, and its transcript."""
    transcript = Transcript()
    factories = {
        graph.name: _watched(kind.party(graph, settings, seed, secure), transcript)
        for graph in kind.arrange(graphs)
    }
    with closing(InProcess(factories, observer=transcript.observe)) as federation:
        method = kind(wrap(federation) if wrap else federation, settings, seed, secure)
        _watch_sums(method.clients, transcript)
        yield method, transcript


def record(
    kind: type[Method],
    graphs: Sequence[ClientGraph],
    settings: Any,
    seed: int,
    secure: str,
    report: Callable[[str], None] | None = None,
) -> Transcript:
    """Run a method to its end, and keep everything that was seen."""
    with live_run(kind, graphs, settings, seed, secure) as (method, transcript):
        method.connect()
        method.setup()
        while not method.done:
            method.step()
            if report is not None and method.round % 10 == 0:
                report(f"recorded {method.round} rounds")
        transcript.outcome = method.finish()
    return transcript


def _watched(factory: PartyFactory, transcript: Transcript) -> PartyFactory:
    """Builds a client that shows what it puts into sums, what it opens, and what peers send it."""

    def build(context: Context) -> Party:
        party, name = factory(context), context.name
        sums = getattr(party, "sums", None)
        if sums is not None:
            own = transcript.contributed.setdefault(name, {})
            opened = transcript.opened.setdefault(name, [])
            protect, open_ = sums.protect, sums.open

            def watched_protect(tag: str, vectors: Vectors, **more: Any) -> Payload:
                own[tag] = {key: np.array(value, np.float64) for key, value in vectors.items()}
                sent: Payload = protect(tag, vectors, **more)
                return sent

            def watched_open(sealed: Payload, *more: Any) -> Any:
                vectors = open_(sealed, *more)
                members = tuple(sealed.get("contributors", ()))
                opened.append(SumSeen(str(sealed.get("tag", "")), members, vectors))
                return vectors

            sums.protect, sums.open = watched_protect, watched_open
        if isinstance(party, AcrossClient):
            heard = transcript.rows.setdefault(name, [])
            party.listen(lambda *seen: heard.append(RowsSeen(*seen)))
        return party

    return build


def _watch_sums(clients: Clients, transcript: Transcript) -> None:
    """Have the server's sums noted."""
    total, seal = clients.total, clients.seal

    def watched_total(tag: str, replies: Mapping[str, Payload], key: str, *more: Any) -> Any:
        vectors = total(tag, replies, key, *more)
        members = tuple(name for name, reply in replies.items() if key in reply)
        seen = {name: np.asarray(value) for name, value in vectors.items()}
        transcript.sums.append(SumSeen(tag, members, seen))
        return vectors

    def watched_seal(tag: str, replies: Mapping[str, Payload], key: str, *more: Any) -> Payload:
        sealed = seal(tag, replies, key, *more)
        members = tuple(name for name, reply in replies.items() if key in reply)
        transcript.sums.append(SumSeen(tag, members, None))
        return sealed

    clients.total, clients.seal = watched_total, watched_seal  # type: ignore[method-assign, assignment]
