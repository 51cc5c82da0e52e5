"""Secure sums over named vectors: parties contribute, the sum is all that is revealed.

A sum is made by two small state machines. Every party holds a :class:`SumClient`, the server a
:class:`SumServer`. They talk only through payloads, which the caller carries: a party's
contribution travels in the reply of whatever operation made it, and the server reaches the parties
through a function that the caller hands in (:data:`Ask`). So the same code runs in one process and
over any engine.

A run goes like this::

    server.setup(ask)                                        # once, and again after a resume
    contribution = client.protect("round-1", {"w": w})       # at every party
    total = server.total("round-1", contributions, ask)      # the server learns the sum ...

    contribution = client.protect("round-2", {"w": w}, reveal="parties")
    sealed = server.seal("round-2", contributions, ask)      # ... or it does not,
    sums = client.open(sealed)                               # and every party does

Importing this package costs next to nothing: a mode's own modules, and NumPy, TenSEAL or
cryptography with them, are imported when a client or a server of that mode is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from autofgl.errors import AutoFGLError, UserError, unknown_name

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from autofgl.identity import Identity

MODES = ("none", "ckks", "shares", "shares-additive")

#: What crosses between parties; see :mod:`autofgl.federation.payload`.
Payload: TypeAlias = dict[str, Any]

#: Who gets to read a sum. A party fixes it when it contributes.
Reveal: TypeAlias = Literal["server", "parties"]

#: ``ask(phase, message for each party)`` gives the good answers by party. A party that is lost, is
#: late or refuses is absent from them.
Ask: TypeAlias = Callable[[str, Mapping[str, Payload]], Mapping[str, Payload]]

Array: TypeAlias = "NDArray[Any]"
SumVectors: TypeAlias = "dict[str, NDArray[np.float64]]"


class SecureSumError(AutoFGLError):
    """A sum cannot be made: bad values, too few parties, damaged or foreign messages."""


class SumRefused(SecureSumError):
    """A party declines a request that could reveal more than a sum."""


@dataclass(frozen=True)
class Total:
    """A revealed sum, float64 in the contributions' shapes, and whose vectors are in it."""

    vectors: SumVectors
    contributors: tuple[str, ...]


@dataclass(frozen=True)
class SumSettings:
    """What all parties and the server of a run agree on.

    Attributes:
        threshold: Fewest parties whose sum may be revealed, and for ``shares`` the parties that
            are needed to unmask it. The mode's own choice if not given.
        fraction_bits: Values are rounded to multiples of ``2**-fraction_bits``. The mode's own
            choice if not given.
        shared_secret: Bytes that all parties were given by hand and the server was not. With them
            not even a server that cheats at the key exchange can read along.
        min_parties: Fewest parties whose sum a party helps to reveal, whatever the threshold.
        run: Names the run; keys are bound to it.
        identity: Proves who the party is to the others.
        ledger: File in which a party notes the sums that it took part in, over restarts.
    """

    parties: tuple[str, ...]
    threshold: int | None = None
    fraction_bits: int | None = None
    shared_secret: bytes = field(default=b"", repr=False)
    min_parties: int = 0
    run: str = ""
    identity: Identity | None = field(default=None, repr=False)
    ledger: Path | None = None

    def __post_init__(self) -> None:
        if len(set(self.parties)) != len(self.parties):
            raise UserError(f"party names must differ, got {', '.join(self.parties)}")
        if self.threshold is not None and not 2 <= self.threshold <= len(self.parties):
            raise UserError(
                f"threshold must lie between 2 and the {len(self.parties)} parties, "
                f"got {self.threshold}"
            )

    def at_least(self, default: int) -> int:
        """The threshold, or a mode's default. A secure sum needs two parties."""
        if len(self.parties) < 2:
            raise UserError("a secure sum needs at least two parties; use secure mode 'none'")
        return default if self.threshold is None else self.threshold

    def precision(self, default: int) -> int:
        """The fraction bits, or a mode's default."""
        bits = default if self.fraction_bits is None else self.fraction_bits
        if not 1 <= bits <= 52:
            raise UserError(f"fraction bits must lie between 1 and 52, got {bits}")
        return bits


class SumClient(Protocol):
    """A party's side. It holds secrets and therefore has no state to save: set up again."""

    def handle(self, phase: str, message: Payload) -> Payload:
        """Answer a phase of the protocol that the server drives.

        Raises ``SecureSumError`` if the message is damaged, or the answer could reveal too much.
        """

    def protect(
        self, tag: str, vectors: Mapping[str, Array], *, reveal: Reveal = "server"
    ) -> Payload:
        """This party's contribution to the sum called ``tag``. A tag is used once.

        All parties give the same tag, such as ``round-17``, and vectors of the same shapes: finite
        values, with weights already applied. Values that are too large and tags that were used
        before raise ``SecureSumError``.
        """

    def open(self, sealed: Payload) -> SumVectors:
        """The sum in what :meth:`SumServer.seal` made."""


class SumServer(Protocol):
    """The server's side."""

    @property
    def fewest(self) -> int:
        """Fewest parties whose sum can be made."""

    def setup(self, ask: Ask) -> None:
        """Have the parties agree on keys. Older sums that are not finished are lost."""

    def unfit(
        self,
        tag: str,
        reveal: Reveal,
        contributions: Mapping[str, Payload],
        names: Collection[str],
    ) -> dict[str, str]:
        """Parties whose contributions cannot be in a sum, and why; ``names`` of vectors must be
        there.
        """

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """The sum of contributions that were made with ``reveal="server"``.

        Too few of them, or such as do not fit together, raise ``SecureSumError``, here as below.
        """

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:
        """The sum of contributions made with ``reveal="parties"``, which only they can open."""


_Sides: TypeAlias = (
    "tuple[Callable[[str, SumSettings], SumClient], Callable[[SumSettings], SumServer]]"
)


def make_client(
    mode: str,
    *,
    name: str,
    parties: Sequence[str],
    threshold: int | None = None,
    fraction_bits: int | None = None,
    shared_secret: bytes = b"",
    min_parties: int = 0,
    run: str = "",
    identity: Identity | None = None,
    ledger: Path | None = None,
) -> SumClient:
    """A party's side of a mode, from what :class:`SumSettings` says; may raise ``UserError``."""
    if name not in parties:
        raise UserError(f"'{name}' is not one of the parties {', '.join(parties)}")
    settings = SumSettings(
        tuple(parties), threshold, fraction_bits, shared_secret, min_parties, run, identity, ledger
    )
    return _sides(mode)[0](name, settings)


def make_server(
    mode: str,
    *,
    parties: Sequence[str],
    threshold: int | None = None,
    fraction_bits: int | None = None,
) -> SumServer:
    """The server's side of a mode, as :func:`make_client` makes a party's."""
    return _sides(mode)[1](SumSettings(tuple(parties), threshold, fraction_bits))


def _sides(mode: str) -> _Sides:
    if mode == "none":
        from autofgl.secure.plain import PlainClient, PlainServer

        return PlainClient, PlainServer
    if mode == "ckks":
        from autofgl.secure.ckks.sums import CkksClient, CkksServer

        return CkksClient, CkksServer
    if mode in ("shares", "shares-additive"):
        from autofgl.secure.shares import sums

        if mode == "shares":
            return sums.SharesClient, sums.SharesServer
        return sums.AdditiveClient, sums.AdditiveServer
    raise unknown_name("secure mode", mode, MODES)
