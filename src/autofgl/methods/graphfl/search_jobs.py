"""A client's search in a process of its own, beside its training (section 3.3.2).

A search is one message and one answer. All clients in this process share the worker processes: one
for each core but one, at the lowest priority, so that a search, and the start of its process, live
on what the training leaves.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.errors import AutoFGLError, PayloadError
from autofgl.federation.payload import Payload, decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.trials import Situation
from autofgl.workers import TaskError, WorkerLost, WorkerPool, WorkerTask, shared_pool

_ARRAYS = ("edge_index", "y", "train_mask", "val_mask", "test_mask", "node_id")
_LOWEST_PRIORITY = 19


class SearchLost(AutoFGLError):
    """A search came to no result: its process ended, or no trial of it was finite."""


@dataclass(frozen=True)
class SearchJob:
    """A search that is waited for, or not: what was asked for, and the worker's part of it."""

    message: Payload
    task: WorkerTask

    @property
    def done(self) -> bool:
        """Whether :meth:`result` would not wait."""
        return self.task.done()

    def result(self) -> Payload:
        """The answer, as soon as there is one; :class:`SearchLost` if there will be none."""
        try:
            return decode(self.task.result())
        except (TaskError, WorkerLost, PayloadError, CancelledError) as error:
            raise SearchLost(f"a search gave no result: {error}") from error

    def cancel(self) -> None:
        """Nobody wants the result any more."""
        self.task.cancel()


def submit_search(message: Payload) -> SearchJob:
    """Have a search made, in the order of submission."""
    return SearchJob(message, search_pool().submit(encode(message)))


def search_pool() -> WorkerPool:
    """The worker processes in which this process's clients search."""
    size = max(1, len(os.sched_getaffinity(0)) - 1)
    return shared_pool(f"{__name__}:answer_search", size, nice=_LOWEST_PRIORITY)


def search_request(
    graph: ClientGraph, settings: GraphFLGASettings, seed: int, search: Payload
) -> Payload:
    """All that a search depends on; ``searcher`` in it is the state of a configurator."""
    return {
        "graph": _graph_payload(graph),
        "settings": settings.model_dump(mode="json"),
        "seed": seed,
        **search,
    }


def answer_search(task: bytes, canceled: Callable[[], bool]) -> bytes:
    """Make the search that a message asks for: what a worker does."""
    start = time.process_time()
    message = decode(task)
    settings = GraphFLGASettings(**message["settings"])
    configurator = Configurator(_graph(message["graph"]), settings, message["seed"])
    configurator.load_state(message["searcher"])
    trials = configurator.trials
    trials.loss = trials.loss.with_weights(message.get("class_weights", ()))
    configurator.common = message["common"]
    now = Situation(
        message["round"],
        message["blocks"],
        message["weights"],
        message.get("drift"),
        message.get("advised"),
    )
    winner = configurator.evolve(now, canceled)
    return encode(
        {
            "chromosome": winner.chromosome,
            "ways": winner.ways,
            "population": configurator.population_state(),
            "trials": winner.trials,
            "seconds": winner.seconds,
            "cpu_seconds": time.process_time() - start,
        }
    )


def _graph_payload(graph: ClientGraph) -> Payload:
    x: Any = graph.x
    features: Payload = {"x": np.asarray(x)} if not sp.issparse(x) else {
        "data": x.data, "indices": x.indices, "indptr": x.indptr, "columns": int(x.shape[1]),
    }  # fmt: skip
    arrays = {name: getattr(graph, name) for name in _ARRAYS}
    if graph.edge_weight is not None:
        arrays["edge_weight"] = graph.edge_weight
    return {"name": graph.name, "classes": graph.classes, **arrays, **features}


def _graph(payload: Payload) -> ClientGraph:
    x = payload.get("x")
    if x is None:
        parts = (payload["data"], payload["indices"], payload["indptr"])
        x = sp.csr_array(parts, shape=(len(payload["indptr"]) - 1, payload["columns"]))
    arrays: dict[str, Any] = {name: payload.get(name) for name in (*_ARRAYS, "edge_weight")}
    return ClientGraph(name=payload["name"], classes=payload["classes"], x=x, **arrays)
