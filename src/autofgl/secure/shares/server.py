"""The server's side of masked sums; :mod:`autofgl.secure.shares` explains both protocols."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.contributions import Header, take_bytes_by_name, take_field, take_words
from autofgl.secure.interface import Ask, Payload, Reveal, SecureSumError, SumSettings, Total
from autofgl.secure.keys import KeyedServer
from autofgl.secure.shares.masks import (
    KEY_BYTES,
    Words,
    add_stream,
    combine_shares,
    lagrange_weights,
    self_mask_check,
    self_mask_key,
    subtract_stream,
    threshold_of,
)

#: A sum without its masks (that of the group stays on where only the parties may read it), the
#: header that its contributions share, and the parties in it, in order.
_Sum: TypeAlias = tuple[NDArray[np.uint64], Header, tuple[str, ...]]


class _MaskedServer(KeyedServer):
    """What servers of both protocols do alike."""

    def __init__(self, settings: SumSettings, fewest: int) -> None:
        super().__init__(settings, fewest)
        self._words = Words(settings)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.interface.SumServer`."""
        words, header, contributors = self._sum(tag, "server", contributions, ask)
        return Total(header.layout.split(self._words.decode(words)), contributors)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:
        """See :class:`autofgl.secure.interface.SumServer`."""
        words, header, contributors = self._sum(tag, "parties", contributions, ask)
        return {**header.to_payload(), "words": words, "contributors": list(contributors)}

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> _Sum:
        raise NotImplementedError


class SharesServer(_MaskedServer):
    """Adds masked vectors and removes what does not cancel."""

    def __init__(self, settings: SumSettings) -> None:
        self._threshold = threshold_of(settings)
        super().__init__(settings, self._threshold)

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> _Sum:
        header = self._common_header(tag, reveal, contributions)
        size = header.layout.size
        words = {name: take_words(sent, "words", size) for name, sent in contributions.items()}
        seeds = self._settle(tag, contributions, ask)
        secrets = self._unmask(tag, contributions, tuple(seeds), ask)
        total = np.zeros(size, np.uint64)
        for name, lost in seeds.items():
            total += words[name]
            subtract_stream(total, self_mask_key(secrets[name]))
            for peer, seed in lost.items():
                undo = add_stream if self._is_earlier(peer, name) else subtract_stream
                undo(total, seed)
        return total, header, tuple(seeds)

    def _settle(
        self, tag: str, contributions: Mapping[str, Payload], ask: Ask
    ) -> dict[str, dict[str, bytes]]:
        """Ask for the masks with lost parties until nobody else gets lost.

        Returns:
            For each party in the sum, in order, the keys of its masks with every lost party.
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
                    seeds[name].update(_seeds(name, answers[name], lost))
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
        return self._combine(tag, contributions, contributors, shares)

    def _combine(
        self,
        tag: str,
        contributions: Mapping[str, Payload],
        contributors: tuple[str, ...],
        shares: Mapping[str, Mapping[str, bytes]],
    ) -> dict[str, bytes]:
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

    def _is_earlier(self, one: str, other: str) -> bool:
        return self._session.roster.index(one) < self._session.roster.index(other)

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

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> _Sum:
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


def _seeds(name: str, answer: Payload, lost: list[str]) -> dict[str, bytes]:
    seeds = take_bytes_by_name(answer, "seeds", KEY_BYTES)
    if seeds.keys() != set(lost):
        raise SecureSumError(f"{name} did not tell its masks with {', '.join(lost)}")
    return seeds
