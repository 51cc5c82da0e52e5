"""The man in the middle on NVFlare, where the server's machine really is in the middle.

Three sites and a server as operators have them. The coordinator, on the server's machine, alters
what it relays; the sites' certificates end it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "sites"))
from deployment import configure, coordinate, deployment, prepare
from relay import Meddler

from autofgl.errors import AutoFGLError
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.processes import Loopback
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SECRET = b"a secret that the sites alone have"


@pytest.fixture(scope="module")
def sites(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loopback]:
    """Sites that have a secret of their own besides their certificates."""
    with Loopback([client.name for client in small_clients]) as loopback:
        prepare(loopback, small_clients, tmp_path_factory.mktemp("states"))
        for kit in loopback.kits.sites.values():
            (kit / "local" / "secret").write_bytes(SECRET)
            (kit / "local" / "secret").chmod(0o600)
        loopback.start()
        yield loopback


class Swapping(Meddler, NVFlare):
    """Puts its own keys in place of all others'."""


class SwappingAcross(Swapping):
    """Does so where embeddings travel."""

    op = "agree"


class Inventing(Meddler, NVFlare):
    """Tells the sites of a party that does not exist, and speaks for it."""

    invents = ("mallory",)

    def open(self, payload: Payload) -> None:
        """See :class:`NVFlare`."""
        self._control("@open", {**payload, "parties": [*self._parties, *self.invents]})


class Impersonating(Inventing):
    """The invented party has the server's own name, for which there is a certificate."""

    invents = ("localhost",)


@pytest.mark.parametrize(
    ("cheat", "method", "secure"),
    [
        (Swapping, "fedavg", "shares"),
        (Swapping, "fedavg", "ckks"),
        (SwappingAcross, "fedgraph", "none"),
        (Inventing, "fedavg", "shares"),
        (Impersonating, "fedavg", "shares"),
    ],
)
def test_a_cheating_server_ends_the_run_before_it_begins(
    sites: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cheat: type[NVFlare],
    method: str,
    secure: str,
) -> None:
    begun: list[Any] = []

    def federation(*arguments: Any, **more: Any) -> NVFlare:
        begun.append(cheat(*arguments, **more))
        return begun[-1]

    monkeypatch.setattr("autofgl.sites.coordinator.NVFlare", federation)
    with pytest.raises(AutoFGLError) as caught:
        coordinate(configure(method, secure, rounds=2), deployment(sites), tmp_path / "run")
    told = {op for each in begun for op in each.__dict__.get("called", [])}
    assert told <= {"secure", "agree"}, "no client was asked for anything but its keys"
    if cheat in (Swapping, SwappingAcross):
        assert "do not believe the keys of client-0, client-1, client-2" in str(caught.value)


def test_the_same_sites_serve_an_honest_server_and_nothing_shows_a_secret(
    sites: Loopback, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    """Neither the sites' secret nor a private key is in a run folder, a log or a command line."""
    out = tmp_path / "run"
    coordinate(configure("fedavg", "shares", rounds=2), deployment(sites), out)
    coordinate(configure("fedgraph", "none", rounds=1), deployment(sites), tmp_path / "across")
    keys = [path.read_bytes() for path in sites.folder.rglob("*.key")]
    bodies = [b"".join(key.splitlines()[1:-1])[20:60] for key in keys]
    assert len(bodies) == len(small_clients) + 2
    shown = [path for path in tmp_path.rglob("*") if path.is_file()]
    shown += [
        path
        for path in sites.folder.rglob("*")
        if path.is_file() and path.suffix in (".txt", ".json", ".log", ".afp", ".jsonl")
        if path.parent.name != "ca"  # the CA's own key, which stays with who provisions
    ]
    texts = {path: data for path in shown if (data := _read(path)) is not None}
    assert len(texts) > 20
    for path, text in texts.items():
        data = text.replace(b"\\n", b"").replace(b"\n", b"")
        assert SECRET not in data, path
        assert SECRET.hex().encode() not in data, path
        assert not any(body in data for body in bodies), path
        assert b"PRIVATE KEY" not in data, path
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        assert SECRET not in (_read(line) or b"")


def _read(path: Path) -> bytes | None:
    """None of a file that is gone by now: a job that ends takes its folder along."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def test_a_site_with_another_secret_is_left_alone(sites: Loopback, tmp_path: Path) -> None:
    """Its secret is read anew for each run; the others go on if they are enough, else not."""
    kit = sites.kits.sites["client-1"] / "local" / "secret"
    kit.write_bytes(SECRET[::-1])
    try:
        with pytest.raises(AutoFGLError, match="do not believe the keys of client-1: check that"):
            coordinate(configure("fedavg", "shares", rounds=1), deployment(sites), tmp_path / "run")
        kit.chmod(0o644)
        with pytest.raises(AutoFGLError, match="client-1 refuses: it cannot prove who it is"):
            coordinate(configure("fedavg", "shares", rounds=1), deployment(sites), tmp_path / "too")
    finally:
        kit.write_bytes(SECRET)
        kit.chmod(0o600)
