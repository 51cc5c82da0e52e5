"""Secure sums over named vectors: parties contribute, the sum is all that is revealed.

Importing this package costs next to nothing: a mode's own modules, and TenSEAL or cryptography with
them, are imported when a client or a server of that mode is made.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from autofgl.errors import UserError, unknown_name
from autofgl.secure.interface import (
    Ask,
    Reveal,
    SecureSumError,
    SumClient,
    SumRefused,
    SumServer,
    SumSettings,
    Total,
)

__all__ = [
    "MODES",
    "Ask",
    "Reveal",
    "SecureSumError",
    "SumClient",
    "SumRefused",
    "SumServer",
    "Total",
    "make_client",
    "make_server",
]

MODES = ("none", "ckks", "shares", "shares-additive")

_Sides: TypeAlias = tuple[
    Callable[[str, SumSettings], SumClient], Callable[[SumSettings], SumServer]
]


def make_client(
    mode: str,
    *,
    name: str,
    parties: Sequence[str],
    threshold: int | None = None,
    fraction_bits: int | None = None,
    shared_secret: bytes = b"",
) -> SumClient:
    """A party's side of a mode; the arguments are those of the settings.

    Raises:
        UserError: The mode is unknown or the settings do not fit together.
    """
    if name not in parties:
        raise UserError(f"'{name}' is not one of the parties {', '.join(parties)}")
    settings = SumSettings(tuple(parties), threshold, fraction_bits, shared_secret)
    return _sides(mode)[0](name, settings)


def make_server(
    mode: str,
    *,
    parties: Sequence[str],
    threshold: int | None = None,
    fraction_bits: int | None = None,
) -> SumServer:
    """The server's side of a mode; the arguments are those of the settings.

    Raises:
        UserError: The mode is unknown or the settings do not fit together.
    """
    return _sides(mode)[1](SumSettings(tuple(parties), threshold, fraction_bits))


def _sides(mode: str) -> _Sides:
    if mode == "none":
        from autofgl.secure.plain import PlainClient, PlainServer

        return PlainClient, PlainServer
    if mode == "ckks":
        from autofgl.secure.ckks.sums import CkksClient, CkksServer

        return CkksClient, CkksServer
    if mode == "shares":
        from autofgl.secure.shares import client, server

        return client.SharesClient, server.SharesServer
    if mode == "shares-additive":
        from autofgl.secure.shares import client, server

        return client.AdditiveClient, server.AdditiveServer
    raise unknown_name("secure mode", mode, MODES)
