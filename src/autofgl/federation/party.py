"""The client side: a party lives for a whole run and answers named operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias

from autofgl.errors import AutoFGLError, for_others, one_line
from autofgl.federation.payload import Payload
from autofgl.identity import Identity


class Refused(AutoFGLError):
    """A party declines an operation: it does not know it, or its policy forbids it."""


class PeerFailed(AutoFGLError):
    """A call from one party to another did not succeed; kinds are those of :class:`Failure`."""

    def __init__(self, peer: str, kind: str, message: str) -> None:
        super().__init__(f"{peer}: {message}")
        self.peer = peer
        self.kind = kind


class Peers(Protocol):
    """A party's line to the other parties."""

    def call(self, peer: str, op: str, payload: Payload | None = None) -> Payload:
        """Call a peer's operation; raises ``PeerFailed`` if it is gone, refused, or failed."""


@dataclass(frozen=True)
class Context:
    """What a party learns when it is built.

    Attributes:
        name: Its own name.
        parties: Names of all parties, in order.
        peers: Its line to the others.
        run: Names the run; keys are bound to it.
        identity: Proves who it is to the others, so that a server cannot take its place.
        min_parties: Fewest parties whose sum it helps to reveal, whatever the server asks for.
        ledger: File in which it notes the sums that it took part in, over restarts.
        device: Name of the device that its networks compute on.
    """

    name: str
    parties: Sequence[str]
    peers: Peers = field(repr=False)
    run: str = ""
    identity: Identity | None = field(default=None, repr=False)
    min_parties: int = 0
    ledger: Path | None = None
    device: str = "cpu"


class Party:
    """Base of all clients. Each operation is a method from payload to payload.

    Operations in ``operations`` are for the server, those in ``peer_operations`` for other parties;
    everything else is refused. Peer operations may run while another operation of the same party
    runs: they only read what the party published in an earlier call.

    A party may go through phases, each with the operations that are answered in it. So a server
    that cheats cannot ask for weights in the middle of a round, or make a round twice. An operation
    that fails leaves it in the phase ``failed``: what it holds then is neither what it was before
    nor what it should be.
    """

    operations: ClassVar[frozenset[str]] = frozenset()
    peer_operations: ClassVar[frozenset[str]] = frozenset()
    #: Phase → operation → the phase after it. What no phase names is answered in all of them.
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    phase: str = "new"

    def handle(self, op: str, payload: Payload, by_peer: bool = False) -> Payload:
        """Answer the server if it is time for that, or another party."""
        allowed = self.peer_operations if by_peer else self.operations
        if op not in allowed:
            raise Refused(f"operation '{op}' is not offered; offered are {sorted(allowed)}")
        answer: Callable[[Payload], Payload] = getattr(self, op)
        if by_peer or not any(op in ordered for ordered in self.phases.values()):
            return answer(payload)
        after = self.phases.get(self.phase, {}).get(op)
        if after is None:
            raise Refused(f"operation '{op}' is not answered in phase '{self.phase}'")
        self.permit(op, payload)
        self.phase = "failed"
        reply = answer(payload)
        self.phase = after
        return reply

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse what is not in order besides; nothing has changed yet."""

    def state(self) -> Payload:
        """Everything that a resumed run needs of this party."""
        return {}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""


def require_later(what: str, asked: object, last: object) -> None:
    """Refuse numbers, alone or in a tuple, that do not come after the last ones."""
    numbers = asked if isinstance(asked, tuple) else (asked,)
    before = last if isinstance(last, tuple) else (last,)
    if not all(type(number) is int for number in numbers) or numbers <= before:
        raise Refused(f"{what} {asked} is not after {last}: none is made twice")


#: Builds a party where it is to live.
PartyFactory: TypeAlias = Callable[[Context], Party]


def one_torch_thread() -> None:
    """Have this thread compute alone: a party's numbers do not depend on the machine's cores."""
    import torch  # here: whoever only names an engine need not wait for it

    torch.set_num_threads(1)


@dataclass(frozen=True)
class Failure:
    """Why a party gave no reply, with a message of one line.

    Its kind is ``timeout`` (still busy at the deadline), ``lost`` (gone), ``exception`` (its code
    failed) or ``refused`` (it declined). Whatever a party says of itself is made printable.
    """

    kind: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))


@dataclass(frozen=True)
class Replies:
    """Answers to one call, in the order of the parties."""

    ok: Mapping[str, Payload]
    failed: Mapping[str, Failure]

    @classmethod
    def of(cls, outcomes: Mapping[str, Payload | Failure]) -> "Replies":
        """Good answers and failures, apart."""
        return cls(
            {name: item for name, item in outcomes.items() if not isinstance(item, Failure)},
            {name: item for name, item in outcomes.items() if isinstance(item, Failure)},
        )


def failure_of(error: BaseException) -> Failure:
    """What the caller learns of an exception in a party: one line without paths and magnitudes.

    The whole of it is for the party's own log.
    """
    if isinstance(error, Refused):
        return Failure("refused", for_others(str(error)))
    own = isinstance(error, AutoFGLError)
    return Failure("exception", f"{type(error).__name__}: {for_others(str(error), own)}")
