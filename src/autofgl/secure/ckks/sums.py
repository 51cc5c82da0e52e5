"""Sums under CKKS: the parties share a secret key, the server adds what it cannot read."""

from collections.abc import Mapping

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
from autofgl.secure.ckks import FRACTION_BITS, capacity
from autofgl.secure.ckks.cipher import SEED_BYTES
from autofgl.secure.ckks.parallel import ParallelAdder, ParallelCipher
from autofgl.secure.contributions import FixedPoint, Header, Layout, flatten, take_field, take_names
from autofgl.secure.keys import KeyedClient, KeyedServer


class CkksClient(KeyedClient):
    """A party that holds the key which all parties share."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self._count = len(settings.parties)
        self._fewest = settings.at_least(2)
        super().__init__(name, settings, self._fewest)
        bits = settings.precision(FRACTION_BITS)
        self._fixed_point = FixedPoint(bits, capacity(self._count), self._count)
        self._cipher: ParallelCipher | None = None
        self._decrypted: set[str] = set()
        self._phases["decrypt"] = self._decrypt

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        self._require_new(tag)
        layout, flat = flatten(vectors)
        ciphertexts = self._ready().encrypt(self._fixed_point.encode(flat))
        self._readers[tag] = reveal
        header = Header(tag, self._ring.session, reveal, self._fixed_point.fraction_bits, layout)
        return {**header.to_payload(), "ciphertexts": ciphertexts}

    def open(self, sealed: Payload) -> SumVectors:
        """See :class:`autofgl.secure.SumClient`."""
        header = self._sealed_header(sealed)
        return header.layout.split(self._read(header, sealed))

    def _forget(self) -> None:
        super()._forget()
        self._cipher = None
        self._decrypted.clear()

    def _decrypt(self, message: Payload) -> Payload:
        """Read a sum for the server: once, and only if this party contributed for that."""
        header = Header.from_payload(message)
        contributors = take_names(message, "contributors")
        if self._readers.get(header.tag) != "server" or header.tag in self._decrypted:
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
        self._require_session(header)
        return {"values": self._read(header, message)}

    def _read(self, header: Header, message: Payload) -> NDArray[np.float64]:
        ciphertexts = take_field(message, "ciphertexts", list)
        integers = self._ready().decrypt(ciphertexts, header.layout.size)
        return self._fixed_point.decode(integers)

    def _ready(self) -> ParallelCipher:
        if self._cipher is None:
            seed = self._ring.group_key("ckks", size=SEED_BYTES)
            self._cipher = ParallelCipher(seed, self._count)
        return self._cipher


class CkksServer(KeyedServer):
    """Adds ciphertexts. A sum that the server may read is decrypted by one of the parties."""

    def __init__(self, settings: SumSettings) -> None:
        super().__init__(settings, settings.at_least(2))
        self._adder: ParallelAdder | None = None

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.SumServer`."""
        self._adder = ParallelAdder(len(self._parties))
        super().setup(ask)

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """See :class:`autofgl.secure.SumServer`."""
        header, message = self._add(tag, "server", contributions)
        contributors = tuple(message["contributors"])
        for name in contributors:
            answers = ask("decrypt", {name: message})
            if name in answers:
                values = take_field(answers[name], "values", np.ndarray)
                if values.shape != (header.layout.size,) or values.dtype != np.float64:
                    raise SecureSumError(f"{name} decrypted '{tag}' to something else")
                return Total(header.layout.split(values), contributors)
        raise SecureSumError(f"'{tag}' cannot be opened: no party decrypted it")

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:  # noqa: ARG002
        """See :class:`autofgl.secure.SumServer`."""
        return self._add(tag, "parties", contributions)[1]

    def _check_body(self, message: Payload, layout: Layout) -> None:  # noqa: ARG002
        if not all(type(one) is bytes for one in take_field(message, "ciphertexts", list)):
            raise SecureSumError("malformed message: 'ciphertexts' should be bytes")

    def _add(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload]
    ) -> tuple[Header, Payload]:
        header = self._common_header(tag, reveal, contributions)
        if self._adder is None:
            raise SecureSumError("the parties have no keys yet: set up first")
        names = [name for name in self._session.roster if name in contributions]
        ciphertexts = [take_field(contributions[name], "ciphertexts", list) for name in names]
        summed = self._adder.add(ciphertexts, header.layout.size)
        return header, {**header.to_payload(), "contributors": names, "ciphertexts": summed}
