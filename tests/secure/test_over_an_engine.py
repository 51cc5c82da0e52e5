"""The same state machines inside parties of the real engine."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest

from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context, Party
from autofgl.federation.payload import Payload
from autofgl.secure import MODES, make_client, make_server

NAMES = ("a", "b", "c")


class SumParty(Party):
    operations: ClassVar[frozenset[str]] = frozenset({"secure", "train", "update", "die"})

    def __init__(self, context: Context, mode: str) -> None:
        self.sums = make_client(mode, name=context.name, parties=context.parties, threshold=2)
        self.own = np.full(1000, 1.0 + context.parties.index(context.name), np.float32)

    def secure(self, payload: Payload) -> Payload:
        return self.sums.handle(payload["phase"], payload["message"])

    def train(self, payload: Payload) -> Payload:
        return self.sums.protect(payload["tag"], {"w": self.own}, reveal=payload["reveal"])

    def update(self, payload: Payload) -> Payload:
        return {"first": float(self.sums.open(payload["sealed"])["w"][0])}

    def die(self, payload: Payload) -> Payload:
        raise SystemExit


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_secure_sums_over_the_engine(mode: str, strict: bool) -> None:
    federation = InProcess(
        dict.fromkeys(NAMES, lambda context: SumParty(context, mode)), strict=strict
    )
    server = make_server(mode, parties=NAMES, threshold=2)

    def ask(phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        each = {name: {"phase": phase, "message": m} for name, m in messages.items()}
        return federation.call("secure", each=each, to=list(messages)).ok

    server.setup(ask)
    sent = federation.call("train", {"tag": "1", "reveal": "server"}).ok
    assert np.array_equal(server.total("1", sent, ask).vectors["w"], np.full(1000, 6.0))
    sent = federation.call("train", {"tag": "2", "reveal": "parties"}).ok
    replies = federation.call("update", {"sealed": server.seal("2", sent, ask)})
    assert [reply["first"] for reply in replies.ok.values()] == [6.0, 6.0, 6.0]
    if mode != "shares-additive":
        federation.call("die", to=["b"])
        sent = federation.call("train", {"tag": "3", "reveal": "server"}).ok
        total = server.total("3", sent, ask)
        assert total.contributors == ("a", "c")
        assert np.array_equal(total.vectors["w"], np.full(1000, 4.0))
    federation.close()
