"""The secure modes by name."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from autofgl.errors import UserError, unknown_name
from autofgl.secure.additive import AdditiveClient, AdditiveServer
from autofgl.secure.ckks_sum import CkksClient, CkksServer
from autofgl.secure.interface import SumClient, SumServer, SumSettings
from autofgl.secure.plain import PlainClient, PlainServer
from autofgl.secure.shares_client import SharesClient
from autofgl.secure.shares_server import SharesServer

T = TypeVar("T")

_CLIENTS: dict[str, Callable[[str, SumSettings], SumClient]] = {
    "none": PlainClient,
    "ckks": CkksClient,
    "shares": SharesClient,
    "shares-additive": AdditiveClient,
}
_SERVERS: dict[str, Callable[[SumSettings], SumServer]] = {
    "none": PlainServer,
    "ckks": CkksServer,
    "shares": SharesServer,
    "shares-additive": AdditiveServer,
}
MODES = tuple(_CLIENTS)


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
    return _known(mode, _CLIENTS)(name, settings)


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
    return _known(mode, _SERVERS)(SumSettings(tuple(parties), threshold, fraction_bits))


def _known(mode: str, table: dict[str, T]) -> T:
    if mode not in table:
        raise unknown_name("secure mode", mode, table)
    return table[mode]
