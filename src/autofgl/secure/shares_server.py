"""The server's side of masked sums; :mod:`autofgl.secure.shares_client` explains the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import shamir
from autofgl.secure.agreement import Session, agree
from autofgl.secure.contributions import Header, common_header
from autofgl.secure.interface import Ask, Payload, Reveal, SecureSumError, SumSettings, Total
from autofgl.secure.messages import take, take_bytes_by_name, take_words
from autofgl.secure.shares_client import (
    self_mask_check,
    self_mask_key,
    threshold_of,
)
from autofgl.secure.stream import KEY_BYTES, add_stream, subtract_stream
from autofgl.secure.words import Words


@dataclass(frozen=True)
class _Settled:
    """Who is in a sum, and the pairwise masks of those who are not.

    Attributes:
        contributors: The parties in the sum, in order.
        seeds: For each of them, the keys of its masks with every lost party.
    """

    contributors: tuple[str, ...]
    seeds: Mapping[str, Mapping[str, bytes]]


class SharesServer:
    """Adds masked vectors and removes what does not cancel."""

    def __init__(self, settings: SumSettings) -> None:
        self._settings = settings
        self._threshold = threshold_of(settings)
        self._words = Words(settings)
        self._session = Session(b"", ())

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.interface.SumServer`."""
        self._session = agree(ask, self._settings.parties, self._threshold)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.interface.SumServer`."""
        header, words, contributors = self._open(tag, "server", contributions, ask)
        return Total(header.layout.split(self._words.decode(words)), contributors)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:
        """See :class:`autofgl.secure.interface.SumServer`."""
        header, words, contributors = self._open(tag, "parties", contributions, ask)
        return {**header.to_payload(), "words": words, "contributors": list(contributors)}

    def _open(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> tuple[Header, NDArray[np.uint64], tuple[str, ...]]:
        """The sum without its masks. With ``reveal="parties"`` the group mask stays on."""
        header = common_header(
            tag, reveal, self._session.name, contributions, self._session.roster, self._threshold
        )
        size = header.layout.size
        words = {name: take_words(sent, "words", size) for name, sent in contributions.items()}
        settled = self._settle(tag, contributions, ask)
        secrets = self._unmask(tag, contributions, settled.contributors, ask)
        total = np.zeros(size, np.uint64)
        for name in settled.contributors:
            total += words[name]
            subtract_stream(total, self_mask_key(secrets[name]))
            for peer, seed in settled.seeds[name].items():
                undo = add_stream if self._is_earlier(peer, name) else subtract_stream
                undo(total, seed)
        return header, total, settled.contributors

    def _settle(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> _Settled:
        """Ask for the masks with lost parties until nobody else gets lost."""
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
        return _Settled(left, seeds)

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
                answers = ask("unmask", {n: _unmask_message(tag, n, boxes) for n in asked})
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
        weight = shamir.weights(used.values())
        secrets = {}
        for name in contributors:
            parts = {point: shares[holder].get(name, b"") for holder, point in used.items()}
            secrets[name] = shamir.combine(parts, weight)
            if self_mask_check(secrets[name]) != take(contributions[name], "check", bytes):
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


def _seeds(name: str, answer: Payload, lost: list[str]) -> dict[str, bytes]:
    seeds = take_bytes_by_name(answer, "seeds", KEY_BYTES)
    if seeds.keys() != set(lost):
        raise SecureSumError(f"{name} did not tell its masks with {', '.join(lost)}")
    return seeds


def _unmask_message(tag: str, name: str, boxes: Mapping[str, Mapping[str, bytes]]) -> Payload:
    return {
        "tag": tag,
        "contributors": list(boxes),
        "boxes": {sender: sent[name] for sender, sent in boxes.items() if name in sent},
    }
