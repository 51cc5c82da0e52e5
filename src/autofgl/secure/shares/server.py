"""The server's side of t-of-n masked sums; :mod:`autofgl.secure.shares` explains the protocol."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from numpy.typing import NDArray

from autofgl.secure import (
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    SumNotOpened,
    SumSettings,
    Total,
)
from autofgl.secure.contributions import (
    Header,
    take_bytes_by_name,
    take_field,
    take_words,
    usual_header,
)
from autofgl.secure.keys import ABSENT, LEFT_OUT, KeyedServer
from autofgl.secure.shares.client import cover_cipher, cover_tag
from autofgl.secure.shares.dealing import Deal, Rebuilder, check_dealt
from autofgl.secure.shares.groups import SumGroup, groups_of, threshold_of
from autofgl.secure.shares.masks import (
    COVER,
    KEY_BYTES,
    SELF,
    Words,
    add_stream,
    self_mask_key,
    subtract_stream,
)
from autofgl.secure.shares.views import CONFIRMATION_BYTES

K = TypeVar("K")
T = TypeVar("T")

#: A phase, and the message for each party; what comes back are the answers.
Request: TypeAlias = tuple[str, dict[str, Payload]]
Steps: TypeAlias = Generator[Request, Mapping[str, Payload], T]

PHASES = ("settle", "confirm", "reveal")


@dataclass(frozen=True)
class MaskedSum:
    """A sum without its masks (that of the group stays on where only the parties may read it), the
    header that its contributions share, and the parties in it, in order."""

    words: NDArray[np.uint64]
    header: Header
    contributors: tuple[str, ...]


class MaskedServer(KeyedServer):
    """What servers of both protocols do alike."""

    def __init__(self, settings: SumSettings, fewest: int) -> None:
        super().__init__(settings, fewest)
        self._words = Words(settings)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.SumServer`."""
        self.wrong = ()
        found = self._sum(tag, "server", contributions, ask)
        vectors = self._words.decode(found.header, found.words)
        return Total(vectors, found.contributors, self.wrong)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:
        """See :class:`autofgl.secure.SumServer`."""
        self.wrong = ()
        found = self._sum(tag, "parties", contributions, ask)
        fields = found.header.to_payload()
        return {**fields, "words": found.words, "contributors": list(found.contributors)}

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> MaskedSum:
        raise NotImplementedError


class SharesServer(MaskedServer):
    """Adds masked vectors and removes what does not cancel."""

    def __init__(self, settings: SumSettings) -> None:
        super().__init__(settings, threshold_of(settings))
        self._groups = groups_of(settings)

    def _sum(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload], ask: Ask
    ) -> MaskedSum:
        roster, again = self._session.roster, self._ledger.get(tag, ABSENT) is not None
        sent = self._noted(tag, contributions)
        header, wrong = usual_header(tag, reveal, self._session.name, sent, roster, self._fewest)
        good = {name: sent[name] for name in roster if name in sent and name not in wrong}
        size = self._words.size(header)
        openings = [
            Opening(tag, header, size, group, roster, good, again) for group in self._groups
        ]
        try:
            sums = self._open(tag, openings, ask)
        finally:
            for opening in openings:
                wrong |= opening.wrong
            self.wrong = tuple(name for name in self._parties if name in wrong)
        left = {name for opening in sums for name in opening.left}
        if again and left != set(sent):
            raise SumNotOpened(self._bound(tag, set(sent) - left))
        self._note_contributors(tag, left, LEFT_OUT)
        total = np.zeros(size, np.uint64)
        for words in sums.values():
            total += words
        return MaskedSum(total, header, tuple(name for name in roster if name in left))

    def _open(
        self, tag: str, openings: "Sequence[Opening]", ask: Ask
    ) -> "dict[Opening, NDArray[np.uint64]]":
        """Take all groups through the phases together; the sums of those that get to the end."""
        group_sums = Lockstep({opening: opening.steps() for opening in openings})
        for phase in PHASES:
            while messages := group_sums.messages(phase):
                self._require_enough(group_sums)
                group_sums.answer(phase, ask(phase, messages))
            left = self._require_enough(group_sums)
            if phase == "settle":
                self._note_contributors(tag, left)
        return group_sums.results

    def _require_enough(self, group_sums: "Lockstep[Opening, NDArray[np.uint64]]") -> list[str]:
        """The contributors of groups that did not fail, which must be enough."""
        left = [name for opening in group_sums.going_on for name in opening.left]
        if len(left) < self._fewest:
            raise group_sums.failures[0]
        return left


