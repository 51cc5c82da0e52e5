"""The party's side of masked sums that survive lost parties.

After Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning",
CCS 2017. In the sum of one tag, party u holds the integers x_u and sends, modulo 2**64::

    y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv)

The pairwise masks s_uv, which u and v derive from their common secret and the tag, cancel in the
sum. The self masks b_u do not: u also sends a t-of-n sharing of b_u, one encrypted share for each
peer. To open the sum the server asks in two phases:

- ``settle``, only if a party v did not contribute: the contributors tell s_uv, for this tag. One
  that does not answer counts as lost as well, and the others are asked for its masks, until no
  more are lost.
- ``unmask``: the parties tell their shares of the contributors' b_u. Any t of them are enough.

We differ from the paper in what happens to a lost party v. There its private key is rebuilt, so
that keys serve for one sum only. Here each contributor tells its own mask with v, so that keys
live on, and ``settle`` may need more than one round.

A party never tells both its mask with a peer and its share of that peer's self mask. So even a
server that lies about who is lost either has fewer than t shares of b_u or lacks the s_uv of an
honest party v, as long as fewer than t - 1 parties collude with it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import shamir
from autofgl.secure.contributions import Header
from autofgl.secure.interface import (
    Array,
    Payload,
    Reveal,
    SecureSumError,
    SumRefused,
    Sums,
    SumSettings,
)
from autofgl.secure.keyring import KeyRing
from autofgl.secure.messages import frame, take, take_bytes_by_name, take_names, take_words
from autofgl.secure.stream import add_stream, subtract_stream
from autofgl.secure.vectors import flatten
from autofgl.secure.words import Words

PAIR, SELF, GROUP = "pair mask", "self mask", "group mask"


def threshold_of(settings: SumSettings) -> int:
    """Parties that are needed to unmask a sum: a majority unless set otherwise."""
    return settings.at_least(len(settings.parties) // 2 + 1)


def self_mask_key(secret: bytes) -> bytes:
    """The stream key of a self mask."""
    return hashlib.sha256(frame("autofgl", SELF, secret)).digest()


def self_mask_check(secret: bytes) -> bytes:
    """Lets the server see that it rebuilt a secret correctly, and says nothing of it before."""
    return hashlib.sha256(frame("autofgl check", SELF, secret)).digest()[:16]


@dataclass
class _Sum:
    """What a party remembers of a sum.

    Attributes:
        reveal: Who may read it; empty if this party did not contribute.
        share: The party's share of its own self mask.
        lost: Peers whose pairwise mask it told.
        contributors: For whom it told shares of self masks, if it did.
    """

    reveal: str = ""
    share: bytes = b""
    lost: set[str] = field(default_factory=set)
    contributors: tuple[str, ...] | None = None


class SharesClient:
    """A party of t-of-n masked sums."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._threshold = threshold_of(settings)
        self._words = Words(settings)
        self._ring = KeyRing(name, settings.parties, self._threshold, settings.shared_secret)
        self._sums: dict[str, _Sum] = {}

    def __repr__(self) -> str:
        return f"SharesClient({self._ring!r})"

    def handle(self, phase: str, message: Payload) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        phases: dict[str, Callable[[Payload], Payload]] = {
            **self._ring.phases,
            "settle": self._settle,
            "unmask": self._unmask,
        }
        if phase not in phases:
            raise SumRefused(f"there is no phase '{phase}'")
        if phase == "keys":
            self._sums.clear()
        return phases[phase](message)

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        self._ring.require()
        if tag in self._sums:
            raise SumRefused(f"{self._ring.name} used the tag '{tag}' before")
        layout, flat = flatten(vectors)
        if reveal == "parties":
            words = self._words.encode_for_parties(flat, self._ring.group_key(GROUP, tag))
        else:
            words = self._words.encode(flat)
        secret = shamir.random_secret()
        add_stream(words, self_mask_key(secret))
        self._mask_pairwise(words, tag)
        header = Header(tag, self._ring.session, reveal, self._words.fraction_bits, layout)
        return {
            **header.to_payload(),
            "words": words,
            "check": self_mask_check(secret),
            "shares": self._share(secret, tag, reveal),
        }

    def open(self, sealed: Payload) -> Sums:
        """See :class:`autofgl.secure.interface.SumClient`."""
        header = Header.from_payload(sealed)
        contributors = take_names(sealed, "contributors")
        if self._sums.get(header.tag, _Sum()).reveal == "server":
            raise SumRefused(f"{self._ring.name} contributed to '{header.tag}' for the server")
        if header.session != self._ring.session:
            raise SecureSumError(f"'{header.tag}' was masked with other keys")
        if not set(contributors) <= set(self._ring.roster):
            raise SecureSumError(f"'{header.tag}' names contributors that are not in the roster")
        words = take_words(sealed, "words", header.layout.size)
        key = self._ring.group_key(GROUP, header.tag)
        return header.layout.split(self._words.decode_for_parties(words, key, len(contributors)))

    def _mask_pairwise(self, words: NDArray[np.uint64], tag: str) -> None:
        earlier = True
        for peer in self._ring.roster:
            if peer == self._ring.name:
                earlier = False
                continue
            apply = subtract_stream if earlier else add_stream
            apply(words, self._ring.pair_key(peer, PAIR, tag))

    def _share(self, secret: bytes, tag: str, reveal: Reveal) -> dict[str, bytes]:
        """Split the self mask; keep the own share and box the others."""
        roster = self._ring.roster
        shares = dict(zip(roster, shamir.split(secret, self._threshold, len(roster)), strict=True))
        self._sums[tag] = _Sum(reveal, shares.pop(self._ring.name))
        return {peer: self._ring.seal(peer, SELF, tag, share) for peer, share in shares.items()}

    def _settle(self, message: Payload) -> Payload:
        """Tell the masks that this party shares with lost peers."""
        tag, lost = take(message, "tag", str), take_names(message, "lost")
        contributors = self._contributors(message)
        known = self._sums.get(tag)
        if known is None or not known.reveal or self._ring.name not in contributors:
            raise SumRefused(f"{self._ring.name} did not contribute to '{tag}'")
        if known.contributors is not None:
            raise SumRefused(f"{self._ring.name} has already unmasked '{tag}'")
        if set(contributors) & (known.lost | set(lost)):
            raise SumRefused(f"'{tag}': a party cannot be lost and a contributor")
        seeds = {peer: self._ring.pair_key(peer, PAIR, tag) for peer in lost}
        known.lost.update(lost)
        return {"seeds": seeds}

    def _unmask(self, message: Payload) -> Payload:
        """Tell the shares of the contributors' self masks."""
        tag = take(message, "tag", str)
        boxes = take_bytes_by_name(message, "boxes")
        contributors = self._contributors(message)
        known = self._sums.get(tag, _Sum())
        if known.contributors not in (None, contributors):
            raise SumRefused(f"{self._ring.name} unmasked '{tag}' for other parties before")
        if mixed := sorted(set(contributors) & known.lost):
            raise SumRefused(
                f"'{tag}': {self._ring.name} told its mask with {', '.join(mixed)} and will not "
                "tell its share of their self masks"
            )
        shares = {name: self._share_of(name, tag, boxes, known) for name in contributors}
        known.contributors = contributors
        self._sums[tag] = known
        return {"shares": shares}

    def _share_of(self, name: str, tag: str, boxes: Mapping[str, bytes], known: _Sum) -> bytes:
        if name != self._ring.name:
            return self._ring.unseal(name, SELF, tag, boxes.get(name, b""))
        if not known.share:
            raise SumRefused(f"{name} did not contribute to '{tag}'")
        return known.share

    def _contributors(self, message: Payload) -> tuple[str, ...]:
        self._ring.require()
        names = take_names(message, "contributors")
        if len(names) < self._threshold or not set(names) <= set(self._ring.roster):
            raise SumRefused(
                f"{self._ring.name} helps to open sums of {self._threshold} or more parties of "
                f"the roster only, not of {len(names)}"
            )
        return tuple(sorted(names))
