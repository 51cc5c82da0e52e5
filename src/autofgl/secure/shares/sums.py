"""Both sides of masked sums; :mod:`autofgl.secure.shares` explains both protocols."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import (
    Array,
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    SumRefused,
    SumSettings,
    SumVectors,
    Total,
)
from autofgl.secure.contributions import (
    Header,
    Layout,
    flatten,
    take_bytes_by_name,
    take_field,
    take_names,
    take_words,
)
from autofgl.secure.keys import KeyedClient, KeyedServer
from autofgl.secure.shares.masks import (
    GROUP,
    KEY_BYTES,
    PAIR,
    SELF,
    SHARE,
    Words,
    add_stream,
    combine_shares,
    lagrange_weights,
    random_secret,
    self_mask_check,
    self_mask_key,
    split_secret,
    subtract_stream,
    threshold_of,
)

_MOST_OPEN = 8  # sums whose vector a party of additive sharing keeps until the server asks for it

#: A sum without its masks (that of the group stays on where only the parties may read it), the
#: header that its contributions share, and the parties in it, in order.
_Opened: TypeAlias = tuple[NDArray[np.uint64], Header, tuple[str, ...]]


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
        key = self._ring.group_key(GROUP, tag) if reveal == "parties" else None
        words = self._words.encode(flat, key)
        return Header(tag, self._ring.session, reveal, self._words.fraction_bits, layout), words

    def open(self, sealed: Payload) -> SumVectors:
        """See :class:`autofgl.secure.SumClient`."""
        header = self._sealed_header(sealed)
        contributors = take_names(sealed, "contributors")
        if not set(contributors) <= set(self._ring.roster):
            raise SecureSumError(f"'{header.tag}' names contributors that are not in the roster")
        words = take_words(sealed, "words", header.layout.size)
        key = self._ring.group_key(GROUP, header.tag)
        return header.layout.split(self._words.decode(words, key, len(contributors)))


@dataclass
class _Sum:
    """What a party remembers of a sum."""

    #: The party's share of its own self mask; empty if it did not contribute.
    share: bytes = b""
    #: Peers whose pairwise mask it gave away.
    lost: set[str] = field(default_factory=set)
    #: For whom it gave away shares of self masks, if it did.
    contributors: tuple[str, ...] | None = None


class SharesClient(_MaskedClient):
    """A party of t-of-n masked sums."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._threshold = threshold_of(settings)
        super().__init__(name, settings, self._threshold)
        self._sums: dict[str, _Sum] = {}
        self._phases |= {"settle": self._settle, "unmask": self._unmask}

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        header, words = self._encode(tag, vectors, reveal)
        secret = random_secret()
        add_stream(words, self_mask_key(secret))
        apply = subtract_stream
        for peer in self._ring.roster:
            if peer == self._ring.name:
                apply = add_stream  # for those after this party
            else:
                apply(words, self._ring.pair_key(peer, PAIR, tag))
        self._readers[tag] = reveal
        check, shares = self_mask_check(secret), self._share(secret, tag)
        return {**header.to_payload(), "words": words, "check": check, "shares": shares}

    def _forget(self) -> None:
        super()._forget()
        self._sums.clear()

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
        tag, boxes = take_field(message, "tag", str), take_bytes_by_name(message, "boxes")
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
        self._phases["add"] = self._add

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
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