class Lockstep(Generic[K, T]):
    """Runs several protocols of the same phases together, so that each phase is asked once.

    Attributes:
        results: What those gave that got to their end.
        failures: Why others did not.
    """

    def __init__(self, steps: Mapping[K, Steps[T]]) -> None:
        self._steps = dict(steps)
        self._waiting: dict[K, Request] = {}
        self.results: dict[K, T] = {}
        self.failures: list[SecureSumError] = []
        for key in steps:
            self._advance(key, None)

    @property
    def going_on(self) -> list[K]:
        """Those that did not fail."""
        return [*self._waiting, *self.results]

    def messages(self, phase: str) -> dict[str, Payload]:
        """What is asked next in a phase; nothing if all are beyond it."""
        requests = [each for asked, each in self._waiting.values() if asked == phase]
        return {name: message for each in requests for name, message in each.items()}

    def answer(self, phase: str, answers: Mapping[str, Payload]) -> None:
        """Hand the answers to those that asked."""
        for key, (asked, each) in list(self._waiting.items()):
            if asked == phase:
                self._advance(key, {name: answers[name] for name in each if name in answers})

    def _advance(self, key: K, answers: Mapping[str, Payload] | None) -> None:
        self._waiting.pop(key, None)
        try:
            # the first thing that a generator is sent must be None
            self._waiting[key] = self._steps[key].send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            self.results[key] = end.value
        except SecureSumError as failure:
            self.failures.append(failure)


