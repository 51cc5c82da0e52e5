"""The transport contract: every engine passes this suite.

An engine joins by adding its name to ``ENGINES`` and a branch that starts it to ``federation``.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from echo_party import EchoParty

from autofgl.errors import FederationError
from autofgl.federation import Federation
from autofgl.federation.checkpoints import CheckpointError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.line import JobLine
from autofgl.federation.engines.nvflare.processes import Loopback, running
from autofgl.federation.payload import encode

pytestmark = pytest.mark.cores

ENGINES = [
    "inprocess",
    "inprocess-strict",
    pytest.param("nvflare", marks=pytest.mark.slow),
]
NAMES = ("a", "b", "c")

Start = Callable[[], Federation]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobLine]:
    """A job with echo parties at three sites: a process each, mutual TLS between them."""
    here = Path(__file__).parent
    states = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patch, Loopback(NAMES) as loopback:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]))
        for name, kit in loopback.kits.sites.items():
            site = {"build": "echo_party:EchoSite", "state": str(states / name)}
            (kit / "local" / "site.json").write_text(json.dumps(site))
        loopback.start()
        yield loopback.line()
    assert not running(loopback.folder)


@pytest.fixture(params=ENGINES)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts echo parties; started twice, the second ones find the first ones' checkpoints."""
    begun: list[Federation] = []
    folder = tmp_path / "checkpoint"

    def begin() -> Federation:
        if request.param == "nvflare":
            engine = NVFlare(request.getfixturevalue("line"), NAMES, folder=folder, keep_job=True)
            engine.open({"run": re.sub(r"\W+", "-", request.node.name)})
            begun.append(engine)
        else:
            strict = request.param == "inprocess-strict"
            begun.append(InProcess(dict.fromkeys(NAMES, EchoParty), strict=strict, folder=folder))
        return begun[-1]

    yield begin
    for federation in begun:
        federation.close()


@pytest.fixture
def federation(start: Start) -> Federation:
    return start()


def test_every_party_answers_in_order(federation: Federation) -> None:
    replies = federation.call("name")
    assert tuple(federation.parties) == NAMES
    assert [reply["name"] for reply in replies.ok.values()] == list(NAMES)
    assert all(reply["parties"] == list(NAMES) for reply in replies.ok.values())
    assert not replies.failed


def test_common_and_own_payloads_are_joined(federation: Federation) -> None:
    replies = federation.call("echo", {"k": 1, "m": 2}, each={"a": {"k": 7}, "b": {"n": 3}})
    assert replies.ok["a"] == {"k": 7, "m": 2}
    assert replies.ok["b"] == {"k": 1, "m": 2, "n": 3}
    assert replies.ok["c"] == {"k": 1, "m": 2}


def test_only_the_named_parties_are_called(federation: Federation) -> None:
    assert list(federation.call("name", to=["c", "a"]).ok) == ["c", "a"]


def test_arrays_arrive_unchanged_and_read_only(federation: Federation) -> None:
    sent = np.arange(6, dtype=np.float32).reshape(2, 3)
    replies = federation.call("echo", {"array": sent})
    assert all(np.array_equal(reply["array"], sent) for reply in replies.ok.values())
    refused = federation.call("write", {"array": sent})
    assert {failure.kind for failure in refused.failed.values()} == {"exception"}
    assert sent[0, 0] == 0


def test_parties_live_on_between_calls(federation: Federation) -> None:
    federation.call("add", {"by": 2})
    replies = federation.call("add", each={"a": {"by": 1}, "b": {"by": 2}, "c": {"by": 3}})
    assert [reply["total"] for reply in replies.ok.values()] == [3, 4, 5]


@pytest.mark.parametrize(
    ("op", "kind", "text"),
    [
        ("fail", "exception", "this went wrong"),
        ("refuse", "refused", "against my policy"),
        ("__init__", "refused", "not offered"),
        ("state", "refused", "not offered"),
        ("nonsense", "refused", "not offered"),
        ("bad_reply", "exception", "may not travel"),
    ],
)
def test_failures_are_normal_replies(federation: Federation, op: str, kind: str, text: str) -> None:
    replies = federation.call(op)
    assert not replies.ok
    assert {failure.kind for failure in replies.failed.values()} == {kind}
    assert all(text in failure.message for failure in replies.failed.values())
    assert len(federation.call("name").ok) == 3


def test_a_slow_party_times_out_and_the_others_answer(federation: Federation) -> None:
    replies = federation.call(
        "sleep", each={"a": {"seconds": 0}, "b": {"seconds": 1}, "c": {"seconds": 0}}, timeout=0.3
    )
    assert list(replies.ok) == ["a", "c"]
    assert replies.failed["b"].kind == "timeout"
    assert len(federation.call("name", to=["a", "c"], timeout=5).ok) == 2


def test_all_parties_stuck_still_leaves_no_hang(federation: Federation) -> None:
    replies = federation.call("sleep", {"seconds": 0.7}, timeout=0.1)
    assert {failure.kind for failure in replies.failed.values()} == {"timeout"}
    assert len(federation.call("name", timeout=10).ok) == 3


