"""Secrets in shares: a party deals them to its group, and the server rebuilds what t members tell.

With every share travels its digest, which the server keeps and the holder checks. So a holder that
tells a wrong share is known, and one that was dealt a wrong share says nothing rather than take
the blame.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autofgl.secure import Payload, SecureSumError
from autofgl.secure.contributions import take_bytes_by_name, take_field
from autofgl.secure.keys import KeyRing, bind_parts
from autofgl.secure.shares.masks import (
    SHARE_BYTES,
    combine_shares,
    lagrange_weights,
    split_secret,
)

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Deal:
    """Names one secret: what it is for, in which sum, and who deals it."""

    purpose: str
    tag: str
    dealer: str

    @cached_property
    def _context(self) -> bytes:
        return bind_parts("autofgl share", self.purpose, self.tag, self.dealer)

    def digest(self, holder: str, share: bytes) -> bytes:
        """Names a holder's share and says nothing of it: shares are random and long."""
        return hashlib.sha256(self._context + bind_parts(holder, share)).digest()[:_DIGEST_BYTES]

    def check(self, secret: bytes) -> bytes:
        """Lets the server see that it rebuilt the secret, and says nothing of it before."""
        return hashlib.sha256(self._context + bind_parts(secret)).digest()[:_DIGEST_BYTES]


def deal_secret(
    deal: Deal,
    secret: bytes,
    ring: KeyRing,
    holders: Sequence[str],
    threshold: int,
    note: bytes = b"",
) -> tuple[bytes, Payload]:
    """The dealer's own share, and what it sends: a sealed share for every holder but itself.

    A note for all holders goes with the shares.
    """
    shares = dict(zip(holders, split_secret(secret, threshold, len(holders)), strict=True))
    parts = {}
    for holder, share in shares.items():
        sealed = b""
        if holder != ring.name:
            sealed = ring.seal(holder, deal.purpose, deal.tag, share + note)
        parts[holder] = deal.digest(holder, share) + sealed
    return shares[ring.name], {"check": deal.check(secret), "shares": parts}


def open_share(deal: Deal, ring: KeyRing, part: bytes) -> tuple[bytes, bytes]:
    """This party's share of a secret, and the dealer's note; nothing if it got something else."""
    try:
        text = ring.unseal(deal.dealer, deal.purpose, deal.tag, part[_DIGEST_BYTES:])
    except SecureSumError:
        return b"", b""
    share, note = text[:SHARE_BYTES], text[SHARE_BYTES:]
    return (share if deal.digest(ring.name, share) == part[:_DIGEST_BYTES] else b""), note


def check_dealt(message: Payload) -> None:
    """Raise unless a message has what :func:`deal_secret` sends."""
    take_field(message, "check", bytes)
    take_bytes_by_name(message, "shares")


class Rebuilder:
    """Rebuilds dealt secrets without the wrong shares, and notes what is provably wrong."""

    def __init__(self, holders: Sequence[str], threshold: int, wrong: dict[str, str]) -> None:
        self._points = {name: index for index, name in enumerate(holders, 1)}
        self._threshold = threshold
        self._weights: dict[tuple[int, ...], dict[int, int]] = {}
        self._wrong = wrong

    def rebuild(
        self, deal: Deal, dealt: Payload, shown: Mapping[str, Mapping[str, bytes]]
    ) -> bytes:
        """The secret, from what each holder tells of each dealer's shares."""
        good: dict[int, bytes] = {}
        for holder, shares in shown.items():
            share, part = shares.get(deal.dealer), dealt["shares"].get(holder, b"")
            if share is not None and deal.digest(holder, share) == part[:_DIGEST_BYTES]:
                good[self._points[holder]] = share
            elif share is not None:
                self._wrong[holder] = f"sent a wrong share of {deal.dealer}'s {deal.purpose}"
        if len(good) < self._threshold:
            raise SecureSumError(
                f"{self._threshold} shares of {deal.dealer}'s {deal.purpose} are needed, "
                f"{len(good)} are right; nothing was revealed"
            )
        used = dict(sorted(good.items())[: self._threshold])
        secret = self._combine(used)
        if deal.check(secret) != dealt["check"]:
            self._wrong[deal.dealer] = "dealt shares that do not fit together"
            raise SecureSumError(
                f"{deal.dealer} {self._wrong[deal.dealer]}; nothing was revealed",
                wrong=(deal.dealer,),
            )
        return secret

    def _combine(self, shares: Mapping[int, bytes]) -> bytes:
        points = tuple(shares)
        if points not in self._weights:
            self._weights[points] = lagrange_weights(points)
        try:
            return combine_shares(shares, self._weights[points])
        except SecureSumError:  # a dealer's digest of what is no share at all
            return b""
