"""The client side: a party lives for a whole run and answers named operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload


class Refused(AutoFGLError):
    """A party declines an operation: it does not know it, or its policy forbids it."""


class PeerFailed(AutoFGLError):
    """A call from one party to another did not succeed.

    Attributes:
        kind: ``timeout``, ``lost``, ``exception`` or ``refused``.
    """

    def __init__(self, peer: str, kind: str, message: str) -> None:
        super().__init__(f"{peer}: {message}")
        self.peer = peer
        self.kind = kind


class Peers(Protocol):
    """A party's line to the other parties."""

    def call(self, peer: str, op: str, payload: Payload | None = None) -> Payload:
        """Call a peer's operation.

        Raises:
            PeerFailed: The peer is gone, refused, or failed.
        """
        ...


@dataclass(frozen=True)
class Context:
    """What a party is told when it is built.

    Attributes:
        name: The party's own name.
        parties: Names of all parties of the run, in order.
        peers: Line to the other parties.
    """

    name: str
    parties: Sequence[str]
    peers: Peers = field(repr=False)


class Party:
    """Base of all clients. Each operation is a method from payload to payload.

    Operations in ``operations`` are for the server, those in ``peer_operations`` for other parties;
    everything else is refused. Peer operations may run while another operation of the same party
    runs: they only read what the party published in an earlier call.
    """

    operations: ClassVar[frozenset[str]] = frozenset()
    peer_operations: ClassVar[frozenset[str]] = frozenset()

    def handle(self, op: str, payload: Payload) -> Payload:
        """Answer the server."""
        return self._dispatch(op, payload, self.operations)

    def handle_peer(self, op: str, payload: Payload) -> Payload:
        """Answer another party."""
        return self._dispatch(op, payload, self.peer_operations)

    def state(self) -> Payload:
        """Everything that a resumed run needs of this party."""
        return {}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""

    def _dispatch(self, op: str, payload: Payload, allowed: frozenset[str]) -> Payload:
        if op not in allowed:
            raise Refused(f"operation '{op}' is not offered; offered are {sorted(allowed)}")
        reply: Payload = getattr(self, op)(payload)
        return reply


#: Builds a party where its data is.
PartyFactory: TypeAlias = Callable[[Context], Party]


@dataclass(frozen=True)
class Failure:
    """Why a party gave no reply.

    Attributes:
        kind: ``timeout`` (still busy at the deadline), ``lost`` (gone), ``exception`` (its code
            failed) or ``refused`` (it declined).
        message: One line for a person.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class Replies:
    """Answers to one call, in the order of the parties."""

    ok: Mapping[str, Payload]
    failed: Mapping[str, Failure]


def failure_of(error: BaseException) -> Failure:
    """What the caller is told of an exception in a party."""
    if isinstance(error, Refused):
        return Failure("refused", str(error))
    return Failure("exception", f"{type(error).__name__}: {error}")