class Opening:
    """One sum of one group: who is in it, and what it takes to unmask it.

    Attributes:
        left: Contributors, in order; those that are lost before ``confirm`` drop out, and with them
            who sums together with them.
        wrong: What parties did that is provably wrong.
    """

    def __init__(
        self,
        tag: str,
        header: Header,
        size: int,
        group: SumGroup,
        roster: tuple[str, ...],
        contributions: Mapping[str, Payload],
        again: bool,
    ) -> None:
        members = set(group.members)
        self._tag, self._header, self._size, self._again = tag, header, size, again
        self._threshold = group.threshold
        self._group = group
        self._roster = tuple(name for name in roster if name in members)
        self._sent: dict[str, Payload] = {}
        self.wrong: dict[str, str] = {}
        for name in self._roster:
            if name in contributions and self._accepts(
                name, contributions[name], self._contribution
            ):
                self._sent[name] = contributions[name]
        self.left = group.whole(self._sent)

    def steps(self) -> Steps[NDArray[np.uint64]]:
        """The phases; gives the sum without masks, or raises ``SecureSumError``."""
        self._require("protect", len(self.left))
        covers = yield from self._settle()
        confirmations = yield from self._confirm()
        return (yield from self._reveal(confirmations, covers))

    @property
    def _lost(self) -> tuple[str, ...]:
        return tuple(name for name in self._roster if name not in self.left)

    def _settle(self) -> Steps[dict[str, Payload]]:
        """Have the masks with lost parties put aside, until nobody else gets lost."""
        while lost := self._lost:
            message = {"tag": self._tag, "lost": list(lost)}
            answers = yield "settle", dict.fromkeys(self.left, message)
            covers = {
                name: answers[name]
                for name in self.left
                if name in answers and self._accepts(name, answers[name], self._cover)
            }
            if len(covers) == len(self.left):
                return covers
            if self._again:
                gone = ", ".join(name for name in self.left if name not in covers)
                raise SumNotOpened(f"'{self._tag}' was begun with {gone} and cannot go on without")
            self.left = self._group.whole(covers)
            self._require("settle", len(self.left))
        return {}

    def _confirm(self) -> Steps[dict[str, dict[str, bytes]]]:
        """Show everybody the contributors; what each says about that to each other."""
        found: dict[str, dict[str, bytes]] = {}
        for asked in (self.left, self._lost):
            if asked and len(found) < self._threshold:
                answers = yield "confirm", dict.fromkeys(asked, self._view())
                for name in asked:
                    if name in answers and self._accepts(name, answers[name], _confirmations):
                        found[name] = _confirmations(answers[name])
        self._require("confirm", len(found))
        return found

    def _reveal(
        self, confirmations: Mapping[str, Mapping[str, bytes]], covers: Mapping[str, Payload]
    ) -> Steps[NDArray[np.uint64]]:
        """Collect the shares of the secrets that open the sum, first from those who confirmed."""
        shown: dict[str, Payload] = {}
        late = [name for name in self._roster if name not in confirmations]
        for asked in (list(confirmations), late):
            messages = {
                name: {
                    **self._view(),
                    "confirmations": _for(name, confirmations),
                    "boxes": _for(name, {w: self._sent[w]["shares"] for w in self.left}),
                    "covers": _for(name, {w: covers[w]["shares"] for w in covers}),
                }
                for name in asked
            }
            answers = yield "reveal", messages
            for name in asked:
                if name in answers and self._accepts(name, answers[name], _shares):
                    shown[name] = answers[name]
            try:
                self._require("reveal", len(shown))
                return self._unmask(shown, covers)
            except SecureSumError:
                if asked is late or not late:
                    raise
        raise AssertionError("unreachable")

    def _view(self) -> Payload:
        return {
            "tag": self._tag,
            "header": self._header.digest,
            "contributors": list(self.left),
        }

    def _unmask(
        self, shown: Mapping[str, Payload], covers: Mapping[str, Payload]
    ) -> NDArray[np.uint64]:
        rebuilder = Rebuilder(self._roster, self._threshold, self.wrong)
        shares = {name: answer["shares"] for name, answer in shown.items()}
        cover_shares = {name: answer["covers"] for name, answer in shown.items()}
        lost, secrets, seeds = self._lost, {}, {}
        try:
            for name in self.left:
                deal = Deal(SELF, self._tag, name)
                secrets[name] = rebuilder.rebuild(deal, self._sent[name], shares)
                if lost:
                    deal = Deal(COVER, cover_tag(self._tag, lost), name)
                    cover = rebuilder.rebuild(deal, covers[name], cover_shares)
                    seeds[name] = self._uncover(name, cover, covers[name]["cover"])
        except SecureSumError as error:
            raise SumNotOpened(
                f"'{self._tag}' cannot be opened: {error}", wrong=error.wrong
            ) from error
        total = np.zeros(self._size, np.uint64)
        for name in self.left:
            total += self._sent[name]["words"]
            subtract_stream(total, self_mask_key(secrets[name]))
            for peer, seed in zip(lost, seeds.get(name, ()), strict=bool(lost)):
                earlier = self._roster.index(peer) < self._roster.index(name)
                (add_stream if earlier else subtract_stream)(total, seed)
        return total

    def _uncover(self, name: str, secret: bytes, cover: bytes) -> list[bytes]:
        """The masks of a party with the lost ones."""
        try:
            seeds = cover_cipher(secret).decrypt(bytes(12), cover, b"")
        except InvalidTag as error:
            self.wrong[name] = "put aside masks that cannot be read"
            raise SecureSumError(f"{name} {self.wrong[name]}", wrong=(name,)) from error
        return [seeds[start : start + KEY_BYTES] for start in range(0, len(seeds), KEY_BYTES)]

    def _accepts(self, name: str, message: Payload, check: Callable[[Payload], object]) -> bool:
        """Whether a message is well formed; who sends others is wrong."""
        try:
            check(message)
        except SecureSumError as error:
            self.wrong[name] = str(error)
            return False
        return True

    def _contribution(self, message: Payload) -> None:
        take_words(message, "words", self._size)
        check_dealt(message)

    def _cover(self, message: Payload) -> None:
        check_dealt(message)
        if len(take_field(message, "cover", bytes)) != KEY_BYTES * len(self._lost) + 16:
            raise SecureSumError(
                "malformed message: 'cover' should be one mask for each lost party"
            )

    def _require(self, phase: str, left: int) -> None:
        if left < self._threshold:
            raise SumNotOpened(
                f"'{self._tag}' cannot be opened: '{phase}' needs {self._threshold} parties, "
                f"{left} answered; nothing was revealed"
            )


def _confirmations(message: Payload) -> dict[str, bytes]:
    return take_bytes_by_name(message, "confirmations", CONFIRMATION_BYTES)


def _shares(message: Payload) -> None:
    take_bytes_by_name(message, "shares")
    take_bytes_by_name(message, "covers")


def _for(name: str, sent: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """What others sent for one party."""
    return {sender: each[name] for sender, each in sent.items() if name in each and sender != name}
