"""With one seed a run gives the same weights across sites as in one process."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from deployment import configure, coordinate, deployment, prepare
from operators import figures

import autofgl
from autofgl.federation.engines.nvflare.processes import Loopback, running
from autofgl.graphs.client_graph import ClientGraph
from autofgl.sharing.ways import WAYS_OF_SHARING

pytestmark = pytest.mark.slow

SEARCH = {
    "layers": 2, "hidden": 8, "population": 8, "codes_per_step": 4, "weight_steps": 1,
    "generations": 3, "warmup": 1, "trials": 0, "finalists": 1, "rounds": 4,
}  # fmt: skip
BEFORE_AVERAGING = {"aggregate": "parameters", "evaluate": "local-before-averaging"}


@pytest.fixture(scope="module")
def sites(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loopback]:
    with Loopback([client.name for client in small_clients]) as loopback:
        prepare(loopback, small_clients, tmp_path_factory.mktemp("states"))
        loopback.start()
        yield loopback
    assert not running(loopback.folder)
    assert not loopback.folder.exists()


@pytest.mark.parametrize(
    ("method", "secure", "settings"),
    [
        ("fedavg", "none", {"rounds": 6, "checkpoint_every": 2}),
        ("fedavg", "shares", {"rounds": 3, "aggregate": "parameters"}),
        ("fedavg", "none", {"rounds": 4, "sharing": "across", "model": "sgc", "share": "all"}),
        ("fedavg", "none", {"rounds": 3, "sharing": "across", "model": "gat", "backward": True}),
        ("fl-agcns", "none", SEARCH),
        ("fedgraph", "none", {"rounds": 3}),
        *(
            ("fedavg", "none", {"rounds": 3, "sharing": way})
            for way in WAYS_OF_SHARING
            if way not in ("common", "across")
        ),
        ("fedavg", "shares", {"rounds": 3, "sharing": "personal", "compare_alone": True}),
        ("fedavg", "none", {**BEFORE_AVERAGING, "rounds": 3}),
    ],
)
def test_sites_equal_threads(
    sites: Loopback,
    small_clients: list[ClientGraph],
    tmp_path: Path,
    method: str,
    secure: str,
    settings: dict[str, Any],
) -> None:
    here, there = tmp_path / "here", tmp_path / f"there-{uuid4().hex}"  # it names the run
    autofgl.run(method, small_clients, secure=secure, out=here, **settings)
    coordinate(configure(method, secure, **settings), deployment(sites), there)
    assert figures(there) == figures(here)
    ours, theirs = ((out / "model.safetensors").read_bytes() for out in (there, here))
    assert ours == theirs


def test_a_way_of_sharing_across_sites_under_ckks(
    sites: Loopback, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    """Ciphertexts are not of the same bytes every time; what they add up to is."""
    settings = {"rounds": 2, "sharing": "head", "aggregate": "parameters"}
    there = tmp_path / f"there-{uuid4().hex}"
    plain = autofgl.run("fedavg", small_clients, secure="none", out=tmp_path / "here", **settings)
    coded = coordinate(configure("fedavg", "ckks", **settings), deployment(sites), there)
    assert coded.test_accuracy == pytest.approx(plain.test_accuracy, abs=0.02)
    assert coded.figures["per_client"] == [{"name": client.name} for client in small_clients]


def test_the_engine_option_does_everything_by_itself(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    for engine in ("inprocess", "nvflare"):
        autofgl.run("fedavg", small_clients, engine=engine, out=tmp_path / engine, rounds=3)
    ours, theirs = (
        (tmp_path / engine / "model.safetensors").read_bytes()
        for engine in ("inprocess", "nvflare")
    )
    assert ours == theirs
    assert not list(tmp_path.rglob("*.key"))
