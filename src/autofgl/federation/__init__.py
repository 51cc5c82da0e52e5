"""Parties, payloads and the engines that carry them: what a method sees of its clients."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from autofgl.errors import FederationError
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload

Direction: TypeAlias = Literal["down", "up", "peer"]

#: Called with direction, party, operation and payload of each message; for tests and audits.
Observer: TypeAlias = Callable[[Direction, str, str, Payload], None]


@dataclass
class OpTraffic:
    """Bytes and messages of one operation: to clients, to the server, between clients."""

    bytes_down: int = 0
    bytes_up: int = 0
    bytes_peer: int = 0
    messages_down: int = 0
    messages_up: int = 0
    messages_peer: int = 0


class Traffic:
    """Bytes and messages per operation. The figures are those of the encoded payloads.

    Every engine counts the same bytes for the same payloads; framing and encryption of a
    particular transport are not counted.
    """

    def __init__(self) -> None:
        self.ops: dict[str, OpTraffic] = {}
        self._lock = threading.Lock()

    def count(self, direction: Direction, op: str, size: int) -> None:
        """Count one message."""
        with self._lock:
            row = vars(self.ops.get(op) or self.ops.setdefault(op, OpTraffic()))
            row[f"bytes_{direction}"] += size
            row[f"messages_{direction}"] += 1

    def total(self, direction: Direction) -> int:
        """Bytes in one direction over all operations."""
        with self._lock:
            return sum(getattr(row, f"bytes_{direction}") for row in self.ops.values())

    def state(self) -> Payload:
        """The counters, for a checkpoint."""
        with self._lock:
            return {op: asdict(row) for op, row in self.ops.items()}

    def load_state(self, state: Payload) -> None:
        """Go on counting from a checkpoint."""
        with self._lock:
            self.ops = {op: OpTraffic(**row) for op, row in state.items()}


class Federation(Protocol):
    """A set of parties that can be called together. Engines implement it."""

    meter: Traffic
    #: Where the server's side keeps files of the run, if anywhere.
    folder: Path | None

    @property
    def parties(self) -> Sequence[str]:
        """Names of the parties that take part, in order."""

    @property
    def returned(self) -> Sequence[str]:
        """Parties that were lost and could take part again, if the run is begun anew."""

    def call(
        self,
        op: str,
        payload: Payload | None = None,
        *,
        each: Mapping[str, Payload] | None = None,
        to: Collection[str] | None = None,
        timeout: float | None = None,
        min_ok: int | None = None,
    ) -> Replies:
        """Call an operation of several parties at once and wait for all of them.

        Args:
            payload: What every called party receives.
            each: What each party receives besides; its keys win over ``payload``'s.
            to: Parties to call; all of them if not given.
            timeout: Seconds until an answer counts as a failure, which is a normal reply.
            min_ok: Fewer good answers than this raise.

        Raises:
            FederationError: Fewer than ``min_ok`` parties answered.
        """

    def drop(self, party: str) -> None:
        """Go on without a party."""

    def checkpoint(
        self, tag: str, run: str = "", timeout: float | None = None
    ) -> Mapping[str, str]:
        """Have every party keep its state under a tag of a run, at its own place.

        Returns:
            The digest of each party's file. A party that is lost, or late, has none.
        """

    def restore(
        self, tag: str, digests: Mapping[str, str], run: str = "", timeout: float | None = None
    ) -> None:
        """Have parties load the states that they kept under a tag, once all files are verified.

        Args:
            digests: Whose states, and the digests that their files must have.

        Raises:
            CheckpointError: A file is missing or damaged; no party has loaded anything.
        """

    def forget(self, tag: str) -> None:
        """Have every party delete the state that it kept under a tag."""

    def close(self) -> None:
        """Let the parties go."""


def require(op: str, replies: Replies, min_ok: int | None) -> Replies:
    """Return the replies, or raise if fewer than ``min_ok`` are good."""
    if min_ok is not None and len(replies.ok) < min_ok:
        failed = replies.failed.items()
        reasons = "; ".join(f"{name} {why.kind}: {why.message}" for name, why in failed)
        answered = f"{len(replies.ok)} answered" + (f" ({reasons})" if reasons else "")
        raise FederationError(f"'{op}' needs {min_ok} parties, {answered}")
    return replies
