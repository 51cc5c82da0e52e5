"""A coordinator that tells every client another story of who is lost, on any engine."""

from collections.abc import Mapping
from typing import Any

from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload


class Storyteller:
    """Mixed into a federation: client i hears that the next client is lost.

    Attributes:
        told: What clients answered to ``reveal``.
        why: Why they did not.
    """

    def call(
        self,
        op: str,
        payload: Payload | None = None,
        *,
        each: Mapping[str, Payload] | None = None,
        **more: Any,
    ) -> Replies:
        """See :class:`autofgl.federation.Federation`."""
        above: Any = super()
        phase = next(iter(each.values())).get("phase") if op == "secure" and each else None
        if each is None or phase not in ("confirm", "reveal"):
            replies: Replies = above.call(op, payload, each=each, **more)
            return replies
        stories = {name: self._story(name, own) for name, own in each.items()}
        if phase == "confirm":
            lost = {name: [self._next(name, own)] for name, own in each.items()}
            tag = {name: own["message"]["tag"] for name, own in each.items()}
            settle = {
                name: {"phase": "settle", "message": {"tag": tag[name], "lost": lost[name]}}
                for name in each
            }
            above.call("secure", each=settle, to=list(settle))
        replies = above.call(op, payload, each=stories, **more)
        if phase == "reveal":
            self.__dict__.setdefault("told", []).extend(replies.ok.values())
            why = [failure.message for failure in replies.failed.values()]
            self.__dict__.setdefault("why", []).extend(why)
        return replies

    def _next(self, name: str, own: Payload) -> str:
        names = own["message"]["contributors"]
        found: str = names[(names.index(name) + 1) % len(names)]
        return found

    def _story(self, name: str, own: Payload) -> Payload:
        message = own["message"]
        lost = self._next(name, own)
        left = [peer for peer in message["contributors"] if peer != lost]
        return {**own, "message": {**message, "contributors": left}}
