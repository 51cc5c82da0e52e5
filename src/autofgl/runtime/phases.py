"""When a client answers what: a server cannot ask for things out of their order.

A client goes through phases. Each has operations that are answered in it, and the phase that
follows; everything else is refused. So a server that cheats cannot ask for weights in the middle of
a round, or make a round twice.
"""

from collections.abc import Mapping
from typing import ClassVar

from autofgl.federation.party import Party, Refused
from autofgl.federation.payload import Payload


class PhasedParty(Party):
    """A party that answers by its phase.

    An operation that fails leaves it in the phase ``failed``: what it holds then is neither what it
    was before nor what it should be.
    """

    #: Phase → operation → the phase after it. What no phase names is answered in all of them.
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    phase: str = "new"

    def handle(self, op: str, payload: Payload, by_peer: bool = False) -> Payload:
        """Answer the server if it is time for that, or another party."""
        ordered = any(op in allowed for allowed in self.phases.values())
        if by_peer or not ordered or op not in self.operations:
            return super().handle(op, payload, by_peer)
        after = self.phases.get(self.phase, {}).get(op)
        if after is None:
            raise Refused(f"operation '{op}' is not answered in phase '{self.phase}'")
        self.permit(op, payload)
        self.phase = "failed"
        reply = super().handle(op, payload)
        self.phase = after
        return reply

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse what is not in order besides; nothing has changed yet."""


def require_later(what: str, asked: object, last: object) -> None:
    """Refuse numbers, alone or in a tuple, that do not come after the last ones."""
    numbers = asked if isinstance(asked, tuple) else (asked,)
    before = last if isinstance(last, tuple) else (last,)
    if not all(type(number) is int for number in numbers) or numbers <= before:
        raise Refused(f"{what} {asked} is not after {last}: none is made twice")
