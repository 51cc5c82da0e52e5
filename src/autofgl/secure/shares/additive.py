"""Both sides of n-of-n additive sharing; :mod:`autofgl.secure.shares` explains the protocol."""

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import (
    Array,
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    StepGrid,
    SumRefused,
    SumSettings,
)
from autofgl.secure.contributions import take_bytes_by_name, take_field, take_words
from autofgl.secure.shares.client import ACTIVE, IDLE, MaskedClient, require_enough
from autofgl.secure.shares.groups import SumGroup, sets_of
from autofgl.secure.shares.masks import KEY_BYTES, SHARE, add_stream, subtract_stream
from autofgl.secure.shares.server import MaskedServer, MaskedSum

_MOST_OPEN = 8  # sums whose vector a party keeps until the server asks for it


class AdditiveClient(MaskedClient):
    """A party of n-of-n additive sharing."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._fewest = max(settings.at_least(2), settings.min_parties)
        parties, count = settings.parties, len(settings.parties)
        group = SumGroup(0, parties, count, sets_of(parties, 1))
        super().__init__(name, settings, count, (group,))
        self._own: dict[str, tuple[NDArray[np.uint64], bytes]] = {}
        self._phases["add"] = self._add

    def protect(
        self,
        tag: str,
        vectors: Mapping[str, Array],
        *,
        reveal: Reveal = "server",
        active: bool = True,
        broadcast: bytes = b"",
        grid: StepGrid | None = None,
    ) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        header, own = self._encode(tag, vectors, reveal, grid, active)
        fields = header.to_payload()
        keys = {peer: os.urandom(KEY_BYTES) for peer in self._ring.peers}
        for key in keys.values():
            subtract_stream(own, key)
        note = (
            ACTIVE + broadcast if active else IDLE + bytes(len(broadcast))
        )  # of one length: the server sees it
        self._own[tag] = own, note
        while len(self._own) > _MOST_OPEN:
            del self._own[next(iter(self._own))]
        boxes = {peer: self._ring.seal(peer, SHARE, tag, key + note) for peer, key in keys.items()}
        return {**fields, "shares": boxes}

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
        shares = [self._ring.unseal(peer, SHARE, tag, box) for peer, box in boxes.items()]
        if any(len(share) <= KEY_BYTES for share in shares):
            raise SecureSumError(f"malformed share of '{tag}'")
        notes = [self._own[tag][1], *(share[KEY_BYTES:] for share in shares)]
        require_enough(tag, self._fewest, notes)
        words, _ = self._own.pop(tag)
        for share in shares:
            add_stream(words, share[:KEY_BYTES])
        return {"words": words}


class AdditiveServer(MaskedServer):
    """Relays the encrypted shares and adds the parties' sums of them."""

    def __init__(self, settings: SumSettings) -> None:
        settings.at_least(2)
        super().__init__(settings, len(settings.parties))

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> MaskedSum:
        header = self._common_header(tag, reveal, contributions)
        roster = self._session.roster
        boxes = {name: take_bytes_by_name(contributions[name], "shares") for name in roster}
        messages = {
            name: {
                "tag": tag,
                "boxes": {peer: boxes[peer][name] for peer in roster if name in boxes[peer]},
            }
            for name in roster
        }
        answers = ask("add", messages)
        if missing := [name for name in roster if name not in answers]:
            raise SecureSumError(
                f"'{tag}' is lost with {', '.join(missing)}: additive sharing needs all parties; "
                "secure mode 'shares' does not"
            )
        total = np.zeros(self._words.size(header), np.uint64)
        for name in roster:
            total += take_words(answers[name], "words", total.size)
        return MaskedSum(total, header, roster)
