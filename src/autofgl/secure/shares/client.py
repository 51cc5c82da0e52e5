"""The party's side of masked sums; :mod:`autofgl.secure.shares` explains both protocols."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.contributions import (
    Header,
    flatten,
    take_bytes_by_name,
    take_field,
    take_names,
    take_words,
)
from autofgl.secure.interface import (
    Array,
    Payload,
    Reveal,
    SecureSumError,
    SumRefused,
    SumSettings,
    SumVectors,
)
from autofgl.secure.keys import KeyedClient
from autofgl.secure.shares.masks import (
    GROUP,
    KEY_BYTES,
    PAIR,
    SELF,
    SHARE,
    Words,
    add_stream,
    random_secret,
    self_mask_check,
    self_mask_key,
    split_secret,
    subtract_stream,
    threshold_of,
)

_MOST_OPEN = 8  # sums whose vector a party of additive sharing keeps until the server asks for it


class _MaskedClient(KeyedClient):
    """What parties of both protocols do alike: values become words, and words values."""

    def __init__(self, name: str, settings: SumSettings, fewest: int) -> None:
        super().__init__(name, settings, fewest)
        self._words = Words(settings)

    def _encode(
        self, tag: str, vectors: Mapping[str, Array], reveal: Reveal
    ) -> tuple[Header, NDArray[np.uint64]]:
        """The header of a contribution, and its words without masks but that of the group."""
        self._require_new(tag)
        layout, flat = flatten(vectors)
        if reveal == "parties":
            words = self._words.encode_for_parties(flat, self._ring.group_key(GROUP, tag))
        else:
            words = self._words.encode(flat)
        return Header(tag, self._ring.session, reveal, self._words.fraction_bits, layout), words

    def open(self, sealed: Payload) -> SumVectors:
        """See :class:`autofgl.secure.interface.SumClient`."""
        header = self._sealed_header(sealed)
        contributors = take_names(sealed, "contributors")
        if not set(contributors) <= set(self._ring.roster):
            raise SecureSumError(f"'{header.tag}' names contributors that are not in the roster")
        words = take_words(sealed, "words", header.layout.size)
        key = self._ring.group_key(GROUP, header.tag)
        return header.layout.split(self._words.decode_for_parties(words, key, len(contributors)))


@dataclass
class _Sum:
    """What a party remembers of a sum.

    Attributes:
        share: The party's share of its own self mask; empty if it did not contribute.
        lost: Peers whose pairwise mask it gave away.
        contributors: For whom it gave away shares of self masks, if it did.
    """

    share: bytes = b""
    lost: set[str] = field(default_factory=set)
    contributors: tuple[str, ...] | None = None


class SharesClient(_MaskedClient):
    """A party of t-of-n masked sums."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._threshold = threshold_of(settings)
        super().__init__(name, settings, self._threshold)
        self._sums: dict[str, _Sum] = {}

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        header, words = self._encode(tag, vectors, reveal)
        secret = random_secret()
        add_stream(words, self_mask_key(secret))
        self._mask_pairwise(words, tag)
        self._readers[tag] = reveal
        return {
            **header.to_payload(),
            "words": words,
            "check": self_mask_check(secret),
            "shares": self._share(secret, tag),
        }

    def _phases(self) -> dict[str, Callable[[Payload], Payload]]:
        return {"settle": self._settle, "unmask": self._unmask}

    def _forget(self) -> None:
        super()._forget()
        self._sums.clear()

    def _mask_pairwise(self, words: NDArray[np.uint64], tag: str) -> None:
        earlier = True
        for peer in self._ring.roster:
            if peer == self._ring.name:
                earlier = False
                continue
            apply = subtract_stream if earlier else add_stream
            apply(words, self._ring.pair_key(peer, PAIR, tag))

    def _share(self, secret: bytes, tag: str) -> dict[str, bytes]:
        """Split the self mask; keep the own share and box the others."""
        roster = self._ring.roster
        shares = dict(zip(roster, split_secret(secret, self._threshold, len(roster)), strict=True))
        self._sums[tag] = _Sum(shares.pop(self._ring.name))
        return {peer: self._ring.seal(peer, SELF, tag, share) for peer, share in shares.items()}

    def _settle(self, message: Payload) -> Payload:
        """Tell the masks that this party shares with lost peers."""
        tag, lost = take_field(message, "tag", str), take_names(message, "lost")
        contributors = self._contributors(message)
        own = self._sums.get(tag)
        if own is None or not own.share or self._ring.name not in contributors:
            raise SumRefused(f"{self._ring.name} did not contribute to '{tag}'")
        if own.contributors is not None:
            raise SumRefused(f"{self._ring.name} has already unmasked '{tag}'")
        if set(contributors) & (own.lost | set(lost)):
            raise SumRefused(f"'{tag}': a party cannot be lost and a contributor")
        seeds = {peer: self._ring.pair_key(peer, PAIR, tag) for peer in lost}
        own.lost.update(lost)
        return {"seeds": seeds}

    def _unmask(self, message: Payload) -> Payload:
        """Tell the shares of the contributors' self masks."""
        tag = take_field(message, "tag", str)
        boxes = take_bytes_by_name(message, "boxes")
        contributors = self._contributors(message)
        own = self._sums.get(tag, _Sum())
        if own.contributors not in (None, contributors):
            raise SumRefused(f"{self._ring.name} unmasked '{tag}' for other parties before")
        if mixed := sorted(set(contributors) & own.lost):
            raise SumRefused(
                f"'{tag}': {self._ring.name} gave away its mask with {', '.join(mixed)} and will "
                "not tell its share of their self masks"
            )
        shares = {name: self._share_of(name, tag, boxes, own) for name in contributors}
        own.contributors = contributors
        self._sums[tag] = own
        self._readers.setdefault(tag, "")
        return {"shares": shares}

    def _share_of(self, name: str, tag: str, boxes: Mapping[str, bytes], own: _Sum) -> bytes:
        if name != self._ring.name:
            return self._ring.unseal(name, SELF, tag, boxes.get(name, b""))
        if not own.share:
            raise SumRefused(f"{name} did not contribute to '{tag}'")
        return own.share

    def _contributors(self, message: Payload) -> tuple[str, ...]:
        self._ring.require()
        names = take_names(message, "contributors")
        if len(names) < self._threshold or not set(names) <= set(self._ring.roster):
            raise SumRefused(
                f"{self._ring.name} helps to open sums of {self._threshold} or more parties of "
                f"the roster only, not of {len(names)}"
            )
        return tuple(sorted(names))


