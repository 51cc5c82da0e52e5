"""Additive secret sharing among all parties, n of n, as in the ASFGNN paper.

Party u splits its integers modulo 2**64 into one share for every party::

    x_u = r_uu + sum over v of r_uv

Party v adds up the shares that it was given, and the server adds these n sums. Each r_uv looks
random; only all of them together say something. If one party is lost, the sum is lost.

The paper sends r_uv as a vector. Here r_uv is the ChaCha20 stream of a key that u draws for v and
sends encrypted, so that a contribution is small, and the vectors travel once, in phase ``add``.
"""

import os
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.agreement import Session, agree
from autofgl.secure.contributions import Header, common_header
from autofgl.secure.interface import (
    Array,
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    SumRefused,
    Sums,
    SumSettings,
    Total,
)
from autofgl.secure.keyring import KeyRing
from autofgl.secure.messages import take, take_bytes_by_name, take_words
from autofgl.secure.stream import KEY_BYTES, add_stream, subtract_stream
from autofgl.secure.vectors import flatten
from autofgl.secure.words import Words

_SHARE, _GROUP = "additive share", "group mask"
_MOST_OPEN = 8  # sums whose vector a party keeps until the server asks for it


class AdditiveClient:
    """A party of n-of-n additive sharing."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._words = Words(settings)
        everyone = _everyone(settings)
        self._ring = KeyRing(name, settings.parties, everyone, settings.shared_secret)
        self._revealed: dict[str, Reveal] = {}
        self._own: dict[str, NDArray[np.uint64]] = {}

    def __repr__(self) -> str:
        return f"AdditiveClient({self._ring!r})"

    def handle(self, phase: str, message: Payload) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        phases: dict[str, Callable[[Payload], Payload]] = {**self._ring.phases, "add": self._add}
        if phase not in phases:
            raise SumRefused(f"there is no phase '{phase}'")
        if phase == "keys":
            self._revealed.clear()
            self._own.clear()
        return phases[phase](message)

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        self._ring.require()
        if tag in self._revealed:
            raise SumRefused(f"{self._ring.name} used the tag '{tag}' before")
        layout, flat = flatten(vectors)
        if reveal == "parties":
            own = self._words.encode_for_parties(flat, self._ring.group_key(_GROUP, tag))
        else:
            own = self._words.encode(flat)
        keys = {peer: os.urandom(KEY_BYTES) for peer in self._ring.peers}
        for key in keys.values():
            subtract_stream(own, key)
        self._revealed[tag] = reveal
        self._own[tag] = own
        while len(self._own) > _MOST_OPEN:
            del self._own[next(iter(self._own))]
        header = Header(tag, self._ring.session, reveal, self._words.fraction_bits, layout)
        boxes = {peer: self._ring.seal(peer, _SHARE, tag, key) for peer, key in keys.items()}
        return {**header.to_payload(), "shares": boxes}

    def open(self, sealed: Payload) -> Sums:
        """See :class:`autofgl.secure.interface.SumClient`."""
        header = Header.from_payload(sealed)
        if self._revealed.get(header.tag, "parties") != "parties":
            raise SumRefused(f"{self._ring.name} contributed to '{header.tag}' for the server")
        if header.session != self._ring.session:
            raise SecureSumError(f"'{header.tag}' was masked with other keys")
        words = take_words(sealed, "words", header.layout.size)
        key = self._ring.group_key(_GROUP, header.tag)
        values = self._words.decode_for_parties(words, key, len(self._ring.roster))
        return header.layout.split(values)

    def _add(self, message: Payload) -> Payload:
        """The sum of the shares that this party was given."""
        tag, boxes = take(message, "tag", str), take_bytes_by_name(message, "boxes")
        if tag not in self._own:
            raise SumRefused(f"{self._ring.name} has no share of '{tag}', or told it before")
        if boxes.keys() != set(self._ring.peers):
            raise SumRefused(f"{self._ring.name} adds shares of '{tag}' of all parties only")
        keys = [self._ring.unseal(peer, _SHARE, tag, box) for peer, box in boxes.items()]
        if any(len(key) != KEY_BYTES for key in keys):
            raise SecureSumError(f"malformed share of '{tag}'")
        words = self._own.pop(tag)
        for key in keys:
            add_stream(words, key)
        return {"words": words}


class AdditiveServer:
    """Relays the encrypted shares and adds the parties' sums of them."""

    def __init__(self, settings: SumSettings) -> None:
        self._parties = settings.parties
        self._count = _everyone(settings)
        self._words = Words(settings)
        self._session = Session(b"", ())

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.interface.SumServer`."""
        self._session = agree(ask, self._parties, self._count)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.interface.SumServer`."""
        header, words = self._add(tag, "server", contributions, ask)
        return Total(header.layout.split(self._words.decode(words)), self._session.roster)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:
        """See :class:`autofgl.secure.interface.SumServer`."""
        header, words = self._add(tag, "parties", contributions, ask)
        return {
            **header.to_payload(),
            "words": words,
            "contributors": list(self._session.roster),
        }

    def _add(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> tuple[Header, NDArray[np.uint64]]:
        roster = self._session.roster
        header = common_header(tag, reveal, self._session.name, contributions, roster, self._count)
        boxes = {name: take_bytes_by_name(contributions[name], "shares") for name in roster}
        answers = ask("add", {name: _add_message(tag, name, boxes) for name in roster})
        if missing := [name for name in roster if name not in answers]:
            raise SecureSumError(
                f"'{tag}' is lost with {', '.join(missing)}: additive sharing needs all parties; "
                "secure mode 'shares' does not"
            )
        total = np.zeros(header.layout.size, np.uint64)
        for name in roster:
            total += take_words(answers[name], "words", header.layout.size)
        return header, total


def _everyone(settings: SumSettings) -> int:
    settings.at_least(2)
    return len(settings.parties)


def _add_message(tag: str, name: str, boxes: Mapping[str, Mapping[str, bytes]]) -> Payload:
    return {
        "tag": tag,
        "boxes": {sender: sent[name] for sender, sent in boxes.items() if name in sent},
    }
