"""Findings 2, 3 and 4 at sites of their own: processes, mutual TLS, the site's own policy."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "sites"))
from deployment import configure, coordinate, deployment, prepare
from watching import Notebook, clients_of

from autofgl.config import sort_settings
from autofgl.federation.engines.nvflare.processes import Loopback, running
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.runs.folder import RunFolder
from autofgl.runtime import clients as clients_module
from autofgl.sites.coordinator import Coordinator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ALL = tuple(f"client-{number}" for number in range(4))
LEFT, GONE = ALL[:3], ALL[3]


@pytest.fixture(scope="module")
def sites(small_graph: ClientGraph, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with Loopback(ALL) as loopback:
        prepare(loopback, clients_of(small_graph, 4), tmp_path_factory.mktemp("states"))
        loopback.start()
        yield loopback


class Trouble(Notebook):
    """Writes down the sums, kills a site in one round and starts it in another."""

    def __init__(self, sites: Loopback, said: StringIO) -> None:
        super().__init__()
        self._sites, self._said = sites, said
        self._kit = sites.kits.sites[GONE]

    def make_server(self, *args: Any, **more: Any) -> Any:
        server = MAKE_SERVER(*args, **more)
        self.watch_server(server)
        seal = server.seal

        def disturbed(tag: str, contributions: Any, ask: Any) -> Any:
            sealed = seal(tag, contributions, ask)
            if tag == "update-20":
                for pid in running(self._kit):
                    os.kill(pid, signal.SIGKILL)
            if tag == "update-25":
                self._sites.start()
            if "update-25" in self.contributors and "take part again" not in self._said.getvalue():
                time.sleep(0.3)  # until it is there
            return sealed

        server.seal = disturbed
        return server


MAKE_SERVER = clients_module.make_server


def test_a_killed_site_comes_back_and_no_sum_is_made_twice(
    sites: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = StringIO()
    trouble = Trouble(sites, said)
    monkeypatch.setattr(clients_module, "make_server", trouble.make_server)
    settings = {"rounds": 150, "hidden": 4, "checkpoint_every": 15, "aggregate": "gradients"}
    place = deployment(sites, patience_s=6.0)
    config = configure("fedavg", "shares", **settings)
    result = coordinate(config, place, tmp_path / "back", Console(file=said, width=200))
    assert f"{GONE} can take part again" in said.getvalue()
    assert result.figures["rounds"] == 150
    assert all(len(sets) == 1 for sets in trouble.contributors.values())
    updates = [next(iter(trouble.contributors[f"update-{at}"])) for at in range(1, 151)]
    assert updates[:20] == [ALL] * 20
    back = updates.index(ALL, 21)
    assert set(updates[21:back]) == {LEFT}
    assert updates[back:] == [ALL] * (150 - back)
    assert result.figures["test_accuracy"] > 0.5


@contextmanager
def begin(sites: Loopback, out: Path, **settings: Any) -> Iterator[Any]:
    """A method at the sites, in the hands of whoever runs the server."""
    config = configure("fedavg", "shares", rounds=5, hidden=4, aggregate="parameters", **settings)
    layers = sort_settings(config, find_method("fedavg").Settings)
    folder = RunFolder.create(out, config.model_dump(mode="json"))
    coordinator = Coordinator(config, layers, deployment(sites), out.name, folder, None)
    try:
        with closing(coordinator._assemble()) as federation:
            method: Any = find_method("fedavg")(federation, layers.method, 0, "shares")
            method.connect()
            method.setup()
            yield method
    finally:
        coordinator._close_session()


def test_no_weights_leave_a_site_within_a_training(sites: Loopback, tmp_path: Path) -> None:
    with begin(sites, tmp_path / "export") as method:
        assert len(method.federation.call("export").ok) == 4
        method.step()
        again = {"stage": "", "round": 1, "totals": method.training.totals}
        for op, payload in (("export", {}), ("round", again), ("start", {"stage": ""})):
            replies = method.federation.call(op, payload)
            assert {failure.kind for failure in replies.failed.values()} == {"refused"}
            assert len(replies.failed) == 4


def test_a_sum_of_one_site_is_not_opened(sites: Loopback, tmp_path: Path) -> None:
    with begin(sites, tmp_path / "participation", participation=0.2) as method:
        assert method.step()["clients"] == 3
        method.training.sharing.handout_each = lambda chosen: {
            name: {"train": name == "client-1"} for name in method.clients.names
        }
        said = method.step()["refused"]
        assert "cannot be opened" in said or "more than zeros" in said