def test_a_lost_party_stays_lost_and_can_be_dropped(federation: Federation) -> None:
    assert federation.call("die", to=["b"]).failed["b"].kind == "lost"
    replies = federation.call("name")
    assert list(replies.ok) == ["a", "c"]
    assert replies.failed["b"].kind == "lost"
    federation.drop("b")
    assert tuple(federation.parties) == ("a", "c")
    assert not federation.call("name").failed
    assert federation.call("name", to=["b"]).failed["b"].kind == "lost"


def test_min_ok_raises_with_the_reasons(federation: Federation) -> None:
    federation.call("die", to=["b"])
    assert len(federation.call("name", min_ok=2).ok) == 2
    with pytest.raises(FederationError, match=r"needs 3 parties, 2 answered.*b lost"):
        federation.call("name", min_ok=3)


def test_parties_reach_their_peers(federation: Federation) -> None:
    reply = federation.call("ask", {"peer": "c", "op": "name"}, to=["a"]).ok["a"]
    assert reply["name"] == "c"
    assert reply["asked_by"] == "a"


@pytest.mark.parametrize(
    ("op", "kind"), [("fail", "exception"), ("refuse", "refused"), ("add", "refused")]
)
def test_peers_fail_normally(federation: Federation, op: str, kind: str) -> None:
    reply = federation.call("ask", {"peer": "c", "op": op}, to=["a"]).ok["a"]
    assert reply["kind"] == kind


def test_a_lost_peer_is_named_lost(federation: Federation) -> None:
    federation.call("die", to=["c"])
    reply = federation.call("ask", {"peer": "c", "op": "name"}, to=["a"]).ok["a"]
    assert reply["kind"] == "lost"


def test_the_meter_counts_encoded_bytes(federation: Federation) -> None:
    payload = {"array": np.zeros(100, np.float32), "text": "hello"}
    federation.call("echo", payload)
    row = federation.meter.ops["echo"]
    assert row.bytes_down == row.bytes_up == 3 * len(encode(payload))
    assert row.messages_down == row.messages_up == 3
    federation.call("ask", {"peer": "c", "op": "name"}, to=["a"])
    assert federation.meter.ops["name"].messages_peer == 2
    assert federation.meter.total("up") > row.bytes_up


def test_the_meter_survives_a_checkpoint(federation: Federation) -> None:
    federation.call("name")
    before = federation.meter.state()
    federation.call("name")
    federation.meter.load_state(before)
    assert federation.meter.state() == before


def test_checkpoints_bring_every_party_back(start: Start) -> None:
    first = start()
    first.call("add", each={"a": {"by": 1}, "b": {"by": 2}, "c": {"by": 3}})
    kept = first.checkpoint("round-1", "run")
    assert list(kept) == ["a", "b", "c"]
    first.call("add", {"by": 100})
    first.close()
    second = start()
    second.restore("round-1", kept, "run")
    assert [r["total"] for r in second.call("add", {"by": 0}).ok.values()] == [1, 2, 3]
    second.forget("round-1")
    with pytest.raises(Exception, match="checkpoint"):
        second.restore("round-1", kept, "run")


def test_nobody_is_brought_back_if_one_has_another_state(start: Start) -> None:
    federation = start()
    federation.call("add", {"by": 1})
    first = federation.checkpoint("round-1", "run")
    federation.call("add", each={"b": {"by": 1}}, to=["b"])
    second = federation.checkpoint("round-2", "run")
    federation.call("add", {"by": 100})
    mixed = {**second, "b": first["b"]}
    for tag, digests, run in [
        ("round-2", mixed, "run"),
        ("round-2", second, "other-run"),
        ("round-3", second, "run"),
    ]:
        with pytest.raises(CheckpointError, match="checkpoint"):
            federation.restore(tag, digests, run)
    assert [r["total"] for r in federation.call("add", {"by": 0}).ok.values()] == [101, 102, 101]
    federation.restore("round-2", {"b": second["b"]}, "run")
    assert [r["total"] for r in federation.call("add", {"by": 0}).ok.values()] == [101, 2, 101]


def test_payloads_that_may_not_travel_are_refused_at_the_sender(federation: Federation) -> None:
    with pytest.raises(Exception, match="may not travel"):
        federation.call("echo", {"graph": object()})


@pytest.mark.slow
def test_malformed_and_oversized_answers_of_a_site_are_its_own_failure(line: JobLine) -> None:
    engine = NVFlare(line, NAMES, keep_job=True, limit=1 << 16)
    engine.open({"run": "malformed"})
    for garbage in (b"nonsense", encode({"total": 1})[:-1], encode({"total": 1}) + b"more"):
        engine.call("garble", {"bytes": garbage}, to=["b"])
        replies = engine.call("name")
        assert list(replies.ok) == ["a", "c"]
        assert replies.failed["b"].kind == "exception"
        assert replies.failed["b"].message.startswith("sent a malformed answer")
    large = {"b": {"array": np.zeros(1 << 15, np.float32)}}
    replies = engine.call("echo", each=large)
    assert list(replies.ok) == ["a", "c"]
    assert "bytes exceeds the limit of 65,536" in replies.failed["b"].message
    assert len(engine.call("name").ok) == 3, "the site goes on, and so does the federation"
    engine.close()
