"""A party in a process of its own, without a network: who may call what, and what comes back."""

import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from autofgl.federation.engines.nvflare.host import PartyHost
from autofgl.federation.engines.nvflare.line import pack_message, unpack_message
from autofgl.federation.party import Context, Party, PeerFailed, Refused
from autofgl.federation.payload import Payload, decode, encode
from autofgl.identity import GroupSecret, Identity


class Counter(Party):
    operations: ClassVar[frozenset[str]] = frozenset({"add", "leave", "ask"})
    peer_operations: ClassVar[frozenset[str]] = frozenset({"peek"})

    def __init__(self, context: Context) -> None:
        self.context = context
        self.total = 0

    def add(self, payload: Payload) -> Payload:
        self.total += payload["by"]
        return {"total": self.total}

    def leave(self, payload: Payload) -> Payload:
        raise SystemExit("gone")

    def ask(self, payload: Payload) -> Payload:
        return self.context.peers.call("b", "peek", {"x": np.zeros(10)})

    def peek(self, payload: Payload) -> Payload:
        return {"total": self.total}

    def state(self) -> Payload:
        return {"total": self.total}

    def load_state(self, state: Payload) -> None:
        self.total = state["total"]


class Builder:
    limit = 4096

    def hello(self, payload: Payload) -> Payload:
        if payload.get("version") != "1":
            raise Refused("another version")
        return {"classes": 3}

    def build(self, payload: Payload, context: Context) -> Party:
        if payload.get("method") == "forbidden":
            raise Refused("against the policy")
        return Counter(context)


def identity() -> Identity:
    return GroupSecret("a", bytes(32))


def to_peer(peer: str, op: str, data: bytes) -> bytes:
    return pack_message({"kind": "ok", "message": ""}, encode({"total": 7}))


@pytest.fixture
def host(tmp_path: Path) -> PartyHost:
    return PartyHost("a", Builder(), tmp_path, to_peer, identity)


def ask(
    host: PartyHost, op: str, payload: Payload | None = None, caller: str = "server"
) -> Payload:
    """The answer's note, with its payload if it is good."""
    note, body = unpack_message(host.answer(caller, op, encode(payload or {})))
    return {**note, "reply": decode(body)} if note["kind"] == "ok" else note


def begin(host: PartyHost, **more: object) -> Payload:
    return ask(host, "@open", {"run": "r", "parties": ["a", "b"], **more})


def test_a_party_is_opened_and_answers(host: PartyHost) -> None:
    assert ask(host, "add", {"by": 1})["kind"] == "refused"
    assert begin(host)["kind"] == "ok"
    assert ask(host, "add", {"by": 2})["reply"] == {"total": 2}
    assert ask(host, "@hello", {"version": "1"})["reply"] == {"classes": 3}


def test_refusals_of_the_site_reach_the_server(host: PartyHost) -> None:
    assert ask(host, "@hello", {"version": "2"}) == {
        "kind": "refused", "message": "another version", "peer": {},
    }  # fmt: skip
    assert begin(host, method="forbidden")["message"] == "against the policy"
    assert ask(host, "add", {"by": 1})["kind"] == "refused"


@pytest.mark.parametrize("op", ["add", "@open", "@checkpoint", "@hello", "state", "__init__"])
def test_peers_reach_peer_operations_only(host: PartyHost, op: str) -> None:
    begin(host)
    assert ask(host, "peek", caller="b")["reply"] == {"total": 0}
    assert ask(host, op, {"by": 1}, caller="b")["kind"] == "refused"
    assert ask(host, "add", {"by": 0})["reply"] == {"total": 0}


def test_the_server_cannot_reach_peer_operations_or_others(host: PartyHost) -> None:
    begin(host)
    for op in ("peek", "state", "@nonsense", "__class__"):
        assert ask(host, op)["kind"] == "refused"


