"""A client's search as one message and one answer, for a process of its own."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.configurator import Configurator
from autofgl.methods.graphfl_ga_settings import GraphFLGASettings

_ARRAYS = ("edge_index", "y", "train_mask", "val_mask", "test_mask", "node_id")


def request(graph: ClientGraph, settings: GraphFLGASettings, seed: int, search: Payload) -> Payload:
    """All that a search depends on.

    Args:
        graph: The client's graph.
        settings: The environment.
        seed: Root of all chance.
        search: ``round``, ``whole``, ``stakes``, and ``searcher``, the state of a configurator.
    """
    return {
        "graph": _graph_payload(graph),
        "settings": settings.model_dump(mode="json"),
        "seed": seed,
        **search,
    }


def answer(message: Payload, given_up: Callable[[], bool] = lambda: False) -> Payload:
    """Make the search that a message asks for; ``failed`` says why there is no result."""
    start = time.process_time()
    settings = GraphFLGASettings(**message["settings"])
    configurator = Configurator(_graph(message["graph"]), settings, message["seed"])
    configurator.load_state(message["searcher"])
    try:
        winner = configurator.evolve(
            message["round"], message["whole"], message["stakes"], given_up
        )
    except AutoFGLError as error:
        return {"failed": str(error)}
    return {
        "chromosome": winner.chromosome,
        "population": configurator.population_state(),
        "trials": winner.trials,
        "seconds": winner.seconds,
        "cpu_seconds": time.process_time() - start,
    }


def _graph_payload(graph: ClientGraph) -> Payload:
    x: Any = graph.x
    features: Payload = {"x": np.asarray(x)} if not sp.issparse(x) else {
        "data": x.data, "indices": x.indices, "indptr": x.indptr, "columns": int(x.shape[1]),
    }  # fmt: skip
    arrays = {name: getattr(graph, name) for name in _ARRAYS}
    return {"name": graph.name, "classes": graph.classes, **arrays, **features}


def _graph(payload: Payload) -> ClientGraph:
    x = payload.get("x")
    if x is None:
        parts = (payload["data"], payload["indices"], payload["indptr"])
        x = sp.csr_array(parts, shape=(len(payload["indptr"]) - 1, payload["columns"]))
    arrays = {name: payload[name] for name in _ARRAYS}
    return ClientGraph(name=payload["name"], classes=payload["classes"], x=x, **arrays)
