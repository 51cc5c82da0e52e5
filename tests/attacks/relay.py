"""A relaying server that puts its own keys in place of the clients', on any engine."""

from collections.abc import Mapping
from typing import Any

from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.secure.keys import KeyRing, Terms


def server_keys(names: tuple[str, ...]) -> dict[str, bytes]:
    """Public keys whose private halves the server has, one for each name."""
    terms = Terms("", "", names, 2, 0)
    return {name: KeyRing(name, terms, 2).phases["keys"]({})["public"] for name in names}


class Meddler:
    """Mixed into a federation: every client is given the server's keys for those of the others.

    With ``invents`` the clients' own keys stay and parties of that name are added.
    """

    invents: tuple[str, ...] = ()
    op = "secure"

    def call(
        self,
        op: str,
        payload: Payload | None = None,
        *,
        each: Mapping[str, Payload] | None = None,
        **more: Any,
    ) -> Replies:
        """See :class:`autofgl.federation.Federation`."""
        if op == self.op and each is not None:
            each = {name: self._meddle(name, own) for name, own in each.items()}
        called: Replies = super().call(op, payload, each=each, **more)  # type: ignore[misc]
        self.__dict__.setdefault("called", []).append(op)
        return called

    def _meddle(self, victim: str, own: Payload) -> Payload:
        if own.get("phase") != "roster":
            return own
        message = own["message"]
        real, signatures = message["publics"], message["signatures"]
        if self.invents:
            publics = {**real, **server_keys(self.invents)}
            signatures = {**signatures, **dict.fromkeys(self.invents, signatures[victim])}
        else:
            publics = {**server_keys(tuple(real)), victim: real[victim]}
        return {**own, "message": {"publics": publics, "signatures": signatures}}
