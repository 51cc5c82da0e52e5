"""Helpers to run a method by hand, without a run folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.traffic import Observer
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.methods.method import Method


def make(
    name: str,
    clients: Sequence[ClientGraph],
    *,
    seed: int = 0,
    secure: str = "none",
    strict: bool = True,
    folder: Path | None = None,
    observer: Observer | None = None,
    **settings: Any,
) -> Method:
    """A method on an in-process federation; payloads are encoded unless a test says otherwise."""
    found = find_method(name)
    checked = found.Settings(**settings)
    factories = {
        graph.name: found.party(graph, checked, seed, secure) for graph in found.arrange(clients)
    }
    engine = InProcess(factories, strict=strict, folder=folder, observer=observer)
    method = found(engine, checked, seed, secure)
    method.connect()
    return method


def rounds(method: Method, count: int) -> list[dict[str, Any]]:
    """Set up and make so many rounds."""
    method.setup()
    return [method.step() for _ in range(count)]
