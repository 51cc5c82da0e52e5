"""What clients send each other: which embeddings they need, and the embeddings.

Everything is published by its owner in one call of the server and fetched by a peer in the next, as
a box that only the two can open (AES-GCM under a key that both alone know), so whoever carries it,
a relaying server included, sees its size and nothing else. What a client may ever ask of another is
fixed when they meet: the ends of the edges that the two share.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from autofgl.errors import AutoFGLError
from autofgl.federation.party import Context, PeerFailed
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import Ints
from autofgl.secure.keys import KeyRing


class Exchange:
    """One client's line to those it shares edges with."""

    def __init__(self, context: Context) -> None:
        self._name = context.name
        self._line = context.peers
        self._keys = KeyRing(context.name, tuple(context.parties), fewest=1)
        self._boxes: dict[str, dict[str, bytes]] = {}
        self._allowed: dict[str, Ints] = {}

    @property
    def askers(self) -> tuple[str, ...]:
        """The peers that may ask this client for embeddings."""
        return tuple(self._allowed)

    def agree(self, payload: Payload) -> Payload:
        """Answer a phase of the key exchange."""
        return self._keys.phases[payload["phase"]](payload["message"])

    def clear(self) -> None:
        """Forget what was published for an earlier pass."""
        self._boxes.clear()

    def publish(self, topic: str, messages: Mapping[str, Any]) -> None:
        """Lay out an array for each peer named, until :meth:`clear`."""
        self._boxes[topic] = {
            peer: self._keys.seal(peer, "fedgraph", topic, _little(array).tobytes())
            for peer, array in messages.items()
            if peer in self._keys.peers
        }

    def fetch(self, topic: str, peer: str, dtype: Any) -> Any:
        """The numbers that a peer laid out for this client, in one row; nothing if it is gone."""
        if peer not in self._keys.peers:
            return None
        try:
            box = self._line.call(peer, "fetch", {"topic": topic, "by": self._name})["box"]
        except PeerFailed as failure:
            if failure.kind in ("lost", "timeout"):
                return None
            raise
        if not box:
            return None
        text = self._keys.unseal(peer, "fedgraph", topic, box)
        return np.frombuffer(text, np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False)

    def answer(self, payload: Payload) -> Payload:
        """A peer fetches; a box is of no use to anyone else."""
        return {"box": self._boxes.get(payload["topic"], {}).get(payload["by"], b"")}

    def introduce(self, wishes: Mapping[str, Ints]) -> None:
        """Tell every owner which of its nodes this client will ever ask for."""
        self.publish("meet", wishes)

    def meet(self, own: int) -> None:
        """Learn which of the ``own`` nodes others will ask for.

        Raises:
            AutoFGLError: A peer names nodes that do not exist.
        """
        self._allowed = {}
        for peer in self._keys.peers:
            wish = self.fetch("meet", peer, np.int64)
            if wish is not None:
                nodes = np.unique(wish)
                if len(nodes) and (nodes[0] < 0 or nodes[-1] >= own):
                    raise AutoFGLError(
                        f"{peer} has edges to nodes that {self._name} does not have: "
                        "check the boundaries of both graphs"
                    )
                self._allowed[peer] = nodes

    def wanted(self, topic: str) -> dict[str, Ints]:
        """The own nodes that each peer wants an embedding of now.

        Raises:
            AutoFGLError: A peer asks for more than it was met with.
        """
        wanted: dict[str, Ints] = {}
        for peer, allowed in self._allowed.items():
            nodes = self.fetch(topic, peer, np.int64)
            if nodes is not None and len(nodes):
                place = np.minimum(positions(allowed, nodes), len(allowed) - 1)
                if not np.array_equal(allowed[place], nodes):
                    raise AutoFGLError(f"{peer} asks {self._name} for nodes it has no edge to")
                wanted[peer] = nodes
        return wanted


def positions(within: Ints, nodes: Ints) -> Any:
    """Where each of ``nodes`` stands in the sorted list ``within``, which holds them all."""
    return np.searchsorted(within, nodes)


def _little(array: Any) -> Any:
    """The array in the byte order in which numbers travel."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
