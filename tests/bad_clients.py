"""Clients that send wrong values on purpose: what they contribute, and what they answer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.runtime.bounds import VOTES

#: From the vectors of an honest update, of which ``share`` is its weight, to those of a bad one.
VECTORS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "huge": lambda update: {
        name: value if name == "share" else value * np.float32(-1000)
        for name, value in update.items()
    },
    "share": lambda update: {
        name: np.full_like(value, 1000 if name == "share" else 7000)
        for name, value in update.items()
    },
    "all shares": lambda update: {**update, "share": np.ones_like(update["share"])},
    "more vectors": lambda update: {**update, "more": np.zeros(3)},
}


def garbage(sent: Payload, rng: np.random.Generator) -> Payload:
    """A contribution in whose place are random bits, of the right type and size."""
    if "words" in sent:
        words = rng.integers(0, 2**64, sent["words"].shape, np.uint64)
        return {**sent, "words": words}
    bits = rng.integers(0, 2**32, sent["values"].shape, np.uint32).view(np.float32)
    return {**sent, "values": bits.astype(sent["values"].dtype)}


def not_a_number(sent: Payload, rng: np.random.Generator) -> Payload:
    """NaN where the client's own check would have refused to send it; elsewhere random bits."""
    if "values" in sent:
        return {**sent, "values": np.full_like(sent["values"], np.nan)}
    return garbage(sent, rng)


#: From an honest contribution to a bad one: what the own side of the protocol would not do.
MESSAGES: dict[str, Callable[[Payload, np.random.Generator], Payload]] = {
    "garbage": garbage,
    "nan": not_a_number,
    "short": lambda sent, _: {**sent, _body(sent): sent[_body(sent)][:-1]},
    "other type": lambda sent, _: {**sent, _body(sent): sent[_body(sent)].astype(np.int32)},
    "no body": lambda sent, _: {**sent, _body(sent): "nothing"},
    "another sum": lambda sent, _: {**sent, "tag": "\x1b[31mother"},
    "no header": lambda sent, _: {_body(sent): sent[_body(sent)]},
}


def _body(sent: Payload) -> str:
    return "words" if "words" in sent else "values"


def contribute_badly(party: Any, how: str, only: str = "update", seed: int = 0) -> None:
    """Have a client spoil its part of every sum whose name has ``only`` in it."""
    protect, rng = party.sums.protect, np.random.default_rng(seed)

    def spoil(tag: str, vectors: Mapping[str, Any], **about: Any) -> Payload:
        if only not in tag:
            return dict(protect(tag, vectors, **about))
        if how in VECTORS:
            figures = {name: v for name, v in vectors.items() if name in ("metrics", "own")}
            update = {name: np.asarray(v) for name, v in vectors.items() if name not in figures}
            return dict(protect(tag, {**figures, **VECTORS[how](update)}, **about))
        return MESSAGES[how](protect(tag, vectors, **about), rng)

    party.sums.protect = spoil


def reverse(party: Any, factor: float = -1.0) -> None:
    """Have a client send its updates with the sign reversed, or another factor."""
    protect, take = party.sums.protect, party.sharing.take
    start: dict[str, Any] = {}

    def remember(payload: Payload, opened: Any) -> None:
        take(payload, opened)
        if party.settings.aggregate == "parameters":
            start.update(party.sharing.local.weights())

    def spoil(tag: str, vectors: Any, **about: Any) -> Payload:
        if "update" in tag:
            share, times = np.float32(vectors["share"]), np.float32(factor)
            origins = {name: (1 - times) * share * start.get(name, 0.0) for name in vectors}
            vectors = {
                name: one if name in ("share", *VOTES) else times * one + origins[name]
                for name, one in vectors.items()
            }
        return dict(protect(tag, vectors, **about))

    party.sharing.take, party.sums.protect = remember, spoil
