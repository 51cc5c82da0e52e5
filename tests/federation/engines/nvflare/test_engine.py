"""The coordinator's side of the NVFlare engine, with a bridge that is played by a thread."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from autofgl.errors import FederationError, UserError
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.line import JobLine, Pipe, pack_message, unpack_message
from autofgl.federation.payload import Payload, encode

pytestmark = pytest.mark.cores

#: What a site answers to an operation: a message, or nothing at all.
Site = Callable[[str, bytes], bytes | None]


class Bridge:
    """Passes calls to functions that stand for sites."""

    def __init__(self, sites: dict[str, Site]) -> None:
        ours, theirs = socket.socketpair()
        self.sites = sites
        self.pipe = Pipe(theirs)
        self.line = JobLine(Pipe(ours))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                note, data = unpack_message(self.pipe.receive())
                answer = self.sites[note["party"]](note["op"], data)
                if answer is not None:
                    self.pipe.send(
                        pack_message({"id": note["id"], "kind": "ok", "message": ""}, answer)
                    )

    def close(self) -> None:
        self.line.hang_up()
        self.pipe.close()
        self.thread.join(5)


def good(op: str, data: bytes) -> bytes:
    return pack_message({"kind": "ok", "message": "", "peer": {}}, data)


def answering(message: bytes) -> Site:
    return lambda op, data: message


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    made = Bridge({"a": good, "b": good})
    yield made
    made.close()


def engine(bridge: Bridge, **more: object) -> NVFlare:
    return NVFlare(bridge.line, list(bridge.sites), keep_job=True, **more)  # type: ignore[arg-type]


def test_answers_come_back_and_are_counted(bridge: Bridge) -> None:
    federation = engine(bridge)
    payload = {"x": np.arange(5)}
    replies = federation.call("echo", payload)
    assert list(replies.ok) == ["a", "b"]
    row = federation.meter.ops["echo"]
    assert row.bytes_up == row.bytes_down == 2 * len(encode(payload))


@pytest.mark.parametrize(
    "message",
    [
        b"nonsense",
        b"\xff\xff\xff\xff",
        pack_message({"kind": "ok"}),
        pack_message({"kind": 7, "message": "x"}),
        pack_message({"kind": "ok", "message": "", "peer": {}}, b"no payload"),
        pack_message({"kind": "ok", "message": "", "peer": {}}, encode({"x": 1})[:-1]),
        pack_message({"kind": "ok", "message": "", "peer": {"op": ["many"]}}, encode({})),
        pack_message({"kind": "ok", "message": "", "peer": "text"}, encode({})),
        pack_message({"kind": "surprise", "message": ""}),
    ],
    ids=range(9),
)
def test_a_site_that_answers_nonsense_has_failed_and_nobody_else(
    bridge: Bridge, message: bytes
) -> None:
    bridge.sites["b"] = answering(message)
    federation = engine(bridge)
    replies = federation.call("echo", {"x": 1})
    assert replies.ok == {"a": {"x": 1}}
    assert replies.failed["b"].kind == "exception"
    bridge.sites["b"] = good
    assert len(federation.call("echo", {"x": 1}).ok) == 2


def test_a_silent_site_is_lost_after_its_patience(bridge: Bridge) -> None:
    bridge.sites["b"] = lambda op, data: None
    federation = engine(bridge, patience=0.4)
    begin = time.monotonic()
    replies = federation.call("echo")
    assert time.monotonic() - begin < 5
    assert "no sign of life" in replies.failed["b"].message
    assert replies.failed["b"].kind == "lost"
    begin = time.monotonic()
    assert federation.call("echo").failed["b"].kind == "lost"
    assert time.monotonic() - begin < 0.3
    assert list(federation.lost) == ["b"]


def test_a_busy_site_that_shows_life_is_waited_for(bridge: Bridge) -> None:
    def busy(op: str, data: bytes) -> bytes | None:
        return good(op, data) if op == "@ping" else None

    bridge.sites["b"] = busy
    federation = engine(bridge, patience=0.3)
    assert federation.call("echo", timeout=1.5).failed["b"].kind == "timeout"
    assert not federation.lost


def test_all_are_lost_with_the_job(bridge: Bridge) -> None:
    bridge.sites["b"] = lambda op, data: None
    federation = engine(bridge)
    threading.Timer(0.2, bridge.pipe.close).start()
    replies = federation.call("echo")
    assert replies.failed["b"].kind == "lost"
    assert federation.call("echo").failed["a"].kind == "lost"
    with pytest.raises(FederationError, match="needs 2 parties, 0 answered"):
        federation.call("echo", min_ok=2)


def test_a_refusal_is_the_users_business_and_a_failure_is_not(bridge: Bridge) -> None:
    federation = engine(bridge)
    bridge.sites["b"] = answering(pack_message({"kind": "refused", "message": "policy: no"}))
    with pytest.raises(UserError, match="site b refuses: policy: no"):
        federation.open({"run": "r"})
    bridge.sites["b"] = answering(pack_message({"kind": "exception", "message": "oh"}))
    with pytest.raises(FederationError, match="site b exception: oh"):
        federation.hello({})


def test_peer_traffic_is_counted(bridge: Bridge) -> None:
    note: Payload = {"kind": "ok", "message": "", "peer": {"fetch": [8, 16]}}
    bridge.sites["b"] = answering(pack_message(note, encode({})))
    federation = engine(bridge)
    federation.call("round")
    row = federation.meter.ops["fetch"]
    assert (row.bytes_peer, row.messages_peer) == (24, 2)


def test_a_lost_site_that_is_heard_again_has_returned(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autofgl.federation.engines.nvflare.engine._LOOK_S", 0.1)
    heard: dict[str, float] = {"b": time.time()}
    bridge.sites["b"] = answering(pack_message({"kind": "lost", "message": "gone"}))
    federation = engine(bridge, connected=lambda: heard)
    federation.call("round")
    federation.drop("b")
    time.sleep(0.4)
    assert federation.returned == ()
    heard["b"] = time.time() + 2
    deadline = time.monotonic() + 10
    while not federation.returned and time.monotonic() < deadline:
        time.sleep(0.05)
    assert federation.returned == ("b",)
    federation.close()
