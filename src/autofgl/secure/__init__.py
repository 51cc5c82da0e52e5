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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from autofgl.errors import AutoFGLError, UserError, unknown_name

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from autofgl.identity import Identity
    from autofgl.secure.packing import Packing

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
    """A sum cannot be made: bad values, too few parties, damaged or foreign messages.

    Attributes:
        wrong: Parties whose messages were provably wrong, if that is the reason.
    """

    def __init__(self, message: str, *, wrong: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.wrong = wrong


class SumRefused(SecureSumError):
    """A party declines a request that could reveal more than a sum."""


class SumNotOpened(SecureSumError):
    """Too few parties helped to open a sum; nothing was revealed.

    Its tag is bound to its contributors: it can be tried again with the same ones and no others.
    """


@dataclass(frozen=True)
class Total:
    """A revealed sum, float64 in the contributions' shapes, and whose vectors are in it.

    Attributes:
        wrong: Parties that sent something that was provably wrong, and was left out.
    """

    vectors: SumVectors
    contributors: tuple[str, ...]
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepGrid:
    """Vectors that are whole multiples of a step each, and so travel in a few bits.

    Attributes:
        bits: Bits of a multiple in the sum; :class:`autofgl.secure.packing.Packing` says what fits.
        steps: The steps, by the names of the vectors; all others travel at full precision.
    """

    bits: int
    steps: Mapping[str, float]

    def without_steps(self) -> StepGrid:
        """What others may know of it."""
        return StepGrid(self.bits, dict.fromkeys(self.steps, 1.0))


@dataclass(frozen=True)
class SumSettings:
    """What all parties and the server of a run agree on.

    Attributes:
        threshold: Fewest parties whose sum may be revealed, and for ``shares`` the parties that
            are needed to unmask it. The mode's own choice if not given.
        fraction_bits: Values are rounded to multiples of ``2**-fraction_bits``. The mode's own
            choice if not given.
        min_parties: Fewest parties whose sum a party helps to reveal, whatever the threshold.
        run: Names the run; keys are bound to it.
        identity: Proves who the party is to the others. Without it a server that cheats at the key
            exchange can read along, so every engine gives one.
        ledger: File in which a party, or the server, notes the sums that it took part in, over
            restarts.
        mode: The secure mode; keys are bound to it.
        one_group: All parties sum together, however many they are, and nobody sees sums of fewer
            of them; it costs each of them more (:mod:`autofgl.secure.shares.groups`).
        together: Parties are only ever in a sum with the others of a fixed set of so many, so that
            no two sums differ by fewer of them (``shares``).
    """

    parties: tuple[str, ...]
    threshold: int | None = None
    fraction_bits: int | None = None
    min_parties: int = 0
    run: str = ""
    identity: Identity | None = field(default=None, repr=False)
    ledger: Path | None = None
    mode: str = ""
    one_group: bool = False
    together: int = 1

    def __post_init__(self) -> None:
        if len(set(self.parties)) != len(self.parties):
            raise UserError(f"party names must differ, got {', '.join(self.parties)}")
        if self.threshold is not None and not 2 <= self.threshold <= len(self.parties):
            raise UserError(
                f"threshold must lie between 2 and the {len(self.parties)} parties, "
                f"got {self.threshold}"
            )
        if self.together > 1 and self.mode != "shares":
            raise UserError(f"secure_together is for secure mode 'shares', not '{self.mode}'")
        if self.together > len(self.parties):
            raise UserError(
                f"secure_together={self.together} is more than the {len(self.parties)} parties"
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
    """A party's side. It holds secrets and therefore has no state to save: set up again.

    It helps to open sums of ``fewest`` parties or more.
    """

    fewest: int

    def handle(self, phase: str, message: Payload) -> Payload:
        """Answer a phase of the protocol that the server drives.

        Raises ``SecureSumError`` if the message is damaged, or the answer could reveal too much.
        """

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
        """This party's contribution to the sum called ``tag``, which stands for one sum for ever.

        All parties give the same tag, such as ``round-17``, and vectors of the same shapes: finite
        values, with weights already applied. A party that contributes zeros is not ``active``: it
        does not count towards the fewest parties of a sum. ``broadcast`` names what the server sent
        it, by a digest: masked sums are opened only if it is the same at all that are active.
        Values that are too large and tags that
        were used before raise ``SecureSumError``; after new keys a tag may be used again for the
        very same vectors, in a sum of the very same parties. Vectors on a ``grid`` travel in fewer
        bytes, and their sum is exact; the steps of a sum for the parties are not sent, so that
        ``broadcast`` should name them.
        """

    def open(self, sealed: Payload, grid: StepGrid | None = None) -> SumVectors:
        """The sum in what :meth:`SumServer.seal` made, of vectors on a ``grid`` if they were."""

    def packing(self, least: int, reveal: Reveal) -> Packing:
        """How vectors on a grid travel whose multiples reach up to ``least`` or farther."""

    def wrap(self, name: str, data: bytes) -> bytes:
        """Data for the other parties of the present keys; the server that relays it learns its
        size. It is bound to a name.
        """

    def unwrap(self, name: str, box: bytes) -> bytes:
        """What another party wrapped under that name; all else raises ``SecureSumError``."""


class SumServer(Protocol):
    """The server's side.

    Attributes:
        wrong: Parties that sent something provably wrong to the last sum, and were left out.
    """

    wrong: tuple[str, ...]

    @property
    def fewest(self) -> int:
        """Fewest parties whose sum is revealed."""

    def setup(self, ask: Ask) -> None:
        """Have the parties agree on keys. Older sums that are not finished are lost."""

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:
        """The sum of contributions that were made with ``reveal="server"``.

        Too few of them, or such as do not fit together, raise ``SecureSumError``, here as below.
        A tag for which contributions were taken before is a sum of the same parties again, or an
        error.
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
    min_parties: int = 0,
    run: str = "",
    identity: Identity | None = None,
    ledger: Path | None = None,
    one_group: bool = False,
    together: int = 1,
) -> SumClient:
    """A party's side of a mode, from what :class:`SumSettings` says; may raise ``UserError``.

    A party of a run always has an identity. One without takes part in sums of this level only, and
    trusts whoever relays the keys.
    """
    if name not in parties:
        raise UserError(f"'{name}' is not one of the parties {', '.join(parties)}")
    settings = SumSettings(
        tuple(parties),
        threshold,
        fraction_bits,
        min_parties,
        run,
        identity,
        ledger,
        mode,
        one_group,
        together if mode != "none" else 1,
    )
    return _sides(mode)[0](name, settings)


def make_server(
    mode: str,
    *,
    parties: Sequence[str],
    threshold: int | None = None,
    fraction_bits: int | None = None,
    ledger: Path | None = None,
    one_group: bool = False,
    together: int = 1,
) -> SumServer:
    """The server's side of a mode, as :func:`make_client` makes a party's."""
    settings = SumSettings(
        tuple(parties),
        threshold,
        fraction_bits,
        ledger=ledger,
        mode=mode,
        one_group=one_group,
        together=together if mode != "none" else 1,
    )
    return _sides(mode)[1](settings)


def _sides(mode: str) -> _Sides:
    if mode == "none":
        from autofgl.secure.plain import PlainClient, PlainServer

        return PlainClient, PlainServer
    if mode == "ckks":
        from autofgl.secure.ckks.sums import CkksClient, CkksServer

        return CkksClient, CkksServer
    if mode in ("shares", "shares-additive"):
        from autofgl.secure.shares import additive, client, server

        if mode == "shares":
            return client.SharesClient, server.SharesServer
        return additive.AdditiveClient, additive.AdditiveServer
    raise unknown_name("secure mode", mode, MODES)
