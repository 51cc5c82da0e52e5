"""A party behind its site's policy: what the server asks of it later is checked as well.

A policy that looked at the opening of a run only could be evaded a message later: a recipe brings
other settings and other networks, and nothing would count what leaves the site.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from autofgl.atomic import write_text
from autofgl.federation.party import Party, Refused
from autofgl.federation.payload import Payload, encoded_size
from autofgl.runtime.recipe import Recipe
from autofgl.sites.policy import Policy


class SentBytes:
    """Bytes that a site sends in a run, over restarts.

    The note is written ahead, in hundredths of the limit: a restart forgets none, and may count
    up to a hundredth too many.
    """

    def __init__(self, note: Path, policy: Policy) -> None:
        self._note = note
        self._policy = policy
        self._noted = _read_count(note)
        self._sent = self._noted
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count an answer before it is sent; ``Refused`` beyond the policy's limit."""
        with self._lock:
            self._sent += size
            self._policy.check_sent(self._sent)
            if self._sent > self._noted and self._policy.max_bytes:
                self._noted = self._sent + self._policy.max_bytes // 100
                write_text(self._note, f"{self._noted}\n")


class PolicedParty(Party):
    """Hands every call on to a party, once the policy has nothing against it."""

    def __init__(self, party: Party, check: Callable[[Recipe], None], sent: SentBytes) -> None:
        self._party = party
        self._check = check
        self._sent = sent

    def handle(self, op: str, payload: Payload, by_peer: bool = False) -> Payload:
        """Answer, unless a recipe or the answer's size breaks a rule."""
        if not by_peer and not payload.keys().isdisjoint(Recipe.model_fields):
            try:
                recipe = Recipe.from_payload(payload)
            except ValidationError as error:
                raise Refused("what is to be trained is no recipe") from error
            self._check(recipe)
        reply = self._party.handle(op, payload, by_peer)
        self._sent.add(encoded_size(reply))
        return reply

    def state(self) -> Payload:
        """The party's own."""
        return self._party.state()

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._party.load_state(state)


def _read_count(note: Path) -> int:
    try:
        return int(note.read_text()) if note.exists() else 0
    except ValueError:
        raise Refused("the site's note of what this run has sent is damaged") from None
