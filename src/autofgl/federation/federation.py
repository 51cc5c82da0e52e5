"""The server side: all that a method sees of the clients."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from autofgl.errors import FederationError
from autofgl.federation.party import Failure, Replies
from autofgl.federation.payload import Payload
from autofgl.federation.traffic import Traffic


class Federation(Protocol):
    """A set of parties that can be called together. Engines implement it."""

    meter: Traffic

    @property
    def parties(self) -> Sequence[str]:
        """Names of the parties that take part, in order."""
        ...

    @property
    def returned(self) -> Sequence[str]:
        """Parties that were lost and could take part again, if the run is begun anew."""
        ...

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
            op: Name of the operation.
            payload: What every called party receives.
            each: What each party receives besides; its keys win over ``payload``'s.
            to: Parties to call; all of them if not given.
            timeout: Seconds until an answer counts as a failure.
            min_ok: Fewer good answers than this raise.

        Returns:
            Good answers and failures. A failure is a normal reply, never a hang.

        Raises:
            FederationError: Fewer than ``min_ok`` parties answered.
        """
        ...

    def drop(self, party: str) -> None:
        """Go on without a party."""
        ...

    def checkpoint(self, tag: str) -> None:
        """Have every party keep its state under a tag, at its own place."""
        ...

    def restore(self, tag: str) -> None:
        """Have every party load the state that it kept under a tag."""
        ...

    def forget(self, tag: str) -> None:
        """Have every party delete the state that it kept under a tag."""
        ...

    def close(self) -> None:
        """Let the parties go."""
        ...


def require(op: str, replies: Replies, min_ok: int | None) -> Replies:
    """Return the replies, or raise if fewer than ``min_ok`` are good."""
    if min_ok is not None and len(replies.ok) < min_ok:
        raise FederationError(
            f"'{op}' needs {min_ok} parties, {len(replies.ok)} answered{_reasons(replies.failed)}"
        )
    return replies


def _reasons(failed: Mapping[str, Failure]) -> str:
    reasons = [f"{name} {failure.kind}: {failure.message}" for name, failure in failed.items()]
    return f" ({'; '.join(reasons)})" if reasons else ""
