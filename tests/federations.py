"""Helpers to run a method by hand, without a run folder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autofgl.federation import Observer
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Party
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import Boundary, ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.nn.models.spec import NetworkSpec
from autofgl.runtime.client_data import Inputs
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.method import Method
from autofgl.runtime.specs import model_spec


def make(
    name: str | type[Method],
    clients: Sequence[ClientGraph],
    *,
    seed: int = 0,
    secure: str = "none",
    strict: bool = True,
    folder: Path | None = None,
    observer: Observer | None = None,
    engine: type[InProcess] = InProcess,
    **settings: Any,
) -> Any:
    """A method on an in-process federation; payloads are encoded unless a test says otherwise."""
    kind = find_method(name) if isinstance(name, str) else name
    checked = kind.Settings(**settings)
    factories = {
        graph.name: kind.party(graph, checked, seed, secure) for graph in kind.arrange(clients)
    }
    federation = engine(factories, strict=strict, folder=folder, observer=observer)
    method = kind(federation, checked, seed, secure)
    method.connect()
    return method


def rounds(method: Method, count: int) -> list[dict[str, Any]]:
    """Set up and make so many rounds."""
    method.setup()
    return [method.step() for _ in range(count)]


def to_the_end(method: Method) -> list[dict[str, Any]]:
    """All rounds that are left."""
    rows = []
    while not method.done:
        rows.append(method.step())
    return rows


def parties(method: Method) -> dict[str, Any]:
    """The client sides."""
    actors = method.federation._actors  # type: ignore[attr-defined]
    return {name: actor.party for name, actor in actors.items()}


def local_model(
    client: ClientGraph, settings: Any, spec: NetworkSpec | None = None, kind: Any = LocalModel
) -> Any:
    """A client's network as the methods make it, of their seed 0."""
    inputs = Inputs.of(client, settings.normalize_features)
    return kind(client.name, inputs, spec or model_spec(client, settings), settings, 0)


def close(a: Weights, b: Weights, tolerance: float) -> bool:
    """Whether all weights agree."""
    return all(np.allclose(a[name], b[name], rtol=0, atol=tolerance) for name in a)


def empty_client(like: ClientGraph, name: str) -> ClientGraph:
    """A client without nodes."""
    none, mask = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    return replace(
        like, name=name, x=like.x[:0], edge_index=np.zeros((2, 0), np.int64), y=none,
        train_mask=mask, val_mask=mask, test_mask=mask, node_id=none, boundary=Boundary.empty(),
    )  # fmt: skip


def without(client: ClientGraph, *masks: str) -> ClientGraph:
    """The client without the nodes of some masks."""
    nothing = np.zeros(client.num_nodes, np.bool_)
    names = ("train_mask", "val_mask", "test_mask")
    return client.with_masks(*(nothing if key in masks else getattr(client, key) for key in names))


def leaves(payload: Any) -> Iterator[Any]:
    """All that is not a dict or list in a message."""
    stack = [payload]
    while stack:
        value = stack.pop()
        if isinstance(value, dict | list):
            stack += value.values() if isinstance(value, dict) else value
        else:
            yield value


def intercept(party: Party, action: Callable[[str, Payload], None]) -> None:
    """Have something done before a party answers."""
    handle = party.handle

    def handle_later(op: str, payload: Payload) -> Payload:
        action(op, payload)
        return handle(op, payload)

    party.handle = handle_later  # type: ignore[method-assign]


def die_in(party: Party, at: int) -> None:
    """Let a client's thread end in some round."""

    def die(op: str, payload: Payload) -> None:
        if op == "round" and payload["round"] == at:
            raise SystemExit

    intercept(party, die)
