"""A party's side of t-of-n masked sums; :mod:`autofgl.secure.shares` explains the protocol."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from autofgl.errors import UserError
from autofgl.secure import (
    Array,
    Payload,
    Reveal,
    SecureSumError,
    StepGrid,
    SumRefused,
    SumSettings,
    SumVectors,
)
from autofgl.secure.contributions import (
    Header,
    take_bytes_by_name,
    take_field,
    take_names,
    take_words,
)
from autofgl.secure.keys import KeyedClient, bind_parts
from autofgl.secure.packing import Packing
from autofgl.secure.shares.dealing import Deal, deal_secret, open_share
from autofgl.secure.shares.groups import SumGroup, groups_of, threshold_of
from autofgl.secure.shares.masks import (
    COVER,
    GROUP,
    PAIR,
    SELF,
    Words,
    add_stream,
    random_secret,
    self_mask_key,
    subtract_stream,
)
from autofgl.secure.shares.views import HEADER_BYTES, SumView, confirm_view, confirmed_by

_MOST_OPEN = 64  # sums of which a party keeps its own shares

#: What a party notes in its ledger.
VIEW = "view"

#: What a contributor tells the others with its shares: whether it contributes more than zeros, and
#: then a digest of what the server told it.
ACTIVE, IDLE = b"\1", b"\0"


def too_few(tag: str, fewest: int, active: int) -> SumRefused:
    """Why a sum is not opened that too few parties add anything to; the same at all of them."""
    return SumRefused(
        f"sums are of {fewest} or more parties that contribute more than zeros, '{tag}' has "
        f"{active}: if one has nothing to add, such as a client without training nodes, lower "
        "secure_threshold (and min_parties of the sites)"
    )


def require_enough(tag: str, fewest: int, notes: Sequence[bytes]) -> None:
    """Refuse a sum of too few parties, or of parties that the server told different things.

    A server that hands out another model, or another weight, to one party could make the others'
    parts known or next to nothing, and so read the one. Pasquini et al., "Eluding secure
    aggregation in federated learning via model inconsistency", CCS 2022.
    """
    active = [note for note in notes if note[:1] == ACTIVE]
    if len(active) < fewest:
        raise too_few(tag, fewest, len(active))
    if len(set(active)) > 1:
        raise SumRefused(f"'{tag}': the server sent the parties different things")


def require_together(tag: str, group: SumGroup, notes: Mapping[str, bytes]) -> None:
    """Refuse a sum to which some of a set add more than zeros, and others do not: it would differ
    from other sums by fewer parties than the set has.
    """
    for own in group.sets:
        if len({notes[name][:1] for name in own if name in notes}) > 1:
            raise SumRefused(
                f"'{tag}': {' and '.join(own)} are in sums together (secure_together), and not all "
                "of them have anything to add"
            )


class MaskedClient(KeyedClient):
    """What parties of both protocols do alike: values become words, and words values."""

    def __init__(
        self, name: str, settings: SumSettings, fewest: int, groups: Sequence[SumGroup]
    ) -> None:
        super().__init__(name, settings, fewest)
        self._words = Words(settings)
        self._groups = groups
        self._group = next(group for group in groups if name in group.members)
        if settings.min_parties > len(self._group.members):
            raise UserError(
                f"{name} wants sums of {settings.min_parties} or more parties (min_parties), "
                f"and there are {len(self._group.members)} that it sums with"
            )

    def packing(self, least: int, reveal: Reveal) -> Packing:
        """See :class:`autofgl.secure.SumClient`."""
        return self._words.fixed_point[reveal].packing_for(least)

    def _encode(
        self,
        tag: str,
        vectors: Mapping[str, Array],
        reveal: Reveal,
        grid: StepGrid | None,
        active: bool,
    ) -> tuple[Header, NDArray[np.uint64]]:
        """The header of a contribution, which is noted, and its words without masks but that of the
        group.
        """
        self._require_new(tag)
        if reveal not in self._words.fixed_point:
            raise SecureSumError(f"a sum is for 'server' or 'parties', not for '{reveal}'")
        layout, integers = self._words.fixed_point[reveal].encode_vectors(vectors, grid)
        bits, broadcast = self._words.fraction_bits, grid
        if grid is not None and reveal == "parties":
            broadcast = grid.without_steps()
        header = Header(tag, self._ring.session, reveal, bits, layout, broadcast)
        self._note(header, integers, active)
        mask = self._mask(self._group, tag) if reveal == "parties" else None
        return header, self._words.mask(integers, mask)

    def open(self, sealed: Payload, grid: StepGrid | None = None) -> SumVectors:
        """See :class:`autofgl.secure.SumClient`."""
        header = self._sealed_header(sealed)
        contributors = set(take_names(sealed, "contributors"))
        if not contributors <= set(self._ring.roster):
            raise SecureSumError(f"'{header.tag}' names contributors that are not in the roster")
        self._require_confirmed(header, contributors)
        words = take_words(sealed, "words", self._words.size(header))
        counts = {
            self._mask(group, header.tag): len(contributors.intersection(group.members))
            for group in self._groups
            if not contributors.isdisjoint(group.members)
        }
        return self._words.decode_for_parties(header, words, counts, grid)

    def _require_confirmed(self, header: Header, contributors: Collection[str]) -> None:
        """Refuse a sum of others than this party confirmed, where parties confirm them."""

    def _mask(self, group: SumGroup, tag: str) -> bytes:
        """The key of what keeps a sum of a group from the server, another one for each group."""
        return self._ring.group_key(f"{GROUP} {group.index}", tag)


@dataclass
class _Sum:
    """What a party remembers of a sum that it contributed to."""

    header: bytes
    #: What the others get to know of it with its shares.
    note: bytes
    #: The party's share of its own self mask.
    share: bytes
    #: Its share of its own cover, and of whose masks the cover is.
    cover: tuple[tuple[str, ...], bytes] = ((), b"")
    #: The view that the ledger has of it.
    view: SumView | None = None


class SharesClient(MaskedClient):
    """A party of t-of-n masked sums."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        super().__init__(name, settings, threshold_of(settings), groups_of(settings))
        self._threshold = self._group.threshold
        self.fewest = max(self._threshold, settings.min_parties)
        self._sums: dict[str, _Sum] = {}
        self._with_keys: tuple[bytes, tuple[str, ...]] = (b"", ())
        self._phases |= {"settle": self._settle, "confirm": self._confirm, "reveal": self._reveal}

    @property
    def _roster(self) -> tuple[str, ...]:
        """The parties of the group that have keys."""
        session, roster = self._with_keys
        if session != self._ring.session:
            members = set(self._group.members)
            roster = tuple(name for name in self._ring.roster if name in members)
            self._with_keys = self._ring.session, roster
        return roster

    @property
    def _peers(self) -> tuple[str, ...]:
        return tuple(name for name in self._roster if name != self._ring.name)

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
        header, words = self._encode(tag, vectors, reveal, grid, active)
        fields = header.to_payload()
        secret = random_secret()
        add_stream(words, self_mask_key(secret))
        apply: Callable[[NDArray[np.uint64], bytes], None] = subtract_stream
        for peer in self._roster:
            if peer == self._ring.name:
                apply = add_stream  # for those after this party
            else:
                apply(words, self._ring.pair_key(peer, PAIR, tag))
        note = (
            ACTIVE + broadcast if active else IDLE + bytes(len(broadcast))
        )  # of one length: the server sees it
        share, dealt = self._deal(SELF, tag, secret, note)
        self._sums[tag] = _Sum(header.digest, note, share)
        while len(self._sums) > _MOST_OPEN:
            del self._sums[next(iter(self._sums))]
        return {**fields, "words": words, **dealt}

    def _require_confirmed(self, header: Header, contributors: Collection[str]) -> None:
        view = self._own_view(header.tag, header.digest, contributors)
        if view.contributors and self._ledger.get(view.tag, VIEW) not in (None, view.digest.hex()):
            raise SumRefused(f"{self._ring.name} confirmed other contributors to '{view.tag}'")

    def _own_view(self, tag: str, header: bytes, contributors: Collection[str]) -> SumView:
        names = set(contributors)
        return SumView(tag, header, tuple(name for name in self._roster if name in names))

    def _forget(self) -> None:
        super()._forget()
        self._sums.clear()

    def _deal(
        self, purpose: str, tag: str, secret: bytes, note: bytes = b""
    ) -> tuple[bytes, Payload]:
        deal = Deal(purpose, tag, self._ring.name)
        return deal_secret(deal, secret, self._ring, self._roster, self._threshold, note)

    def _settle(self, message: Payload) -> Payload:
        """Put aside the masks that this party shares with lost ones, for t parties to open.

        It says nothing by itself: the others open it in a sum without those parties only.
        """
        tag, names = take_field(message, "tag", str), take_names(message, "lost")
        own = self._sums.get(tag)
        if own is None:
            raise SumRefused(f"{self._ring.name} did not contribute to '{tag}'")
        lost = tuple(name for name in self._peers if name in names)
        if len(lost) < len(names):
            raise SumRefused(f"'{tag}': {self._ring.name} has no masks with all of the lost")
        secret = random_secret()
        seeds = b"".join(self._ring.pair_key(peer, PAIR, tag) for peer in lost)
        share, dealt = self._deal(COVER, cover_tag(tag, lost), secret)
        own.cover = lost, share
        return {"cover": cover_cipher(secret).encrypt(bytes(12), seeds, b""), **dealt}

    def _confirm(self, message: Payload) -> Payload:
        """Confirm who contributed to a sum, to every other party, once and for ever."""
        view = self._view(message)
        return {"confirmations": confirm_view(view, self._ring, self._peers)}

    def _reveal(self, message: Payload) -> Payload:
        """Tell the shares that open a sum which enough parties confirmed."""
        view, boxes = self._view(message), take_bytes_by_name(message, "boxes")
        covers = take_bytes_by_name(message, "covers")
        lost = tuple(name for name in self._roster if name not in view.contributors)
        given = take_bytes_by_name(message, "confirmations")
        confirmed = 1 + len(confirmed_by(view, self._ring, self._peers, given))
        if confirmed < self._threshold:
            raise SumRefused(
                f"{self._ring.name} opens '{view.tag}' when {self._threshold} parties confirm its "
                f"contributors, {confirmed} did"
            )
        shares = self._open_shares(SELF, view.tag, view, boxes)
        cover_shares = self._open_shares(COVER, cover_tag(view.tag, lost), view, covers)
        own = self._sums.get(view.tag)
        if own is not None and self._ring.name in view.contributors:
            shares[self._ring.name] = own.share, own.note
            if own.cover[0] == lost:
                cover_shares[self._ring.name] = own.cover[1], b""
        notes = {name: note for name, (_, note) in shares.items()}
        require_together(view.tag, self._group, notes)
        require_enough(view.tag, self.fewest, list(notes.values()))
        shown = {"shares": shares, "covers": cover_shares}
        return {
            key: {name: share for name, (share, _) in found.items() if share}
            for key, found in shown.items()
        }

    def _open_shares(
        self, purpose: str, tag: str, view: SumView, boxes: Mapping[str, bytes]
    ) -> dict[str, tuple[bytes, bytes]]:
        """What the other contributors dealt this party."""
        return {
            name: open_share(Deal(purpose, tag, name), self._ring, boxes.get(name, b""))
            for name in view.contributors
            if name != self._ring.name
        }

    def _view(self, message: Payload) -> SumView:
        """The view of a sum that the server shows, which must be the only one it ever showed."""
        self._ring.require()
        tag, header = take_field(message, "tag", str), take_field(message, "header", bytes)
        names = set(take_names(message, "contributors"))
        if len(names) < self.fewest or not names <= set(self._roster):
            raise SumRefused(
                f"{self._ring.name} helps to open sums of {self.fewest} or more parties that it "
                f"has keys with, not of {len(names)}"
            )
        if names != set(self._group.whole(names)):
            raise SumRefused(
                f"{self._ring.name} helps to open sums of whole sets of parties (secure_together)"
            )
        own = self._sums.get(tag)
        if own is None and self._ring.name in names:
            raise SumRefused(f"{self._ring.name} did not contribute to '{tag}'")
        if len(header) != HEADER_BYTES or (own is not None and header != own.header):
            raise SumRefused(f"{self._ring.name} contributed to another sum called '{tag}'")
        view = self._own_view(tag, header, names)
        if own is None or own.view != view:
            self._note_view(view)
            if own is not None:
                own.view = view
        return view

    def _note_view(self, view: SumView) -> None:
        digest = view.digest.hex()
        if self._ledger.note(view.tag, VIEW, digest) != digest:
            raise SumRefused(
                f"{self._ring.name} confirmed other contributors to '{view.tag}' before: a name of "
                "a sum stands for one sum, over restarts too"
            )


def cover_tag(tag: str, lost: Sequence[str]) -> str:
    """Names the cover of a sum without these parties."""
    return f"{tag} {hashlib.sha256(bind_parts(*lost)).hexdigest()}"


def cover_cipher(secret: bytes) -> AESGCM:
    """What a cover is encrypted with, once."""
    return AESGCM(hashlib.sha256(bind_parts("autofgl", COVER, secret)).digest())
