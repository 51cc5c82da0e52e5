"""A client's search in a process of its own."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload, decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl import search_jobs
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.search_jobs import (
    SearchLost,
    answer_search,
    search_pool,
    search_request,
    submit_search,
)
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.trials import Situation
from autofgl.workers import WorkerPool

pytestmark = pytest.mark.cores

QUICK: dict[str, Any] = {"population": 3, "iterations": 2, "inner_steps": 1, "adapt_steps": 2}
QUICK |= {"hidden": 4, "rounds": 4, "structure_after": 0, "structure_margin": 0.0}
QUICK |= {"families": "sgc,gcn,appnp"}


def search_of(graph: ClientGraph, **changed: Any) -> tuple[Configurator, Payload]:
    """A search in the first round, and the message that asks for it."""
    settings = GraphFLGASettings(**{**QUICK, **changed})
    search = Configurator(graph, settings, 0)
    job = {
        "round": 1,
        "blocks": search.space.initial(0),
        "weights": [0.5] * len(search.space.shapes),
        "common": {},
        "searcher": search.state(),
    }
    return search, search_request(graph, settings, 0, job)


def test_a_request_travels(small_clients: list[ClientGraph]) -> None:
    search, message = search_of(small_clients[0])
    reply = decode(answer_search(encode(message), lambda: False))
    expected = search.evolve(Situation(1, message["blocks"], message["weights"])).chromosome
    assert reply["chromosome"] == expected
    assert reply["population"]["population"] == search.population_state()["population"]
    with pytest.raises(AutoFGLError, match="given up"):
        answer_search(encode(message), lambda: True)


@pytest.mark.slow
def test_a_worker_finds_what_a_search_here_would(small_clients: list[ClientGraph]) -> None:
    search, message = search_of(small_clients[1])
    job = submit_search(message)
    assert job.message is message
    reply = job.result()
    assert job.done
    expected = search.evolve(Situation(1, message["blocks"], message["weights"]))
    assert (reply["chromosome"], reply["trials"]) == (expected.chromosome, expected.trials)
    assert search_pool()._nice == 19


@pytest.mark.slow
def test_a_search_that_is_canceled_or_killed_is_lost(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, long = search_of(small_clients[0], population=200, iterations=500)
    pool = WorkerPool("autofgl.methods.graphfl.search_jobs:answer_search", 1, nice=19)
    monkeypatch.setattr(search_jobs, "search_pool", lambda: pool)
    try:
        running, waiting = submit_search(long), submit_search(long)
        waiting.cancel()
        until(running.task.running)
        running.cancel()
        with pytest.raises(SearchLost, match="given up"):
            running.result()
        with pytest.raises(SearchLost):
            waiting.result()
        again = submit_search(long)
        until(lambda: again.task.parts == ())  # it was sent
        process = pool.workers[0].process
        assert process is not None
        process.kill()
        with pytest.raises(SearchLost, match="ended"):
            again.result()
    finally:
        pool.close()


def until(ready: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)
