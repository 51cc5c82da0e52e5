"""Secure sums inside a federation: how parties and server of :mod:`autofgl.secure` are wired up."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.federation import Federation
from autofgl.federation.party import Context, Party
from autofgl.federation.payload import Payload
from autofgl.secure import SumClient, make_client, make_server
from autofgl.secure.interface import Sums
from autofgl.secure.plain import PlainServer, readable


class SummingParty(Party):
    """A party that takes part in secure sums: operations protect what they send with ``sums``."""

    operations: ClassVar[frozenset[str]] = frozenset({"secure"})

    def __init__(self, context: Context, secure: str, threshold: int) -> None:
        self.sums: SumClient = make_client(
            secure, name=context.name, parties=context.parties, threshold=threshold or None
        )

    def secure(self, payload: Payload) -> Payload:
        """Answer a phase of the protocol."""
        return self.sums.handle(payload["phase"], payload["message"])


class FederatedSums:
    """The server's side, with the federation as its line to the parties.

    Args:
        federation: Whose parties contribute.
        secure: Name of the mode.
        threshold: Fewest parties whose sum may be revealed; 0 for the mode's own choice.
    """

    def __init__(self, federation: Federation, secure: str, threshold: int) -> None:
        self._federation = federation
        self._server = make_server(secure, parties=federation.parties, threshold=threshold or None)

    def setup(self) -> None:
        """Have the parties agree on keys; once, and again after a resume."""
        self._server.setup(self._ask)

    def total(self, tag: str, replies: Mapping[str, Payload], key: str) -> Sums:
        """The sum of what the replies hold under a key, for the server to read."""
        return self._server.total(tag, _contributions(replies, key), self._ask).vectors

    def seal(self, tag: str, replies: Mapping[str, Payload], key: str) -> Payload:
        """The sum of what the replies hold under a key, for the parties to open."""
        return self._server.seal(tag, _contributions(replies, key), self._ask)

    def own_parts(self, replies: Mapping[str, Payload], key: str) -> dict[str, Sums]:
        """What each party contributed; only ``secure=none`` shows it, else there is nothing."""
        if not isinstance(self._server, PlainServer):
            return {}
        return {name: readable(sent) for name, sent in _contributions(replies, key).items()}

    def _ask(self, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        each = {name: {"phase": phase, "message": message} for name, message in messages.items()}
        return self._federation.call("secure", each=each, to=list(messages)).ok


def average(total: Mapping[str, Any]) -> dict[str, Any]:
    """A weighted mean from a sum of weighted vectors and of their weights, named ``share``.

    Empty if nobody with any weight contributed.
    """
    share = float(total["share"])
    if share == 0:
        return {}
    return {
        name: (value / share).astype(np.float32) for name, value in total.items() if name != "share"
    }


def weighted(vectors: Mapping[str, Any], share: float) -> dict[str, Any]:
    """What a party contributes to :func:`average`: its weight and its weighted vectors."""
    weight = np.float32(share)
    return {"share": np.array(weight), **{name: weight * value for name, value in vectors.items()}}


def _contributions(replies: Mapping[str, Payload], key: str) -> dict[str, Payload]:
    return {name: reply[key] for name, reply in replies.items() if key in reply}
