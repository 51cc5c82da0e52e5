"""Rows that clients send each other through the server, sealed for one peer each.

A client answers a call with a box for every peer that has an edge to one of its nodes, and gets the
boxes that are for it with the next call: all peers' rows of a hop in one message each way. Nobody
waits for a peer, so that there is no deadlock, and the server relays what only two clients can
open (AES-GCM under a key that both alone know). Clients sign their keys, so that no server can put
its own in place. Which nodes a peer ever gets to see is fixed when they meet: the ends of the edges
that the two share.

What cannot be opened, has another shape, or holds infinite numbers counts as not sent: a bad client
harms nobody but itself by it.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.errors import AutoFGLError
from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import Ints
from autofgl.nn.sampling.neighborhood import Neighborhood
from autofgl.runtime.replies import Box, Named, Record
from autofgl.secure import SecureSumError
from autofgl.secure.keys import KeyRing, Terms

#: Boxes by the name of the peer that they are for, or that they are from.
Boxes = dict[str, bytes]
#: What a client answers that tells its peers something.
BOXES = Record({"boxes": Named(Box())})

#: Where rows belong among those of own nodes, or of external ones.
Place: TypeAlias = slice | Ints

_PURPOSE = "rows"


class RowExchange:
    """One client's side: whom it tells what, and what it is told."""

    def __init__(self, context: Context) -> None:
        self._name = context.name
        terms = Terms(context.run, "rows", tuple(context.parties), 1, 0)
        self._keys = KeyRing(context.name, terms, fewest=1, identity=context.identity)
        #: Own nodes that each peer has an edge to, sorted.
        self.shown: dict[str, Ints] = {}
        #: Where the external nodes of each owner stand among all.
        self.places: dict[str, slice] = {}

    def agree(self, payload: Payload) -> Payload:
        """Answer a phase of the key exchange with the peers."""
        return self._keys.phases[payload["phase"]](payload["message"])

    def introduce(self, near: Neighborhood) -> Boxes:
        """Tell the owners of external nodes, sorted by owner and number, which these are."""
        bounds = np.flatnonzero(np.diff(near.owner, prepend=-1, append=-1)).tolist()
        self.places = {
            near.owners[near.owner[begin]]: slice(begin, end) for begin, end in pairwise(bounds)
        }
        wishes = {name: near.remote[place] for name, place in self.places.items()}
        return self._sealed("meet", {name: own.astype("<i8") for name, own in wishes.items()})

    def meet(self, boxes: Mapping[str, bytes], own: int) -> None:
        """Learn which of the ``own`` nodes others have edges to; an error if they do not exist."""
        self.shown = {}
        for peer, wish in self._opened("meet", boxes, "<i8").items():
            nodes = np.asarray(wish, np.int64)
            if (np.diff(nodes) <= 0).any() or nodes[:1] < 0 or nodes[-1:] >= own:
                raise AutoFGLError(
                    f"{peer} has edges to nodes that {self._name} does not have: "
                    "check the boundaries of both graphs"
                )
            self.shown[peer] = nodes

    def seal(self, tag: str, rows: npt.NDArray[np.float32], back: bool = False) -> Boxes:
        """Rows of own nodes ``[n, width]``, for each peer those that it has edges to; ``back`` to
        the owners go rows of external nodes ``[m, width]``.
        """
        whose: Mapping[str, Place] = self.places if back else self.shown
        return self._sealed(tag, {peer: rows[place] for peer, place in whose.items()})

    def open(
        self, tag: str, boxes: Mapping[str, bytes], width: int, back: bool = False
    ) -> Iterator[tuple[Place, Any]]:
        """Rows ``[k, width]`` of each peer that has sent any, and where they belong: among external
        nodes, or among own ones if they come ``back``.
        """
        whose: Mapping[str, Place] = self.shown if back else self.places
        for peer, values in self._opened(tag, boxes, "<f4").items():
            place = whose.get(peer, slice(0, 0))
            count = place.stop - place.start if isinstance(place, slice) else len(place)
            if values.size == count * width and np.isfinite(values).all():
                yield place, values.reshape(-1, width)

    def _sealed(self, tag: str, arrays: Mapping[str, Any]) -> Boxes:
        known = set(self._keys.peers)
        little = {
            peer: array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            for peer, array in arrays.items()
            if peer in known
        }
        return {peer: self._keys.seal(peer, _PURPOSE, tag, text) for peer, text in little.items()}

    def _opened(self, tag: str, boxes: Mapping[str, bytes], dtype: str) -> dict[str, Any]:
        opened = {}
        for peer, box in boxes.items():
            if peer not in self._keys.peers:
                continue
            try:
                text = self._keys.unseal(peer, _PURPOSE, tag, box)
            except SecureSumError:
                continue
            if len(text) % np.dtype(dtype).itemsize == 0:
                opened[peer] = np.frombuffer(text, dtype)
        return opened


def delivered(replies: Mapping[str, Payload]) -> dict[str, Payload]:
    """What each client is to be handed of the boxes in the others' answers."""
    each: dict[str, Payload] = {}
    for sender, reply in replies.items():
        for receiver, box in reply["boxes"].items():
            each.setdefault(receiver, {"boxes": {}})["boxes"][sender] = box
    return each
