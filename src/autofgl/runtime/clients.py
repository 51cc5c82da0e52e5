"""The server's line to its clients: calls that go on without those that are gone, and sums."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import FederationError
from autofgl.federation import Federation, require
from autofgl.federation.party import Context, Refused, Replies
from autofgl.federation.payload import Payload
from autofgl.runtime.settings import ClientsSettings
from autofgl.secure import SumClient, SumVectors, make_client, make_server
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
        self._settings = settings
        threshold = settings.secure_threshold or None
        self._server = make_server(secure, parties=federation.parties, threshold=threshold)

    @property
    def names(self) -> Sequence[str]:
        """Names of the clients that take part now."""
        return self.federation.parties

    def connect(self) -> None:
        """Have the clients agree on keys; once, and again after a resume."""
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
        timeout = self._settings.timeout or None
        replies = self.federation.call(op, payload, each=each, to=to, timeout=timeout)
        for name, failure in replies.failed.items():
            if failure.kind in ("exception", "refused"):
                raise FederationError(f"{name}: {failure.message}")
        return replies

    def total(self, tag: str, replies: Mapping[str, Payload], key: str) -> SumVectors:
        """The sum of what the replies hold under a key, for the server to read."""
        return self._server.total(tag, _contributions(replies, key), self._ask).vectors

    def seal(self, tag: str, replies: Mapping[str, Payload], key: str) -> Payload:
        """The sum of what the replies hold under a key, for the clients to open."""
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

    def relay(self, op: str, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        """Carry a phase of a protocol between clients."""
        each = {name: {"phase": phase, "message": message} for name, message in messages.items()}
        return self.federation.call(op, each=each, to=list(messages)).ok

    def _ask(self, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        return self.relay("secure", phase, messages)


class Summing:
    """What a party adds to take part in secure sums: operations protect what they send."""

    operations: ClassVar[frozenset[str]] = frozenset({"secure"})

    def __init__(self, context: Context, secure: str, threshold: int) -> None:
        if secure != "none" and context.identity is None:
            raise Refused(f"secure mode '{secure}' needs an identity, {context.name} has none")
        self.sums: SumClient = make_client(
            secure,
            name=context.name,
            parties=context.parties,
            threshold=threshold or None,
            min_parties=context.min_parties,
            run=context.run,
            identity=context.identity,
            ledger=context.ledger,
        )

    def secure(self, payload: Payload) -> Payload:
        """Answer a phase of the protocol."""
        return self.sums.handle(payload["phase"], payload["message"])

    def count(self, tag: str, counts: Any) -> Payload:
        """What :meth:`Clients.count_nodes` adds up."""
        return self.sums.protect(tag, {"counts": counts / COUNT_UNIT})


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


def _contributions(replies: Mapping[str, Payload], key: str) -> dict[str, Payload]:
    return {name: reply[key] for name, reply in replies.items() if key in reply}
