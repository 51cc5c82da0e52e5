"""Things that go wrong between machines. Nothing is lost: the weights are those of a calm run."""

import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from operators import Operators, figures, wait_until

import autofgl
from autofgl.federation.engines.nvflare.processes import running
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs.folder import read_history

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS = 150
RUN = {"method": "fedavg", "settings": {"rounds": ROUNDS, "checkpoint_every": 20}}
#: Not over before a site that was killed has started again, however busy the machine is.
LONG = {"method": "fedavg", "settings": {"rounds": 700, "checkpoint_every": 20}}
#: Nearly all of a round are its twenty exchanges.
EXCHANGES = {"sharing": "across", "model": "appnp", "backward": True}
ACROSS = {"method": "fedavg", "settings": {"rounds": 120, "checkpoint_every": 10, **EXCHANGES}}


@pytest.fixture(scope="module")
def operators(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operators]:
    federation = Operators(tmp_path_factory.mktemp("operators"), small_clients)
    try:
        federation.server()
        for name in federation.names:
            federation.join(name)
        yield federation
    finally:
        federation.close()
    assert not running(federation.kits / "server", *map(federation.kit, federation.names))


@pytest.fixture(scope="module")
def calm(small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, undisturbed, in one process."""
    out = tmp_path_factory.mktemp("calm") / "run"
    autofgl.run("fedavg", small_clients, out=out, **RUN["settings"])
    return out


def assert_nothing_lost(out: Path, calm: Path) -> None:
    assert_same_training(out, calm)
    assert figures(out) == figures(calm)


def assert_same_training(out: Path, calm: Path) -> None:
    """Weights and rounds: clients that agree on keys with each other once more send more bytes."""
    ours, theirs = ((run / "model.safetensors").read_bytes() for run in (out, calm))
    assert ours == theirs
    histories = [read_history(run / "history.jsonl") for run in (out, calm)]
    rounds, expected = ([row["round"] for row in history] for history in histories)
    assert rounds == expected


@pytest.mark.parametrize(("name", "run"), [("client", LONG), ("exchange", ACROSS)])
def test_a_client_is_killed_in_a_round_and_restarted(
    operators: Operators,
    small_clients: list[ClientGraph],
    tmp_path: Path,
    name: str,
    run: dict[str, Any],
) -> None:
    calm = tmp_path / "calm"
    autofgl.run("fedavg", small_clients, out=calm, **run["settings"])
    process = operators.submit(name, run)
    operators.wait_for_round(name, 30, process)
    victim = operators.names[1]
    operators.kill(operators.kit(victim))
    operators.join(victim)
    said = operators.finish(process, 0)
    assert f"{victim} can take part again: continuing with all sites" in said
    agree = assert_same_training if run is ACROSS else assert_nothing_lost
    agree(operators.out(name), calm)


def test_the_coordinator_is_killed_and_resumed(operators: Operators, calm: Path) -> None:
    process = operators.submit("coordinator", RUN)
    operators.wait_for_round("coordinator", 50, process)
    process.kill()
    operators.finish(process, -signal.SIGKILL)
    operators.finish(operators.do("submit", "--resume", "runs/coordinator"), 0)
    assert_nothing_lost(operators.out("coordinator"), calm)


def test_the_server_is_killed_and_restarted(operators: Operators, calm: Path) -> None:
    process = operators.submit("server", RUN)
    operators.wait_for_round("server", 40, process)
    operators.kill(operators.kits / "server")
    operators.server()
    said = operators.finish(process, 0)
    assert "beginning a new job" in said
    assert_nothing_lost(operators.out("server"), calm)


def test_a_slow_client_is_left_out_of_its_round_only(operators: Operators) -> None:
    run = {
        "method": "fedavg",
        "settings": {"rounds": ROUNDS, "aggregate": "parameters", "timeout": 2.0},
    }
    process = operators.submit("slow", run)
    operators.wait_for_round("slow", 20, process)
    slow = operators.job_processes(operators.kit(operators.names[2]))
    for pid in slow:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(5)
    for pid in slow:
        os.kill(pid, signal.SIGCONT)
    operators.finish(process, 0)
    rows = read_history(operators.out("slow") / "history.jsonl")
    late = [row["round"] for row in rows if row.get("failed") == [operators.names[2]]]
    assert late
    assert rows[-1]["clients"] == 3
    assert len(rows) == ROUNDS


def test_nobody_enters_without_a_certificate(operators: Operators) -> None:
    port = yaml.safe_load((operators.folder / "sites.yaml").read_text())["port"]
    context = ssl.create_default_context(
        cafile=str(operators.kits / "server" / "startup" / "rootCA.pem")
    )
    with socket.create_connection(("localhost", port), 10) as plain:
        answer = talk(context, plain)
    assert answer == b""


def talk(context: ssl.SSLContext, plain: socket.socket) -> bytes:
    """What a server sends to a client that shows no certificate."""
    try:
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            return secured.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""


def test_a_stranger_with_another_ca_stays_out(
    operators: Operators, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    strangers = Operators(tmp_path, small_clients)
    try:
        name = strangers.names[0]
        ours, theirs = (
            kit / "startup" / "fed_client.json"
            for kit in (operators.kit(name), strangers.kit(name))
        )
        theirs.write_text(ours.read_text())
        operators.kill(operators.kit(name))
        wait_until(lambda: state(operators)[name] == "not connected", "disconnection", 60)
        strangers.join(name)
        log = strangers.kit(name) / "log.txt"
        tries = "Retrying"  # the server ends the connection in the handshake, again and again
        wait_until(lambda: log.exists() and log.read_text().count(tries) > 2, "refusals", 60)
        assert state(operators)[name] == "not connected"
    finally:
        strangers.close()
    operators.join(name)


def state(operators: Operators) -> dict[str, str]:
    said = operators.finish(operators.do("status"), 0)
    rows = (line.split(maxsplit=1) for line in said.splitlines())
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}


@pytest.mark.parametrize(
    ("rule", "run", "reason"),
    [
        ("methods: [fl-agcns]", {"method": "fedavg"}, "methods: 'fedavg' is not allowed"),
        ("methods: [fedavg]", {"method": "fedavg"}, "secure: 'none' is not allowed"),
        (
            "methods: [fedavg]\nsecure: [none]\nmax_rounds: 10",
            {"method": "fedavg"},
            "max_rounds: 200 rounds are too many",
        ),
        (
            "methods: [fedavg]\nsecure: [none]\nmin_parties: 4",
            {"method": "fedavg"},
            "min_parties: 3 parties are fewer than this site asks for",
        ),
    ],
)
def test_a_site_refuses_what_its_policy_forbids(
    operators: Operators, rule: str, run: dict[str, str], reason: str
) -> None:
    kit = operators.kit(operators.names[0])
    (kit / "policy.yaml").write_text(f"{rule}\n")
    try:
        said = operators.finish(operators.submit(f"refused-{reason[:8].strip(':')}", run), 2)
    finally:
        operators.open(operators.names[0])
    assert f"site {operators.names[0]} refuses: policy: " in said
    assert reason in said
    logged = "".join(path.read_text() for path in kit.glob("*/log.txt"))
    assert reason in logged


def test_a_site_with_another_version_refuses(operators: Operators, tmp_path: Path) -> None:
    name = operators.names[0]
    (tmp_path / "sitecustomize.py").write_text(
        "from autofgl import version\nversion.__version__ = '9.9'\n"
    )
    operators.kill(operators.kit(name))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    operators.join(name, env={"PYTHONPATH": path})
    said = operators.finish(operators.submit("version", RUN), 2)
    assert f"runs autofgl 9.9, the coordinator {autofgl.__version__}: install the same" in said
