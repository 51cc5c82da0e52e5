"""A server that cheats, against clients that are alive: what does it get, and who refuses?

Every probe is a run of the method's own server code on a federation with somebody in between, who
changes messages on their way (:class:`CheatingServer`), or asks for more.

=======================  ===========================================================================
one client trains        all others are asked not to train, so that the sum is one client's
the same weights twice   two rounds from the same weights, the second without one client
export after a round     each client is asked for its weights when it has just trained
a round made twice       a round is asked for again without one client, under the same names
different views          clients are given different lists of who contributed and who is lost
keys of its own          the server puts its own public keys in place of the clients'
=======================  ===========================================================================
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autofgl.audit.attacks import lone_contributors
from autofgl.audit.transcript import SumSeen, Transcript, live_run
from autofgl.audit.verdict import Leak, Verdict
from autofgl.errors import AutoFGLError
from autofgl.federation import Federation
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.method import Method

#: ``edit(operation, party, message)`` gives what the party receives instead.
Edit = Callable[[str, str, Payload], Payload]

#: Rounds that begin a probe, so that there is something to take.
_ROUNDS = 2
#: Exchanges of a pass of FedGraph, at most.
_MOST_STEPS = 16


class CheatingServer:
    """A federation whose messages to clients are changed on their way; see ``Federation``.

    ``trained`` is what clients were last asked to train with, ``refusals`` what they answered
    instead of an answer.
    """

    def __init__(self, inner: Federation, edit: Edit) -> None:
        self._inner = inner
        self._edit = edit
        self.meter = inner.meter
        self.trained: dict[str, Payload] = {}
        self.refusals: list[str] = []

    @property
    def parties(self) -> Sequence[str]:
        """Names of the parties that take part, in order."""
        return self._inner.parties

    def call(
        self,
        op: str,
        payload: Payload | None = None,
        *,
        each: Mapping[str, Payload] | None = None,
        to: Collection[str] | None = None,
        **more: Any,
    ) -> Replies:
        """Call an operation with other messages than the method meant."""
        called = list(self.parties if to is None else to)
        sent = {name: {**(payload or {}), **(each or {}).get(name, {})} for name in called}
        edited = {name: self._edit(op, name, message) for name, message in sent.items()}
        trains = op == "begin" and any(m.get("purpose") == "train" for m in sent.values())
        if op == "round" or trains:
            self.trained = edited
        replies = self._inner.call(op, each=edited, to=called, **more)
        self.refusals += [f"{name}: {why.message}" for name, why in replies.failed.items()]
        return replies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass(frozen=True)
class Probes:
    """All probes of a method with its settings, each on a federation of its own."""

    kind: type[Method]
    graphs: Sequence[ClientGraph]
    settings: Any
    seed: int
    secure: str
    _names: list[str] = field(default_factory=list)

    def run(self) -> Iterator[Leak]:
        """One leak for each probe."""
        names = [graph.name for graph in self.kind.arrange(self.graphs)]
        if len(names) < 2:
            return
        self._names[:] = names
        if self.secure == "none":
            got = "no need to cheat: it is sent every update, or model, as it is"
            yield Leak("active server", "any", "everything", got)
            return
        yield self._attempt("one client trains", self._one_trains)
        yield self._attempt("the same weights twice", self._same_weights)
        yield self._attempt("export after a round", self._export)
        yield self._attempt("a round made twice", self._twice)
        if self.secure == "shares":
            yield self._attempt("different views", self._views)
        yield self._attempt("keys of its own", self._keys)

    @property
    def _victim(self) -> str:
        return self._names[0]

    def _attempt(self, attack: str, probe: Callable[[], tuple[Verdict, str]]) -> Leak:
        """A probe, and *refused* where clients or their sums do not go along."""
        try:
            verdict, got = probe()
        except AutoFGLError as error:
            reason = " ".join(str(error).split())
            verdict, got = "nothing", f"refused: {reason[:160]}"
        return Leak("active server", attack, verdict, got)

    @contextmanager
    def _live(self, edit: Edit) -> Iterator[tuple[Method, CheatingServer, Transcript]]:
        cheats: list[CheatingServer] = []

        def wrap(federation: Federation) -> Federation:
            cheats.append(CheatingServer(federation, edit))
            return cast(Federation, cheats[0])

        run = live_run(self.kind, self.graphs, self.settings, self.seed, self.secure, wrap)
        with run as (method, transcript):
            yield method, cheats[0], transcript

    def _one_trains(self) -> tuple[Verdict, str]:
        def edit(op: str, name: str, message: Payload) -> Payload:
            chosen = name == self._victim
            if op == "round":
                return {**message, "train": chosen}
            if op == "begin" and message.get("purpose") == "train" and not chosen:
                return {**message, "batch": 0}
            return message

        with self._live(edit) as (method, _, transcript):
            _begin(method)
        if any(set(lone_contributors(transcript, seen)) for seen in transcript.sums):
            return "everything", f"the update of {self._victim}"
        sealed = [seen for seen in transcript.sums if seen.vectors is None]
        if any(_only(transcript, seen, self._victim) for seen in sealed):
            return "partly", f"not the server, but its clients open the update of {self._victim}"
        return "nothing", "others train all the same"

    def _same_weights(self) -> tuple[Verdict, str]:
        """The difference of two sums from the same weights, against what the victim put in."""
        first: dict[str, Any] = {}
        ops = ("round", "begin")

        def edit(op: str, name: str, message: Payload) -> Payload:
            if op not in ops or "weights" not in message or message.get("purpose") == "evaluate":
                return message
            weights = first.setdefault("weights", message["weights"])
            again = len(transcript.sums) > 0 and _updates(transcript)
            if not again:
                return message
            left_out = {"train": False} if op == "round" else {"batch": 0}
            return {**message, "weights": weights, **(left_out if name == self._victim else {})}

        with self._live(edit) as (method, _, transcript):
            _begin(method)
        sums = _updates(transcript)
        if not first or len(sums) < 2:
            return "nothing", "the server hands out no weights, or reads no sum of updates"
        likeness = _likeness(transcript, sums[0], sums[1], self._victim, first["weights"])
        if likeness is None:
            return "nothing", f"{self._victim} takes part all the same"
        words = f"the update of {self._victim}, cosine {likeness:.2f} to the true one"
        return (
            "everything" if likeness > 0.95 else "partly" if likeness > 0.3 else "nothing"
        ), words

    def _export(self) -> tuple[Verdict, str]:
        with self._live(_honest) as (method, cheat, _):
            _begin(method)
            replies = cheat.call("export", {})
        weights = [reply["weights"] for reply in replies.ok.values() if reply.get("weights")]
        if not weights:
            failed = next(iter(replies.failed.values()), None)
            return "nothing", f"refused: {failed.message[:160] if failed else 'no weights'}"
        if len(weights) > 1 and all(_equal(weights[0], other) for other in weights[1:]):
            return "nothing", "only weights that all clients have in common"
        return "everything", f"locally trained weights of {len(weights)} clients"

    def _twice(self) -> tuple[Verdict, str]:
        with self._live(_honest) as (method, cheat, transcript):
            _begin(method)
            others = [name for name in self._names if name != self._victim]
            asked = {name: cheat.trained[name] for name in others if name in cheat.trained}
            if not asked:
                return "nothing", "there is no round to make again"
            op = "begin" if "purpose" in next(iter(asked.values())) else "round"
            replies = cheat.call(op, each=asked, to=others)
            for _ in range(_MOST_STEPS):
                if (
                    op == "begin"
                    and replies.ok
                    and not any("update" in r for r in replies.ok.values())
                ):
                    replies = cheat.call("advance", {}, to=others)
            if not replies.ok:
                return "nothing", f"refused: {cheat.refusals[-1][:160]}"
            sums = len(transcript.sums)
            for key in ("update", "metrics"):
                sent = [reply[key] for reply in replies.ok.values() if key in reply]
                if len(sent) == len(others):
                    own = sent[0]["reveal"] == "parties"
                    add = method.clients.seal if own else method.clients.total
                    add(sent[0]["tag"], replies.ok, key)
        if len(transcript.sums) > sums:
            return "everything", f"the vector of {self._victim}: two sums differ by it"
        return "nothing", "clients contribute nothing a second time"

    def _views(self) -> tuple[Verdict, str]:
        """Each client is given other successors as lost: half of all, then one alone."""
        halves = (len(self._names) - 1) // 2
        for count in sorted({halves, 1}, reverse=True):
            verdict, got = self._successors_lost(count)
            if verdict != "nothing":
                break
        return verdict, got

    def _successors_lost(self, count: int) -> tuple[Verdict, str]:
        edited = []

        def edit(op: str, name: str, message: Payload) -> Payload:
            inner = message.get("message", {})
            if op != "secure" or name not in inner.get("contributors", ()):
                return message
            ring = sorted([*inner["contributors"], *inner.get("lost", [])])
            places = (ring.index(name) + step for step in range(1, count + 1))
            lost = sorted({*inner.get("lost", []), *(ring[at % len(ring)] for at in places)})
            left = [other for other in inner["contributors"] if other not in lost]
            edited.append(name)
            return {**message, "message": {**inner, "contributors": left, "lost": lost}}

        with self._live(edit) as (method, cheat, _):
            try:
                _begin(method)
            except AutoFGLError:
                if cheat.refusals:  # else the server alone could not make sense of the answers
                    return "nothing", f"refused: {cheat.refusals[-1][:160]}"
        if not edited:
            return "nothing", "clients are given no list that could differ"
        return "everything", "all clients answer although each was given another list"

    def _keys(self) -> tuple[Verdict, str]:
        """The server in the middle: every client is given the server's own keys as its peers'."""
        edited = []

        def edit(op: str, name: str, message: Payload) -> Payload:
            inner = message.get("message", {})
            if "publics" not in inner:
                return message
            edited.append(op)
            publics = {peer: _new_key() for peer in inner["publics"]}
            own = {name: inner["publics"][name]}
            return {**message, "message": {**inner, "publics": {**publics, **own}}}

        reason = ""
        with self._live(edit) as (method, _, transcript):
            try:
                method.connect()
            except AutoFGLError as error:
                reason = " ".join(str(error).split())
        replies = [one for one in transcript.messages if one.direction == "up"]
        if any("session" in one.payload for one in replies):
            return "everything", "clients take the server's keys for their peers'"
        if not edited:
            return "nothing", "not tested: no public keys were seen"
        return "nothing", f"refused: {reason[:160]}"


def _honest(op: str, name: str, message: Payload) -> Payload:  # noqa: ARG001
    return message


def _begin(method: Method) -> None:
    """The first rounds, search or not."""
    method.connect()
    method.setup()
    while method.round < _ROUNDS and not method.done:
        method.step()


def _new_key() -> bytes:
    """A public key of the server's own."""
    private = X25519PrivateKey.generate()
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _updates(transcript: Transcript) -> list[SumSeen]:
    """Sums of updates that the server read."""
    return [
        seen
        for seen in transcript.sums
        if seen.vectors is not None and any(value.ndim > 1 for value in seen.vectors.values())
    ]


