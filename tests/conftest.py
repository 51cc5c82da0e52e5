"""Small graphs that every test may use."""

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import autofgl
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph

# Helpers such as federations.py are for all folders.
sys.path.append(str(Path(__file__).parent))

# Nothing here is timed: a busy machine must not fail a property.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Products here are tiny and tests run side by side: a second thread would only be waited for.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")


#: Those that the tests may use, before a test is given one.
CORES = sorted(os.sched_getaffinity(0))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give tests that run side by side a core each, but those with the mark ``cores`` all of them.

    On one core a process lets its clients compute one after another and CKKS has no workers: nine
    cases of tests/methods/test_resume.py took 15 s of CPU instead of 19. What is about several
    cores has the mark, as have the runs of tests/golden. Without xdist all tests have all cores.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        own = CORES[int(worker.removeprefix("gw")) % len(CORES)]
        os.sched_setaffinity(0, CORES if item.get_closest_marker("cores") else {own})


@pytest.fixture(scope="session")
def small_graph() -> ClientGraph:
    """120 nodes, 3 classes, a split of its own."""
    small = DataSettings(
        nodes=120, classes=3, features=36, degree=6, homophily=0.85, topic_strength=0.6
    )
    return autofgl.load("synthetic", seed=1, settings=small)


@pytest.fixture(scope="session")
def small_clients(small_graph: ClientGraph) -> list[ClientGraph]:
    """The small graph as three METIS clients."""
    return autofgl.partition(small_graph, clients=3, method="metis", seed=0)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run folder that does not exist yet."""
    return tmp_path / "run"
