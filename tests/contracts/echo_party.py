"""A party with one operation for everything that the transport contract asks about."""

import threading
from typing import ClassVar

import numpy as np

from autofgl.federation.engines.nvflare import host
from autofgl.federation.party import Context, Party, PeerFailed, Refused
from autofgl.federation.payload import Payload, encode


class EchoParty(Party):
    operations: ClassVar[frozenset[str]] = frozenset(
        {
            "echo",
            "name",
            "add",
            "fail",
            "refuse",
            "die",
            "sleep",
            "write",
            "ask",
            "bad_reply",
            "keep",
            "garble",
        }
    )
    peer_operations: ClassVar[frozenset[str]] = frozenset({"name", "fail", "refuse"})

    def __init__(self, context: Context) -> None:
        self.context = context
        self.total = 0
        self.woken = threading.Event()

    def echo(self, payload: Payload) -> Payload:
        return payload

    def name(self, payload: Payload) -> Payload:
        return {"name": self.context.name, "parties": list(self.context.parties), **payload}

    def add(self, payload: Payload) -> Payload:
        self.total += payload["by"]
        return {"total": self.total}

    def keep(self, payload: Payload) -> Payload:
        return {"array": np.full(payload["size"], self.total, np.float32)}

    def fail(self, payload: Payload) -> Payload:
        raise ValueError("this went wrong")

    def refuse(self, payload: Payload) -> Payload:
        raise Refused("against my policy")

    def die(self, payload: Payload) -> Payload:
        raise SystemExit("gone")

    def sleep(self, payload: Payload) -> Payload:
        self.woken.wait(payload["seconds"])
        return {}

    def write(self, payload: Payload) -> Payload:
        payload["array"][0] = 1
        return {}

    def bad_reply(self, payload: Payload) -> Payload:
        return {"graph": object()}

    def garble(self, payload: Payload) -> Payload:
        """In a process of its own: send these bytes instead of the next answer."""

        def send(reply: Payload) -> bytes:
            host.encode = encode  # type: ignore[attr-defined]
            return bytes(payload["bytes"])

        host.encode = send  # type: ignore[attr-defined]
        return {}

    def ask(self, payload: Payload) -> Payload:
        try:
            return self.context.peers.call(
                payload["peer"], payload["op"], {"asked_by": self.context.name}
            )
        except PeerFailed as failed:
            return {"kind": failed.kind, "message": str(failed)}

    def state(self) -> Payload:
        return {"total": self.total}

    def load_state(self, state: Payload) -> None:
        self.total = state["total"]


class EchoSite:
    """What a test site's own file names as the builder of its party."""

    limit = 1 << 26

    def __init__(self, site: object) -> None:
        pass

    def hello(self, payload: Payload) -> Payload:
        return {}

    def build(self, payload: Payload, context: Context) -> EchoParty:
        return EchoParty(context)
