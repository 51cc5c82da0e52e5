"""The server's line to its clients: calls that go on without those that are gone, and sums."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import FederationError
from autofgl.federation import Federation, require
from autofgl.federation.party import Context, Refused, Replies
from autofgl.federation.payload import Payload, encode
from autofgl.runtime.private import PrivateClient, is_private, privacy_plan, within_bounds
from autofgl.runtime.settings import ClientsSettings
from autofgl.secure import (
    Reveal,
    SecureSumError,
    SumClient,
    SumVectors,
    make_client,
    make_server,
)
from autofgl.secure.accountant import Releases
from autofgl.secure.plain import PlainServer, readable

#: Node counts are summed in units of so many nodes, to stay within every secure mode's range.
COUNT_UNIT = 4096


class Clients:
    """All clients of a run, as the server of any method sees them."""

    def __init__(
        self, federation: Federation, settings: ClientsSettings, secure: str = "none"
    ) -> None:
        self.federation = federation
        self.secure = secure
        self.private = is_private(settings)
        self._settings = settings
        threshold = settings.secure_threshold or None
        ledger = None if federation.folder is None else federation.folder / "server.sums"
        self._server = make_server(
            secure,
            parties=federation.parties,
            threshold=threshold,
            ledger=ledger,
            one_group=self.private,
        )
        self._refusals: dict[str, str] = {}
        self.aside: list[str] = []

    @property
    def names(self) -> Sequence[str]:
        """Names of the clients that take part now; those ``aside`` wait for the next training."""
        return [name for name in self.federation.parties if name not in self.aside]

    @property
    def fewest(self) -> int:
        """Fewest clients whose sum is revealed."""
        return self._server.fewest

    @property
    def timeout(self) -> float | None:
        """Seconds that a client may take for a call, if there is a limit."""
        return self._settings.timeout or None

    def connect(self) -> None:
        """Have the clients agree on keys; once, and again after a resume."""
        with self._explained():
            self._server.setup(self._ask)

    def call(
        self,
        op: str,
        payload: Payload,
        *,
        each: Mapping[str, Payload] | None = None,
        wait_for_late: bool = False,
    ) -> Replies:
        """Call all clients, each with ``payload`` and its own part of ``each``; go on without those
        that are gone.

        With ``wait_for_late`` a late client may join again in the next call; it must not where it
        would then have other weights than the rest.

        Raises:
            FederationError: A client failed, or too few are left.
        """
        replies = self._reach(op, payload, each, self.names)
        for name, failure in replies.failed.items():
            if failure.kind == "lost" or not wait_for_late:
                self.federation.drop(name)
        return require(op, replies, self._settings.min_clients)

    def gather(self) -> None:
        """A training begins: let clients take part that could not be brought up to date."""
        self.aside = []

    def catch_up(
        self,
        names: Sequence[str],
        message: Payload,
        *,
        op: str = "catch_up",
        each: Mapping[str, Payload] | None = None,
        with_state: bool = False,
    ) -> None:
        """Bring clients up to date that missed some rounds; those that are not stay aside.

        With ``with_state`` one of the others hands over what all have alike, wrapped by the keys of
        the sums, so that the server relays what it cannot read.
        """
        self.aside = sorted({*self.aside, *names} & set(self.federation.parties))
        behind = list(self.aside)
        if behind and with_state:
            message = {**message, **self.first("common_state")}
        replies = self.federation.call(op, message, each=each, to=behind, timeout=self.timeout)
        for name in replies.ok:
            self.aside.remove(name)

    def session(self) -> Payload:
        """Names the sums of times, which no two sessions measure alike; empty without protection:
        then nothing needs another name.
        """
        return {} if self.secure == "none" else {"session": os.urandom(8).hex()}

    def first(self, op: str) -> Payload:
        """The answer of the first client that gives one, where all would say the same.

        Raises:
            FederationError: A client failed, or none answers.
        """
        for name in tuple(self.names):
            replies = self._reach(op, {}, None, [name])
            if name in replies.ok:
                return replies.ok[name]
            self.federation.drop(name)
        raise FederationError(f"no client answers '{op}'")

    def _reach(
        self, op: str, payload: Payload, each: Mapping[str, Payload] | None, to: Sequence[str]
    ) -> Replies:
        replies = self.federation.call(op, payload, each=each, to=to, timeout=self.timeout)
        for name, failure in replies.failed.items():
            if failure.kind in ("exception", "refused"):
                raise FederationError(f"{name}: {failure.message}")
        return replies

    def total(self, tag: str, replies: Mapping[str, Payload], key: str) -> SumVectors:
        """The sum of what the replies hold under a key, for the server to read."""
        with self._explained():
            total = self._server.total(tag, _contributions(replies, key), self._ask).vectors
        return within_bounds(total) if self.private else total

    def seal(self, tag: str, replies: Mapping[str, Payload], key: str) -> Payload:
        """The sum of what the replies hold under a key, for the clients to open."""
        with self._explained():
            return self._server.seal(tag, _contributions(replies, key), self._ask)

    def own_parts(self, replies: Mapping[str, Payload], key: str) -> dict[str, SumVectors]:
        """What each client contributed; only ``secure=none`` shows it, else there is nothing."""
        if not isinstance(self._server, PlainServer):
            return {}
        return {name: readable(sent) for name, sent in _contributions(replies, key).items()}

    def count_nodes(self, tag: str, replies: Mapping[str, Payload]) -> list[int]:
        """The federation's training, validation and test nodes, from what clients count."""
        counts = self.total(tag, replies, "counts")["counts"] * COUNT_UNIT
        return [round(float(count)) for count in counts]

    def privacy(self) -> dict[str, Any]:
        """What the run has spent of its differential privacy, by the clients' own records."""
        made = list(self.call("spent", {}).ok.values())
        most = Releases(*(max(one[key] for one in made) for key in ("updates", "figures")))
        plan = privacy_plan(self._settings)
        return {
            "epsilon": plan.spent(most),
            "delta": plan.delta,
            "budget": plan.epsilon,
            "clip": self._settings.dp_clip,
            "noise": {"updates": plan.update_noise, "figures": plan.figure_noise},
            "releases": {"updates": most.updates, "figures": most.figures},
            "colluders": self._settings.dp_colluders,
            "accuracy_deviation": max(one["deviation"] for one in made),
        }

    def relay(self, op: str, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        """Carry a phase of a protocol between clients; who is late or gone is not waited for."""
        each = {name: {"phase": phase, "message": message} for name, message in messages.items()}
        replies = self.federation.call(op, each=each, to=list(messages), timeout=self.timeout)
        self._refusals |= {name: failure.message for name, failure in replies.failed.items()}
        return replies.ok

    def _ask(self, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        return self.relay("secure", phase, messages)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a sum that fails which clients gave no answer, and why."""
        self._refusals.clear()
        try:
            yield
        except SecureSumError as error:
            if reasons := "; ".join(f"{name}: {why}" for name, why in self._refusals.items()):
                error.args = (f"{error} ({reasons})",)
            raise


class Summing:
    """What a party adds to take part in secure sums: operations protect what they send."""

    operations: ClassVar[frozenset[str]] = frozenset({"secure", "spent"})

    def __init__(self, context: Context, secure: str, threshold: int, settings: Any = None) -> None:
        if secure != "none" and context.identity is None:
            raise Refused(f"secure mode '{secure}' needs an identity, {context.name} has none")
        self._protected = secure != "none"
        self.sums: SumClient = make_client(
            secure,
            name=context.name,
            parties=context.parties,
            threshold=threshold or None,
            min_parties=context.min_parties,
            run=context.run,
            identity=context.identity,
            ledger=context.ledger,
            one_group=is_private(settings),
        )
        self.private: PrivateClient | None = None
        if is_private(settings):
            self.private = PrivateClient(self.sums, context, settings, secure)
            self.sums = self.private.sums

    def spent(self, payload: Payload) -> Payload:  # noqa: ARG002
        """How many sums this client has put noise into; with differential privacy alone."""
        return self.private.spent() if self.private else {}

    def secure(self, payload: Payload) -> Payload:
        """Answer a phase of the protocol."""
        return self.sums.handle(payload["phase"], payload["message"])

    def contribute(
        self,
        tag: str,
        vectors: Mapping[str, Any],
        *,
        reveal: Reveal = "server",
        reference: Mapping[str, Any] | None = None,
        told: Payload | None = None,
    ) -> Payload:
        """What this client adds to a sum; without any weight it counts as nobody.

        ``reference`` are weights that everybody has: noise, if any, covers the change since them.
        ``told`` is what the server told all clients for it, so that they see that it is the same.
        """
        digest = b""
        if told is not None and self._protected:
            digest = hashlib.sha256(encode(told)).digest()[:16]
        if self.private is not None:
            return self.private.contribute(tag, vectors, reference or {}, reveal, digest)
        active = has_weight(vectors)
        return self.sums.protect(tag, vectors, reveal=reveal, active=active, told=digest)

    def count(self, tag: str, counts: Any) -> Payload:
        """What :meth:`Clients.count_nodes` adds up."""
        if self.private is not None:  # every client counts the same
            return self.private.constant(tag, {"counts": np.ones_like(counts)})
        return self.contribute(tag, {"counts": counts / COUNT_UNIT})


def average(total: Mapping[str, Any]) -> dict[str, Any]:
    """A weighted mean from a sum of weighted vectors and of their weights, named ``share``.

    Empty if nobody with any weight contributed.
    """
    share = float(total["share"])
    if share == 0:
        return {}
    return {
        name: (value / share).astype(np.float32) for name, value in total.items() if name != "share"
    }


def weighted(vectors: Mapping[str, Any], share: float) -> dict[str, Any]:
    """What a party contributes to :func:`average`: its weight and its weighted vectors."""
    weight = np.float32(share)
    return {"share": np.array(weight), **{name: weight * value for name, value in vectors.items()}}


def has_weight(vectors: Mapping[str, Any]) -> bool:
    """Whether a contribution changes a sum: by its ``share`` if it is weighted, else by any value.

    Clients that add zeros hide nobody, so a sum needs enough of the others.
    """
    told = [vectors["share"]] if "share" in vectors else vectors.values()
    return any(bool(np.any(value)) for value in told)


def _contributions(replies: Mapping[str, Payload], key: str) -> dict[str, Payload]:
    return {name: reply[key] for name, reply in replies.items() if key in reply}
