"""Split views on NVFlare: the coordinator on the server's machine tells each site another story."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "sites"))
from deployment import configure, coordinate, deployment, prepare
from stories import Storyteller

from autofgl.errors import AutoFGLError
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.processes import Loopback
from autofgl.graphs.client_graph import ClientGraph

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def sites(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loopback]:
    with Loopback([client.name for client in small_clients]) as loopback:
        prepare(loopback, small_clients, tmp_path_factory.mktemp("states"))
        loopback.start()
        yield loopback


class _Splitting(Storyteller, NVFlare):
    """A coordinator that cheats."""


def test_sites_tell_a_coordinator_with_many_stories_nothing(
    sites: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[Any] = []

    def federation(*arguments: Any, **more: Any) -> NVFlare:
        begun.append(_Splitting(*arguments, **more))
        return begun[-1]

    config = configure("fedavg", "shares", rounds=2, secure_threshold=2)
    with monkeypatch.context() as patch:
        patch.setattr("autofgl.sites.coordinator.NVFlare", federation)
        with pytest.raises(AutoFGLError, match="nothing was revealed"):
            coordinate(config, deployment(sites), tmp_path / "cheated")
    assert [answer for each in begun for answer in each.told] == []
    assert len([why for each in begun for why in each.why]) >= 3
    coordinate(config, deployment(sites), tmp_path / "honest")