class AdditiveClient(_MaskedClient):
    """A party of n-of-n additive sharing."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        settings.at_least(2)
        super().__init__(name, settings, len(settings.parties))
        self._own: dict[str, NDArray[np.uint64]] = {}

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        header, own = self._encode(tag, vectors, reveal)
        keys = {peer: os.urandom(KEY_BYTES) for peer in self._ring.peers}
        for key in keys.values():
            subtract_stream(own, key)
        self._readers[tag] = reveal
        self._own[tag] = own
        while len(self._own) > _MOST_OPEN:
            del self._own[next(iter(self._own))]
        boxes = {peer: self._ring.seal(peer, SHARE, tag, key) for peer, key in keys.items()}
        return {**header.to_payload(), "shares": boxes}

    def _phases(self) -> dict[str, Callable[[Payload], Payload]]:
        return {"add": self._add}

    def _forget(self) -> None:
        super()._forget()
        self._own.clear()

    def _add(self, message: Payload) -> Payload:
        """The sum of the shares that this party was given."""
        tag, boxes = take_field(message, "tag", str), take_bytes_by_name(message, "boxes")
        if tag not in self._own:
            raise SumRefused(f"{self._ring.name} has no share of '{tag}', or gave it before")
        if boxes.keys() != set(self._ring.peers):
            raise SumRefused(f"{self._ring.name} adds shares of '{tag}' of all parties only")
        keys = [self._ring.unseal(peer, SHARE, tag, box) for peer, box in boxes.items()]
        if any(len(key) != KEY_BYTES for key in keys):
            raise SecureSumError(f"malformed share of '{tag}'")
        words = self._own.pop(tag)
        for key in keys:
            add_stream(words, key)
        return {"words": words}
