"""Counts what crosses between parties."""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

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
            row = self.ops.get(op) or self.ops.setdefault(op, OpTraffic())
            if direction == "peer":
                row.bytes_peer += size
                row.messages_peer += 1
            elif direction == "up":
                row.bytes_up += size
                row.messages_up += 1
            else:
                row.bytes_down += size
                row.messages_down += 1

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
