"""One consistent view: what a party confirms of a sum, so that nobody is told another story.

A *view* of a sum is its header (name, reader, shapes) and its contributors; who else has keys is
lost. A party confirms one view of a sum, for ever, by a code for every other party, under a key
that only the two of them have. It helps to open the sum when it has seen as many confirmations of
its own view as the threshold t asks for. Two views with t confirmations each would need 2t - n
parties that confirmed both; c < 2t - n colluding parties are too few for that. After the
consistency check of Bonawitz et al., CCS 2017, section 6.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autofgl.secure.keys import KeyRing, bind_parts

CONFIRM = "confirm"
HEADER_BYTES = 32
CONFIRMATION_BYTES = 16


@dataclass(frozen=True)
class SumView:
    """A sum as one party sees it: the digest of its header, and the contributors in order."""

    tag: str
    header: bytes
    contributors: tuple[str, ...]

    @property
    def digest(self) -> bytes:
        """Names the view, whatever keys are used."""
        return hashlib.sha256(bind_parts("autofgl view", self.header, *self.contributors)).digest()


def confirm_view(view: SumView, ring: KeyRing, peers: Iterable[str]) -> dict[str, bytes]:
    """This party's confirmations for its peers."""
    digest = view.digest
    return {peer: _code(ring, peer, view.tag, digest, ring.name) for peer in peers}


def confirmed_by(
    view: SumView, ring: KeyRing, peers: Iterable[str], confirmations: Mapping[str, bytes]
) -> set[str]:
    """The peers that confirmed this view to this party."""
    digest, confirmed = view.digest, set()
    for peer in peers:
        code = _code(ring, peer, view.tag, digest, peer)
        if hmac.compare_digest(confirmations.get(peer, b""), code):
            confirmed.add(peer)
    return confirmed


def _code(ring: KeyRing, peer: str, tag: str, digest: bytes, sender: str) -> bytes:
    """The key knows session, tag and both parties; the sender is named against reflections."""
    key = ring.pair_key(peer, CONFIRM, tag)
    return hmac.digest(key, bind_parts(sender, digest), "sha256")[:CONFIRMATION_BYTES]