class _MaskedServer(KeyedServer):
    """What servers of both protocols do alike."""

    def __init__(self, settings: SumSettings, fewest: int) -> None:
        super().__init__(settings, fewest)
        self._words = Words(settings)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.SumServer`."""
        words, header, contributors = self._sum(tag, "server", contributions, ask)
        return Total(header.layout.split(self._words.decode(words)), contributors)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:
        """See :class:`autofgl.secure.SumServer`."""
        words, header, contributors = self._sum(tag, "parties", contributions, ask)
        return {**header.to_payload(), "words": words, "contributors": list(contributors)}

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> _Opened:
        raise NotImplementedError


class SharesServer(_MaskedServer):
    """Adds masked vectors and removes what does not cancel."""

    def __init__(self, settings: SumSettings) -> None:
        self._threshold = threshold_of(settings)
        super().__init__(settings, self._threshold)

    def _check_body(self, message: Payload, layout: Layout) -> None:
        take_words(message, "words", layout.size)
        take_field(message, "check", bytes)
        take_bytes_by_name(message, "shares")

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> _Opened:
        header, roster = self._common_header(tag, reveal, contributions), self._session.roster
        size = header.layout.size
        words = {name: take_words(sent, "words", size) for name, sent in contributions.items()}
        seeds = self._settle(tag, contributions, ask)
        secrets = self._unmask(tag, contributions, tuple(seeds), ask)
        total = np.zeros(size, np.uint64)
        for name, lost in seeds.items():
            total += words[name]
            subtract_stream(total, self_mask_key(secrets[name]))
            for peer, seed in lost.items():
                earlier = roster.index(peer) < roster.index(name)
                (add_stream if earlier else subtract_stream)(total, seed)
        return total, header, tuple(seeds)

    def _settle(
        self, tag: str, contributions: Mapping[str, Payload], ask: Ask
    ) -> dict[str, dict[str, bytes]]:
        """Ask for the masks with lost parties until nobody else gets lost.

        Gives, for each party in the sum, in order, the keys of its masks with every lost party.
        """
        roster = self._session.roster
        left = tuple(name for name in roster if name in contributions)
        seeds: dict[str, dict[str, bytes]] = {name: {} for name in left}
        lost = [name for name in roster if name not in contributions]
        while lost:
            message = {"tag": tag, "contributors": list(left), "lost": lost}
            answers = ask("settle", dict.fromkeys(left, message))
            for name in left:
                if name in answers:
                    told = take_bytes_by_name(answers[name], "seeds", KEY_BYTES)
                    if told.keys() != set(lost):
                        raise SecureSumError(
                            f"{name} did not tell its masks with {', '.join(lost)}"
                        )
                    seeds[name].update(told)
            lost = [name for name in left if name not in answers]
            left = tuple(name for name in left if name in answers)
            self._require(tag, "settle", len(left))
        return {name: seeds[name] for name in left}

    def _unmask(
        self,
        tag: str,
        contributions: Mapping[str, Payload],
        contributors: tuple[str, ...],
        ask: Ask,
    ) -> dict[str, bytes]:
        """The contributors' self masks, from the shares of any ``threshold`` parties."""
        boxes = {name: take_bytes_by_name(contributions[name], "shares") for name in contributors}
        helpers = [name for name in self._session.roster if name not in contributors]
        shares: dict[str, dict[str, bytes]] = {}
        for asked in (contributors, helpers):
            if len(shares) < self._threshold and asked:
                messages = {
                    name: {"tag": tag, "contributors": list(boxes), "boxes": _boxes(name, boxes)}
                    for name in asked
                }
                answers = ask("unmask", messages)
                shares |= {name: take_bytes_by_name(a, "shares") for name, a in answers.items()}
        self._require(tag, "unmask", len(shares))
        points = {name: self._session.roster.index(name) + 1 for name in shares}
        used = dict(sorted(points.items(), key=lambda item: item[1])[: self._threshold])
        weights = lagrange_weights(used.values())
        secrets = {}
        for name in contributors:
            parts = {point: shares[holder].get(name, b"") for holder, point in used.items()}
            secrets[name] = combine_shares(parts, weights)
            if self_mask_check(secrets[name]) != take_field(contributions[name], "check", bytes):
                raise SecureSumError(f"'{tag}': a share of {name}'s mask is wrong")
        return secrets

    def _require(self, tag: str, phase: str, left: int) -> None:
        if left < self._threshold:
            raise SecureSumError(
                f"'{tag}' cannot be opened: '{phase}' needs {self._threshold} parties, {left} "
                "answered; nothing was revealed"
            )


class AdditiveServer(_MaskedServer):
    """Relays the encrypted shares and adds the parties' sums of them."""

    def __init__(self, settings: SumSettings) -> None:
        settings.at_least(2)
        super().__init__(settings, len(settings.parties))

    def _check_body(self, message: Payload, layout: Layout) -> None:  # noqa: ARG002
        take_bytes_by_name(message, "shares")

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> _Opened:
        header = self._common_header(tag, reveal, contributions)
        roster = self._session.roster
        boxes = {name: take_bytes_by_name(contributions[name], "shares") for name in roster}
        messages = {name: {"tag": tag, "boxes": _boxes(name, boxes)} for name in roster}
        answers = ask("add", messages)
        if missing := [name for name in roster if name not in answers]:
            raise SecureSumError(
                f"'{tag}' is lost with {', '.join(missing)}: additive sharing needs all parties; "
                "secure mode 'shares' does not"
            )
        total = np.zeros(header.layout.size, np.uint64)
        for name in roster:
            total += take_words(answers[name], "words", header.layout.size)
        return total, header, roster


def _boxes(name: str, boxes: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """What the contributors sent for one party."""
    return {sender: sent[name] for sender, sent in boxes.items() if name in sent}
