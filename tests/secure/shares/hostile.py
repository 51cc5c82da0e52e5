"""A server that cheats: it tells each party what it likes, and keeps all that it is told.

What it can read in the end follows from linear algebra. A contribution is a vector under a self
mask and a mask with every other party. The server knows a self mask if it has t shares of it, and a
mask of two parties if one of them colludes or put it aside in something of which the server has t
shares. A sum of contributions is free of unknown masks only if all its self masks are known and of
two parties with an unknown mask both are in it, equally often. So what can be read are the sums
over the connected parts of the graph of unknown masks, where all self masks are known.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from sum_network import names

from autofgl.federation.payload import Payload
from autofgl.secure import SecureSumError, make_client, make_server
from autofgl.secure.contributions import Header
from autofgl.secure.shares.client import SharesClient, cover_cipher, cover_tag
from autofgl.secure.shares.dealing import Deal, Rebuilder, open_share
from autofgl.secure.shares.masks import (
    COVER,
    PAIR,
    SELF,
    add_stream,
    self_mask_key,
    subtract_stream,
)
from autofgl.secure.shares.views import SumView, confirm_view

#: Whether it tries masks that were put aside for another story; it is no use.
ANY_COVER = False

#: Confirmations by sender and receiver.
Codes = dict[str, dict[str, bytes]]


@dataclass
class Evidence:
    """All that the server has of one tag with one set of keys."""

    sent: dict[str, Payload] = field(default_factory=dict)
    covers: list[tuple[str, tuple[str, ...], Payload]] = field(default_factory=list)
    told: list[tuple[str, Payload]] = field(default_factory=list)
    codes: dict[tuple[str, ...], Codes] = field(default_factory=lambda: defaultdict(dict))


class HostileServer:
    """Parties that keep to the protocol but for the colluding ones, whose secrets it has."""

    def __init__(
        self,
        count: int,
        threshold: int | None = None,
        colluders: int = 0,
        folder: Path | None = None,
        **settings: int,
    ) -> None:
        self.parties = names(count)
        self.evil = self.parties[count - colluders :]
        self.honest = self.parties[: count - colluders]
        self._made = {"threshold": threshold, **settings}
        self._folder = folder
        self.evidence: dict[tuple[bytes, str], Evidence] = defaultdict(Evidence)
        self.refusals: list[str] = []
        #: Contributors for whose sum some party told its shares, by tag.
        self.stories: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self.restart()

    def restart(self) -> None:
        """All parties lose their keys and what they remember but for their ledgers."""
        self.clients: dict[str, SharesClient] = {}
        for name in self.parties:
            client = make_client(
                "shares",
                name=name,
                parties=self.parties,
                ledger=self._folder / name if self._folder else None,
                **self._made,  # type: ignore[arg-type]
            )
            assert isinstance(client, SharesClient)
            self.clients[name] = client
        self.rekey()

    def rekey(self) -> None:
        """New keys for the same parties."""
        server = make_server("shares", parties=self.parties, threshold=self._made["threshold"])
        server.setup(
            lambda phase, each: {n: self.clients[n].handle(phase, m) for n, m in each.items()}
        )

    @property
    def session(self) -> bytes:
        return self.clients[self.parties[0]]._ring.session

    def of(self, tag: str) -> Evidence:
        return self.evidence[self.session, tag]

    def contribute(
        self, tag: str, vectors: Mapping[str, np.ndarray], idle: Collection[str] = (), **how: str
    ) -> None:
        for name, vector in vectors.items():
            try:
                sent = self.clients[name].protect(
                    tag,
                    {"w": vector},
                    active=name not in idle,
                    **how,  # type: ignore[arg-type]
                )
            except SecureSumError as error:
                self.refusals.append(str(error))
            else:
                self.of(tag).sent[name] = sent

    def _ask(self, name: str, phase: str, message: Payload) -> Payload | None:
        try:
            return self.clients[name].handle(phase, message)
        except SecureSumError as error:
            self.refusals.append(str(error))
            return None

    def settle(self, name: str, tag: str, lost: Iterable[str]) -> bool:
        lost = [peer for peer in self.parties if peer in set(lost)]
        answer = self._ask(name, "settle", {"tag": tag, "lost": lost})
        if answer:
            self.of(tag).covers.append((name, tuple(lost), answer))
        return answer is not None

    def view(self, tag: str, contributors: Iterable[str]) -> Payload:
        chosen = set(contributors)
        sent = next(iter(self.of(tag).sent.values()), None)
        header = Header.from_payload(sent).digest if sent else bytes(32)
        return {
            "tag": tag,
            "header": header,
            "contributors": [name for name in self.parties if name in chosen],
        }

    def confirm(self, name: str, tag: str, contributors: Iterable[str]) -> bool:
        view = self.view(tag, contributors)
        answer = self._ask(name, "confirm", view)
        if answer:
            self.of(tag).codes[tuple(view["contributors"])][name] = answer["confirmations"]
        return answer is not None

    def forge(self, tag: str, contributors: Iterable[str]) -> None:
        """Colluding parties confirm whatever the server likes."""
        view = self.view(tag, contributors)
        own = SumView(tag, view["header"], tuple(view["contributors"]))
        for name in self.evil:
            client = self.clients[name]
            codes = confirm_view(own, client._ring, client._peers)
            self.of(tag).codes[own.contributors][name] = codes

    def reveal(
        self,
        name: str,
        tag: str,
        contributors: Iterable[str],
        codes: Codes | None = None,
        boxes: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Ask for shares with all that the server has, or with something else."""
        evidence, view = self.of(tag), self.view(tag, contributors)
        chosen = tuple(view["contributors"])
        given = evidence.codes[chosen] if codes is None else codes
        lost = tuple(peer for peer in self.parties if peer not in chosen)
        covers = {
            owner: dealt["shares"][name]
            for owner, missing, dealt in evidence.covers
            if (ANY_COVER or missing == lost) and name in dealt["shares"]
        }
        own = {w: evidence.sent[w]["shares"].get(name, b"") for w in chosen if w in evidence.sent}
        message = {
            **view,
            "confirmations": {s: each[name] for s, each in given.items() if name in each},
            "boxes": own if boxes is None else dict(boxes),
            "covers": covers,
        }
        answer = self._ask(name, "reveal", message)
        if answer:
            evidence.told.append((name, answer))
            self.stories[tag].add(chosen)
        return answer is not None

    # what it can read

    def shares_of(
        self, evidence: Evidence, key: str, deal: Deal, dealt: Payload
    ) -> dict[str, bytes]:
        """The right shares of a secret that were told or that colluding parties have."""
        found = {}
        for holder, answer in evidence.told:
            share = answer[key].get(deal.dealer, b"")
            if share and deal.digest(holder, share) == dealt["shares"][holder][:16]:
                found[holder] = share
        for holder in self.evil:
            if deal.dealer != holder:
                share, _ = open_share(deal, self.clients[holder]._ring, dealt["shares"][holder])
                if share:
                    found[holder] = share
        return found

    def readable(self, tag: str, evidence: Evidence | None = None) -> set[frozenset[str]]:
        """The sets of honest parties whose sum the server can read now, with the present keys."""
        evidence = evidence or self.of(tag)
        there = [name for name in self.honest if name in evidence.sent]
        threshold = self.clients[self.parties[0]]._threshold
        open_self = {
            name
            for name in there
            if len(self.shares_of(evidence, "shares", Deal(SELF, tag, name), evidence.sent[name]))
            >= threshold
        }
        known: set[frozenset[str]] = set()
        for owner, lost, dealt in evidence.covers:
            deal = Deal(COVER, cover_tag(tag, lost), owner)
            if len(self.shares_of(evidence, "covers", deal, dealt)) >= threshold:
                known |= {frozenset((owner, peer)) for peer in lost}
        parts, left = set(), set(there)
        while left:
            part, frontier = set(), {left.pop()}
            closed = False  # a mask with somebody whose contribution the server does not have
            while frontier:
                name = frontier.pop()
                part.add(name)
                for peer in self.honest:
                    if peer in part or peer == name or frozenset((name, peer)) in known:
                        continue
                    closed |= peer not in evidence.sent
                    if peer in left:
                        frontier.add(peer)
                left -= frontier
            if part <= open_self and not closed:
                parts.add(frozenset(part))
        return parts

    def read(self, tag: str, part: Collection[str]) -> np.ndarray:
        """Words of the sum of honest parties, by what the server really has."""
        evidence, total = self.of(tag), None
        threshold = self.clients[self.parties[0]]._threshold
        rebuilder = Rebuilder(self.parties, threshold, {})
        seeds: dict[tuple[str, str], bytes] = {}
        for owner, lost, dealt in evidence.covers:
            deal = Deal(COVER, cover_tag(tag, lost), owner)
            found = self.shares_of(evidence, "covers", deal, dealt)
            if len(found) >= threshold:
                told = {holder: {owner: share} for holder, share in found.items()}
                secret = rebuilder.rebuild(deal, dealt, told)
                text = cover_cipher(secret).decrypt(bytes(12), dealt["cover"], b"")
                for index, peer in enumerate(lost):
                    seeds[owner, peer] = seeds[peer, owner] = text[32 * index : 32 * index + 32]
        for name in part:
            words = evidence.sent[name]["words"].copy()
            deal = Deal(SELF, tag, name)
            found = self.shares_of(evidence, "shares", deal, evidence.sent[name])
            told = {holder: {name: share} for holder, share in found.items()}
            secret = rebuilder.rebuild(deal, evidence.sent[name], told)
            subtract_stream(words, self_mask_key(secret))
            for peer in self.parties:
                if peer == name or peer in part:
                    continue
                if peer in self.evil:
                    seed = self.clients[peer]._ring.pair_key(name, PAIR, tag)
                else:
                    seed = seeds[name, peer]
                (add_stream if peer < name else subtract_stream)(words, seed)
            total = words if total is None else total + words
        assert total is not None
        return total