def test_malformed_and_oversized_messages_are_answers(host: PartyHost) -> None:
    begin(host)
    for data in (b"", b"nonsense", encode({"by": 1})[:-1], encode({"by": np.zeros(1000)})):
        note, _ = unpack_message(host.answer("server", "add", data))
        assert note["kind"] == "exception"
        assert note["message"].startswith("PayloadError: ")
    assert ask(host, "add", {"by": 1})["reply"] == {"total": 1}


def test_an_exit_is_a_loss_until_the_next_run(host: PartyHost) -> None:
    begin(host)
    assert ask(host, "leave")["kind"] == "lost"
    assert ask(host, "add", {"by": 1})["kind"] == "lost"
    assert ask(host, "peek", caller="b")["kind"] == "lost"
    assert ask(host, "@ping")["kind"] == "ok"
    begin(host)
    assert ask(host, "add", {"by": 1})["reply"] == {"total": 1}


def test_states_are_kept_below_the_sites_own_folder(host: PartyHost, tmp_path: Path) -> None:
    begin(host)
    ask(host, "add", {"by": 5})
    kept = ask(host, "@checkpoint", {"tag": "round-1", "run": "r"})["reply"]
    ask(host, "add", {"by": 5})
    asked = {"tag": "round-1", "run": "r", **kept}
    assert ask(host, "@verify", asked)["reply"] == {"problem": ""}
    assert ask(host, "@restore", asked)["kind"] == "ok"
    assert ask(host, "add", {"by": 0})["reply"] == {"total": 5}
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.afp")] == [
        "r/round-1/parties/a.afp"
    ]
    assert ask(host, "@forget", {"tag": "round-1"})["kind"] == "ok"
    assert not list(tmp_path.rglob("*.afp"))


def test_a_folder_that_is_deleted_meanwhile_is_a_failure(host: PartyHost, tmp_path: Path) -> None:
    begin(host)
    shutil.rmtree(tmp_path)
    answer = ask(host, "@checkpoint", {"tag": "round-1"})
    assert (answer["kind"], answer["message"].partition(": ")[0]) == (
        "exception",
        "CheckpointError",
    )
    assert answer["message"].endswith("was deleted while the run was using it: start the run again")
    assert not tmp_path.exists()


@pytest.mark.parametrize("name", ["../up", "/etc", "", ".hidden", "a/b", 7, None])
def test_the_server_names_no_paths(host: PartyHost, tmp_path: Path, name: object) -> None:
    payload = {"run": name} if name is not None else {"run": []}
    answer = ask(host, "@open", {"parties": ["a"], **payload})
    assert answer["kind"] == "refused"
    begin(host)
    tag = {"tag": name} if name is not None else {"tag": []}
    assert ask(host, "@checkpoint", tag)["kind"] == "refused"
    assert not list(tmp_path.rglob("*.afp"))


def test_peer_traffic_is_reported_once(host: PartyHost) -> None:
    begin(host)
    answer = ask(host, "ask")
    sizes = [len(encode({"x": np.zeros(10)})), len(encode({"total": 7}))]
    assert answer["peer"] == {"peek": sizes}
    assert ask(host, "add", {"by": 0})["peer"] == {}


def test_a_peers_failure_reaches_the_party(tmp_path: Path) -> None:
    def refuse(peer: str, op: str, data: bytes) -> bytes:
        return pack_message({"kind": "refused", "message": "no"})

    host = PartyHost("a", Builder(), tmp_path, refuse, identity)
    begin(host)
    answer = ask(host, "ask")
    assert (answer["kind"], answer["message"]) == ("exception", "PeerFailed: b: no")
    assert len(answer["peer"]["peek"]) == 1

    def lose(peer: str, op: str, data: bytes) -> bytes:
        raise PeerFailed(peer, "lost", "is gone")

    host = PartyHost("a", Builder(), tmp_path, lose, identity)
    begin(host)
    assert ask(host, "ask")["message"] == "PeerFailed: b: is gone"
    assert ask(host, "add", {"by": 1})["kind"] == "ok"
