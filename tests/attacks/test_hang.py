"""Finding 9: a client that hung in a phase of a secure sum hung the run, whatever ``timeout``."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from families import family
from federations import make, parties, rounds, to_the_end

sys.path.insert(0, str(Path(__file__).parent))
from watching import clients_of

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs import checkpoint

pytestmark = pytest.mark.cores

#: Phases in which a client may stop answering, by mode.
PHASES = [
    ("shares", "confirm"),
    ("shares", "reveal"),
    ("ckks", "decrypt"),
    ("shares-additive", "add"),
]


@pytest.fixture
def asleep() -> Iterator[threading.Event]:
    """Until it is set nobody wakes up."""
    event = threading.Event()
    yield event
    event.set()


def hang(party: Any, phase: str, asleep: threading.Event) -> None:
    handle = party.sums.handle

    def wait(asked: str, message: Payload) -> Payload:
        if asked == phase:
            asleep.wait(60)
        reply: Payload = handle(asked, message)
        return reply

    party.sums.handle = wait


@pytest.mark.timeout(50)
@pytest.mark.parametrize(
    ("secure", "phase"), family(PHASES, [("shares", "reveal"), ("shares-additive", "add")])
)
@pytest.mark.parametrize(
    "aggregate", [pytest.param("parameters", marks=pytest.mark.slow), "gradients"]
)
def test_a_client_that_hangs_in_a_phase_is_late(
    small_graph: ClientGraph, asleep: threading.Event, secure: str, phase: str, aggregate: str
) -> None:
    about = {"rounds": 1, "hidden": 4, "timeout": 1.0, "aggregate": aggregate}
    method = make("fedavg", clients_of(small_graph, 4), secure=secure, **about)
    method.setup()
    hang(parties(method)["client-0"], phase, asleep)
    if secure == "shares-additive":  # it needs everybody, and says so
        with pytest.raises(AutoFGLError, match="client-0"):
            to_the_end(method)
        return
    rows = to_the_end(method)
    assert len(rows) == 1
    assert all(row["clients"] >= 3 for row in rows)
    method.finish()


@pytest.mark.timeout(50)
def test_a_client_that_hangs_in_the_key_exchange_is_left_out(
    small_graph: ClientGraph, asleep: threading.Event
) -> None:
    clients = clients_of(small_graph, 4)
    method = make("fedavg", clients, secure="shares", rounds=2, hidden=4, timeout=1.0)
    hang(parties(method)["client-3"], "roster", asleep)
    method.connect()
    rows = rounds(method, 2)
    assert [row["clients"] for row in rows] == [3, 3]


@pytest.mark.timeout(50)
def test_checkpoints_do_not_wait_for_ever(
    small_graph: ClientGraph, asleep: threading.Event, tmp_path: Path
) -> None:
    clients = clients_of(small_graph, 4)
    about = {"rounds": 4, "hidden": 4, "timeout": 1.0, "aggregate": "parameters"}
    method = make("fedavg", clients, secure="shares", folder=tmp_path, **about)
    rounds(method, 1)
    party = parties(method)["client-2"]
    state = party.state
    party.state = lambda: (asleep.wait(60), state())[1]
    saved = {"method": method.state(), "round": 1}
    checkpoint.save(tmp_path, 1, saved, method.federation, timeout=method.clients.timeout)
    assert (tmp_path / "round-00000001" / "server.afp").exists()

    other = make("fedavg", clients, secure="shares", folder=tmp_path, **about)
    loaded = checkpoint.load_latest(tmp_path, other.federation, redo=False, timeout=5.0)
    assert loaded["behind"] == ["client-2"]
