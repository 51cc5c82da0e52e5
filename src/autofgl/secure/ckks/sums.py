"""Sums under CKKS: the parties share a secret key, the server adds what it cannot read.

A sum for the server is opened in two phases, both by contributors:

- ``confirm``: they learn who contributed, and confirm that view of the sum to each other, once and
  for ever (:mod:`autofgl.secure.shares.views`).
- ``decrypt``: one of them is shown the confirmations. If t parties confirmed its own view, and what
  it decrypts is the sum of these very contributors, it tells the sum.

A contributor also adds a number that names what the server told it before the sum, such as the
model: the decrypting party refuses if others were told something else.

So no two parties decrypt sums of one name with different contributors, whose difference would be
somebody's vector, as long as fewer than 2t - n parties collude with the server. But a party that
does has the key and the masks: it reads every vector. ``shares`` does not have this weakness.
"""

import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import (
    Array,
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    StepGrid,
    SumNotOpened,
    SumRefused,
    SumSettings,
    SumVectors,
    Total,
)
from autofgl.secure.ckks import FRACTION_BITS, capacity, mask_bits
from autofgl.secure.ckks.cipher import SEED_BYTES
from autofgl.secure.ckks.parallel import ParallelAdder, ParallelCipher
from autofgl.secure.contributions import (
    FixedPoint,
    Header,
    take_bytes_by_name,
    take_field,
    take_names,
    usual_header,
)
from autofgl.secure.keys import KeyedClient, KeyedServer
from autofgl.secure.packing import Packing
from autofgl.secure.shares.client import too_few
from autofgl.secure.shares.groups import threshold_of
from autofgl.secure.shares.masks import add_stream, subtract_stream
from autofgl.secure.shares.views import CONFIRMATION_BYTES, SumView, confirm_view, confirmed_by

#: Values that are encrypted besides those of the vectors: how many parties have more than zeros to
#: contribute, what the server told these, and what all others are checked by.
_MORE = 3
_MOST_OPEN = 64  # sums of which a party remembers what it was told