def _only(transcript: Transcript, seen: SumSeen, name: str) -> bool:
    """Whether one client alone has put anything but zeros into the long vectors of a sum."""
    active = {
        client
        for client, sums in transcript.contributed.items()
        if any(value.ndim > 1 and value.any() for value in sums.get(seen.tag, {}).values())
    }
    return active == {name}


def _likeness(
    transcript: Transcript, one: SumSeen, other: SumSeen, victim: str, weights: Mapping[str, Any]
) -> float | None:
    """Cosine of the difference of two sums to the victim's step; none if it is in both."""
    assert one.vectors is not None
    assert other.vectors is not None
    own = transcript.contributed[victim].get(one.tag, {})
    share = float(one.vectors["share"] - other.vectors["share"]) if "share" in own else 0.0
    keys = [key for key, value in own.items() if value.ndim > 1 and key in weights]
    if not keys or abs(share) < 1e-9:
        return None
    start = {key: np.asarray(weights[key], np.float64) for key in keys}
    guess = np.concatenate(
        [((one.vectors[k] - other.vectors[k]) - share * start[k]).ravel() for k in keys]
    )
    truth = np.concatenate([(own[k] - float(own["share"]) * start[k]).ravel() for k in keys])
    length = float(np.linalg.norm(guess) * np.linalg.norm(truth))
    return float(guess @ truth) / length if length else None


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)
