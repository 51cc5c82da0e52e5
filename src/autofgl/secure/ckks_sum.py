"""Sums under CKKS: the parties share a secret key, the server adds what it cannot read."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import ckks_parameters
from autofgl.secure.agreement import Session, agree
from autofgl.secure.ckks import SEED_BYTES, Adder
from autofgl.secure.ckks_shared import SharedCipher, add_shared
from autofgl.secure.contributions import Header, common_header
from autofgl.secure.fixed_point import FixedPoint
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
from autofgl.secure.messages import take, take_names
from autofgl.secure.vectors import flatten


def fixed_point_of(settings: SumSettings) -> FixedPoint:
    """How values become the integers that are encrypted."""
    count = len(settings.parties)
    bits = settings.precision(ckks_parameters.FRACTION_BITS)
    return FixedPoint(bits, ckks_parameters.capacity(count), count)


class CkksClient:
    """A party that holds the key which all parties share."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._count = len(settings.parties)
        self._fewest = settings.at_least(2)
        self._fixed_point = fixed_point_of(settings)
        self._ring = KeyRing(name, settings.parties, self._fewest, settings.shared_secret)
        self._cipher: SharedCipher | None = None
        self._revealed: dict[str, Reveal] = {}
        self._decrypted: set[str] = set()

    def __repr__(self) -> str:
        return f"CkksClient({self._ring!r})"

    def handle(self, phase: str, message: Payload) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        phases: dict[str, Callable[[Payload], Payload]] = {
            **self._ring.phases,
            "decrypt": self._decrypt,
        }
        if phase not in phases:
            raise SumRefused(f"there is no phase '{phase}'")
        if phase == "keys":
            self._cipher = None
            self._revealed.clear()
            self._decrypted.clear()
        return phases[phase](message)

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.interface.SumClient`."""
        cipher = self._ready()
        if tag in self._revealed:
            raise SumRefused(f"{self._ring.name} used the tag '{tag}' before")
        layout, flat = flatten(vectors)
        ciphertexts = cipher.encrypt(self._fixed_point.encode(flat))
        self._revealed[tag] = reveal
        header = Header(tag, self._ring.session, reveal, self._fixed_point.fraction_bits, layout)
        return {**header.to_payload(), "ciphertexts": ciphertexts}

    def open(self, sealed: Payload) -> Sums:
        """See :class:`autofgl.secure.interface.SumClient`."""
        header = Header.from_payload(sealed)
        if self._revealed.get(header.tag, "parties") != "parties":
            raise SumRefused(f"{self._ring.name} contributed to '{header.tag}' for the server")
        return header.layout.split(self._read(header, sealed))

    def _decrypt(self, message: Payload) -> Payload:
        """Read a sum for the server: once, and only if this party contributed for that."""
        header = Header.from_payload(message)
        contributors = take_names(message, "contributors")
        if self._revealed.get(header.tag) != "server" or header.tag in self._decrypted:
            raise SumRefused(
                f"{self._ring.name} did not contribute to '{header.tag}' for the server to read, "
                "or read it before"
            )
        if len(contributors) < self._fewest:
            raise SumRefused(
                f"{self._ring.name} reads sums of {self._fewest} or more parties only, "
                f"not of {len(contributors)}"
            )
        self._decrypted.add(header.tag)
        return {"values": self._read(header, message)}

    def _read(self, header: Header, message: Payload) -> NDArray[np.float64]:
        cipher = self._ready()
        if header.session != self._ring.session:
            raise SecureSumError(f"'{header.tag}' was encrypted with another key")
        integers = cipher.decrypt(take(message, "ciphertexts", list), header.layout.size)
        return self._fixed_point.decode(integers)

    def _ready(self) -> SharedCipher:
        if self._cipher is None:
            self._cipher = SharedCipher(self._ring.group_key("ckks", size=SEED_BYTES), self._count)
        return self._cipher


class CkksServer:
    """Adds ciphertexts. A sum that the server may read is decrypted by one of the parties."""

    def __init__(self, settings: SumSettings) -> None:
        self._parties = settings.parties
        self._fewest = settings.at_least(2)
        self._session = Session(b"", ())
        self._adder: Adder | None = None

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.interface.SumServer`."""
        self._adder = Adder(len(self._parties))
        self._session = agree(ask, self._parties, self._fewest)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.interface.SumServer`."""
        header, message = self._add(tag, "server", contributions)
        contributors = tuple(message["contributors"])
        for name in contributors:
            answers = ask("decrypt", {name: message})
            if name in answers:
                values = take(answers[name], "values", np.ndarray)
                if values.shape != (header.layout.size,) or values.dtype != np.float64:
                    raise SecureSumError(f"{name} decrypted '{tag}' to something else")
                return Total(header.layout.split(values), contributors)
        raise SecureSumError(f"'{tag}' cannot be opened: no party decrypted it")

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:  # noqa: ARG002
        """See :class:`autofgl.secure.interface.SumServer`."""
        return self._add(tag, "parties", contributions)[1]

    def _add(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload]
    ) -> tuple[Header, Payload]:
        roster = self._session.roster
        header = common_header(tag, reveal, self._session.name, contributions, roster, self._fewest)
        if self._adder is None:
            raise SecureSumError("the parties have no keys yet: set up first")
        names = [name for name in roster if name in contributions]
        ciphertexts = [take(contributions[name], "ciphertexts", list) for name in names]
        summed = add_shared(self._adder, len(self._parties), ciphertexts, header.layout.size)
        return header, {**header.to_payload(), "contributors": names, "ciphertexts": summed}