@dataclass(frozen=True)
class SumMasks:
    """The masks of one sum, modulo ``2**bits``.

    Everybody in the roster of n parties can make the streams P_0 … P_n, each from a key of its own
    name and of this sum alone. The party at position u adds m_u = P_{u+1} - P_u. These n masks are
    as good as independent ones; those of neighbors telescope, so that to remove them costs two
    streams for each gap among the contributors, and not one for each contributor.
    """

    key: Callable[[str], bytes]
    bits: int

    def mask(self, integers: NDArray[np.int64], position: int) -> NDArray[np.int64]:
        """What a party encrypts: its integers and one more to check them by, all masked."""
        words = np.append(integers.view(np.uint64), self._checksum(integers))
        add_stream(words, self._key(position + 1))
        subtract_stream(words, self._key(position))
        return self._centered(words)

    def unmask(self, sums: NDArray[np.int64], contributors: Collection[int]) -> NDArray[np.int64]:
        """The integers in a sum of what contributors at these positions encrypted.

        Raises:
            SecureSumError: It is a sum of something else.
        """
        words = sums.view(np.uint64).copy()
        starts, stops = set(contributors), {position + 1 for position in contributors}
        for position in stops - starts:
            subtract_stream(words, self._key(position))
        for position in starts - stops:
            add_stream(words, self._key(position))
        integers = self._centered(words[:-1])
        if self._centered(words[-1:] - self._checksum(integers)).any():
            raise SecureSumError(
                "what was sent is not the sum of these contributors under this name and for this "
                "reader"
            )
        return integers

    def code(self, text: bytes) -> int:
        """A number modulo ``2**bits`` that names a text and means nothing to the server."""
        digest = hmac.digest(self.key("code"), text, "sha256")
        return int(self._centered(np.frombuffer(digest[:8], np.uint64))[0])

    def equal(self, first: int, second: int) -> bool:
        """Whether two numbers are the same, modulo ``2**bits``."""
        return (first - second) % (1 << self.bits) == 0

    def _checksum(self, integers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The integers' product with a vector that the server does not know."""
        weights = np.zeros(integers.size, np.uint64)
        add_stream(weights, self.key("check"))
        return np.array([np.dot(weights, integers.view(np.uint64))], np.uint64)

    def _centered(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The numbers from ``-2**(bits - 1)`` that words are congruent to."""
        spare = 64 - self.bits
        return (words << np.uint64(spare)).view(np.int64) >> spare

    def _key(self, position: int) -> bytes:
        return self.key(f"mask {position}")


class CkksClient(KeyedClient):
    """A party that holds the key which all parties share."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._count = len(settings.parties)
        self._threshold = threshold_of(settings)
        self._fewest = max(self._threshold, settings.min_parties)
        super().__init__(name, settings, self._threshold)
        bits = settings.precision(FRACTION_BITS)
        self._fixed_point = FixedPoint(bits, capacity(self._count), self._count)
        self._cipher: ParallelCipher | None = None
        self._decrypted: set[str] = set()
        self._broadcasts: dict[str, int] = {}  # codes of what the server sent, if it was active
        self._phases |= {"confirm": self._confirm, "decrypt": self._decrypt}

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
        self._require_new(tag)
        layout, integers = self._fixed_point.encode_vectors(vectors, grid)
        bits, shown = self._fixed_point.fraction_bits, grid
        if grid is not None and reveal == "parties":
            shown = grid.without_steps()
        header = Header(tag, self._ring.session, reveal, bits, layout, shown)
        fields = header.to_payload()
        masks, code = self._masks(header), 0
        self._note(header, integers, active)
        if active:
            code = self._broadcasts[tag] = masks.code(broadcast)
            while len(self._broadcasts) > _MOST_OPEN:
                del self._broadcasts[next(iter(self._broadcasts))]
        position = self._ring.roster.index(self._ring.name)
        masked = masks.mask(np.append(integers, [np.int64(active), code]), position)
        return {**fields, "ciphertexts": self._ready().encrypt(masked)}

    def open(self, sealed: Payload, grid: StepGrid | None = None) -> SumVectors:
        """See :class:`autofgl.secure.SumClient`."""
        header = self._sealed_header(sealed)
        if header.reveal != "parties":
            raise SumRefused(f"'{header.tag}' is not a sum for the parties")
        integers = self._read(header, sealed, self._view(header, sealed))
        return self._fixed_point.decode_vectors(header, integers, grid)

    def packing(self, least: int, reveal: Reveal) -> Packing:  # noqa: ARG002
        """See :class:`autofgl.secure.SumClient`."""
        return self._fixed_point.packing_for(least)

    def _forget(self) -> None:
        super()._forget()
        self._cipher = None
        self._decrypted.clear()
        self._broadcasts.clear()

    def _confirm(self, message: Payload) -> Payload:
        """Confirm who contributed to a sum, to every other party, once and for ever."""
        view = self._view(self._server_header(message), message)
        return {"confirmations": confirm_view(view, self._ring, self._ring.peers)}

    def _decrypt(self, message: Payload) -> Payload:
        """Read a sum for the server: once, if enough parties confirm whose sum it is."""
        header = self._server_header(message)
        if header.tag in self._decrypted:
            raise SumRefused(f"{self._ring.name} read '{header.tag}' before")
        if header.tag not in self._broadcasts:
            raise SumRefused(f"{self._ring.name} contributed zeros to '{header.tag}': ask another")
        view, given = self._view(header, message), take_bytes_by_name(message, "confirmations")
        confirmed = 1 + len(confirmed_by(view, self._ring, self._ring.peers, given))
        if confirmed < self._threshold:
            raise SumRefused(
                f"{self._ring.name} reads '{header.tag}' when {self._threshold} parties confirm "
                f"its contributors, {confirmed} did"
            )
        self._decrypted.add(header.tag)
        return {"integers": self._read(header, message, view)}

    def _server_header(self, message: Payload) -> Header:
        """The header of a sum that this party contributed to for the server to read."""
        header = Header.from_payload(message)
        self._require_session(header)
        if self._readers.get(header.tag) != "server" or header.reveal != "server":
            raise SumRefused(
                f"{self._ring.name} did not contribute to '{header.tag}' for the server to read"
            )
        return header

    def _view(self, header: Header, message: Payload) -> SumView:
        """Whose sum it is said to be, which must be what this party was always told."""
        names = set(take_names(message, "contributors"))
        if len(names) < self._fewest or not names <= set(self._ring.roster):
            raise SumRefused(
                f"{self._ring.name} reads '{header.tag}' as a sum of {self._fewest} or more "
                f"parties that it has keys with, not of {len(names)}"
            )
        contributors = tuple(name for name in self._ring.roster if name in names)
        view = SumView(header.tag, header.digest, contributors)
        digest = view.digest.hex()
        if self._ledger.note(header.tag, "view", digest) != digest:
            raise SumRefused(
                f"{self._ring.name} was shown other contributors to '{header.tag}' before: a "
                "name of a sum stands for one sum, over restarts too"
            )
        return view

    def _read(self, header: Header, message: Payload, view: SumView) -> NDArray[np.int64]:
        """The sum, if it is that of these contributors under this very header."""
        ciphertexts = take_field(message, "ciphertexts", list)
        size = self._fixed_point.size(header)
        sums = self._ready().decrypt(ciphertexts, size + _MORE)
        positions = [self._ring.roster.index(name) for name in view.contributors]
        masks = self._masks(header)
        integers = masks.unmask(sums, positions)
        active, codes = integers[-2:].tolist()
        if active < self._fewest:
            raise too_few(header.tag, self._fewest, active)
        if header.tag in self._broadcasts and not masks.equal(
            codes, active * self._broadcasts[header.tag]
        ):
            raise SumRefused(f"'{header.tag}': the server sent the parties different things")
        return integers[:-2]

    def _masks(self, header: Header) -> SumMasks:
        digest, group_key = header.digest.hex(), self._ring.group_key
        return SumMasks(lambda use: group_key(f"ckks {use}", digest), mask_bits(self._count))

    def _ready(self) -> ParallelCipher:
        if self._cipher is None:
            seed = self._ring.group_key("ckks", size=SEED_BYTES)
            self._cipher = ParallelCipher(seed, self._count)
        return self._cipher


class CkksServer(KeyedServer):
    """Adds ciphertexts. A sum that the server may read is decrypted by one of the parties."""

    def __init__(self, settings: SumSettings) -> None:
        super().__init__(settings, threshold_of(settings))
        count = len(settings.parties)
        bits = settings.precision(FRACTION_BITS)
        self._fixed_point = FixedPoint(bits, capacity(count), count)
        self._adder: ParallelAdder | None = None

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.SumServer`."""
        self._adder = ParallelAdder(len(self._parties))
        super().setup(ask)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.SumServer`."""
        header, message = self._add(tag, "server", contributions)
        size = self._fixed_point.size(header)
        contributors = tuple(message["contributors"])
        question = {**header.to_payload(), "contributors": message["contributors"]}
        confirmed = ask("confirm", dict.fromkeys(contributors, question))
        for name in contributors:
            if name not in confirmed:
                continue
            codes = {peer: _code_for(name, answer) for peer, answer in confirmed.items()}
            answers = ask("decrypt", {name: {**message, "confirmations": codes}})
            sums = answers.get(name, {}).get("integers")
            if type(sums) is np.ndarray and sums.dtype == np.int64 and sums.shape == (size,):
                vectors = self._fixed_point.decode_vectors(header, sums)
                return Total(vectors, contributors, self.wrong)
            if name in answers:
                self.wrong += (name,)
        raise SumNotOpened(
            f"'{tag}' cannot be opened: {len(confirmed)} of {len(contributors)} contributors "
            "confirmed it and none of them decrypted it"
        )

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:  # noqa: ARG002
        """See :class:`autofgl.secure.SumServer`."""
        return self._add(tag, "parties", contributions)[1]

    def _add(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload]
    ) -> tuple[Header, Payload]:
        if self._adder is None:
            raise SecureSumError("the parties have no keys yet: set up first")
        sent, roster = self._noted(tag, contributions), self._session.roster
        header, wrong = usual_header(tag, reveal, self._session.name, sent, roster, self._fewest)
        self.wrong = tuple(name for name in roster if name in wrong)
        names = [name for name in roster if name in sent and name not in wrong]
        summed = self._adder.add(
            [take_field(sent[name], "ciphertexts", list) for name in names],
            self._fixed_point.size(header) + _MORE,
        )
        self._note_contributors(tag, names)
        return header, {**header.to_payload(), "contributors": names, "ciphertexts": summed}


def _code_for(name: str, answer: Payload) -> bytes:
    """What a party confirmed to another one, if it did."""
    codes = answer.get("confirmations")
    code = codes.get(name) if type(codes) is dict else None
    return code if type(code) is bytes and len(code) == CONFIRMATION_BYTES else b""
