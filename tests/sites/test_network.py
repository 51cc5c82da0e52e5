"""Machines with addresses of their own, 50 ms and 1 % loss between them."""

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from network import Network, possible
from operators import Operators, figures

import autofgl
from autofgl.federation.engines.nvflare.processes import running
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs.folder import read_history

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not possible(), reason="needs root, for network namespaces"),
]

SEARCH = {
    "layers": 2, "hidden": 8, "population": 8, "codes_per_step": 4, "weight_steps": 1,
    "generations": 3, "warmup": 1, "trials": 0, "finalists": 1, "rounds": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def operators(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operators]:
    names = [client.name for client in small_clients]
    network = Network(["server", *names], delay=0.05, loss=0.01)
    try:
        folder = tmp_path_factory.mktemp("network")
        address = network.machines["server"]
        federation = Operators(folder, small_clients, address, network.inside)
        try:
            federation.server()
            for name in federation.names:
                federation.join(name)
            yield federation
        finally:
            federation.close()
    finally:
        network.close()
    assert network.dropped > 0
    assert not running(federation.kits / "server", *map(federation.kit, federation.names))


@pytest.mark.parametrize(
    ("method", "settings"), [("fl-agcns", SEARCH), ("fedgraph", {"rounds": 5})]
)
def test_a_run_over_a_bad_network_is_right(
    operators: Operators,
    small_clients: list[ClientGraph],
    tmp_path: Path,
    method: str,
    settings: dict[str, Any],
) -> None:
    here, there = tmp_path / "here", operators.out(method)
    autofgl.run(method, small_clients, out=here, **settings)
    run = operators.submit(method, {"method": method, "settings": settings})
    operators.finish(run, 0)
    assert figures(there) == figures(here)
    ours, theirs = ((out / "model.safetensors").read_bytes() for out in (there, here))
    assert ours == theirs
    times = [row["wall_s"] for row in read_history(there / "history.jsonl")]
    rounds = [after - before for before, after in pairwise(times)]
    print(f"{method}: {sum(rounds) / len(rounds):.2f} s a round over {len(times)} rounds")
