"""A site's part of a matching: questions, answers, and at the end a boundary in its graph file.

All that a site tells another is sealed for it: the server that relays it sees lengths only. In
order:

- ``ask``: which of the ids that my edges lead to, and of my own ids, are yours?
- ``respond``: the answers, by private set intersection.
- ``claim``: these ids are at both of us.
- ``place``: they are those of my nodes.
- ``link``: these of my edges lead to them.
- ``count``: then my ends have so many neighbors.
- ``finish``: the boundary is clear; ``write``: it is in the graph file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import GraphError
from autofgl.federation.party import Context, Party, Refused
from autofgl.federation.payload import Payload, decode, encode
from autofgl.graphs.client_graph import Boundary, ClientGraph, Ints
from autofgl.graphs.files import load_client, replace_boundary
from autofgl.graphs.origin import Origin, read_origin
from autofgl.matching.intersection import Question, answer, count_asked, require_library
from autofgl.matching.links import Links, boundary_of, incoming, unite
from autofgl.secure.keys import KeyRing, Terms

#: What the server calls, in order, once there are keys; each call passes the sites' messages on.
STAGES = ("ask", "respond", "claim", "place", "link", "count", "finish")
_PURPOSE = "match"
_NONE: Ints = np.zeros(0, np.int64)


class Matcher(Party):
    """Matches one graph file with those of the other parties.

    Args:
        path: The graph file, made from tables.
        context: Who the party is, and with whom it matches.
        tell: Is told what its owner should know, and nobody else.
    """

    operations: ClassVar[frozenset[str]] = frozenset({"keys", *STAGES, "write"})
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        before: {op: op} for before, op in zip(("new", *STAGES), (*STAGES, "write"), strict=True)
    }

    def __init__(self, path: Path, context: Context, tell: Callable[[str], None]) -> None:
        require_library()
        self._path, self._tell, self.name = path, tell, context.name
        self._order = tuple(context.parties)
        self._peers = tuple(name for name in self._order if name != self.name)
        graph = load_client(path, self.name, self._order, classes=1 << 31, seed=0)
        self._graph: ClientGraph = replace(graph, boundary=Boundary.empty())
        self._origin: Origin = read_origin(path)
        beside = path.with_name(f"{path.stem}.boundary.npz")
        if beside.is_file():
            raise GraphError(f"{beside} has the boundary already: delete it to find it anew")
        if len(self._origin.names) != graph.num_nodes:
            raise GraphError(f"{path} has no names of its nodes: make it with autofgl import")
        terms = Terms(context.run, _PURPOSE, self._order, len(self._order), 0)
        self._ring = KeyRing(self.name, terms, len(self._order), context.identity)
        self._questions: dict[str, dict[str, Question]] = {}
        self._asked: dict[str, dict[str, int]] = {}
        self._claimed: dict[str, dict[str, tuple[str, ...]]] = {}
        self._placed: dict[str, dict[str, Ints]] = {}
        self._mine: dict[str, Links] = {}
        self._links: dict[str, Links] = {}
        self._boundary = Boundary.empty()

    def keys(self, payload: Payload) -> Payload:
        """A phase of the key exchange."""
        phase = str(payload.get("phase"))
        if phase not in self._ring.phases:
            raise Refused(f"there is no phase '{phase}'")
        return self._ring.phases[phase](payload)

    def ask(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Ask every other site for the ids that edges lead to; later ones for own ids, too."""
        self._ring.require()
        wanted = sorted(set(self._origin.external.name))
        for peer in self._peers:
            own = self._origin.names if self._before(peer) else ()
            self._questions[peer] = {"external": Question(wanted), "shared": Question(own)}
        kind = {"directed": self._graph.directed, "weighted": self._weighted}
        return self._send("ask", {
            peer: {**kind, **{key: one.request for key, one in questions.items()}}
            for peer, questions in self._questions.items()
        })  # fmt: skip

    def respond(self, payload: Payload) -> Payload:
        """Answer the others' questions."""
        messages: dict[str, Payload] = {}
        for peer, message in self._receive("ask", payload).items():
            for key, own in (("directed", self._graph.directed), ("weighted", self._weighted)):
                if message.get(key) is not own:
                    raise Refused(f"edges are {key} at {self.name if own else peer} only: import "
                                  "all tables with one schema")  # fmt: skip
            if self._before(peer) and message.get("shared"):
                raise Refused(f"{peer} asks for shared ids out of turn")
            self._asked[peer], messages[peer] = {}, {}
            for key in ("external", "shared"):
                self._asked[peer][key] = count_asked(_bytes(message, key))
                setup, response = answer(_bytes(message, key), self._origin.names)
                messages[peer] |= {f"{key}_setup": setup, f"{key}_response": response}
        return self._send("respond", messages)

    def claim(self, payload: Payload) -> Payload:
        """Name the ids that are at both sites."""
        for peer, message in self._receive("respond", payload).items():
            self._claimed[peer] = {
                key: one.read(_bytes(message, f"{key}_setup"), _bytes(message, f"{key}_response"))
                for key, one in self._questions[peer].items()
            }
        return self._send("claim", {
            peer: {key: list(names) for key, names in claimed.items()}
            for peer, claimed in self._claimed.items()
        })  # fmt: skip

    def place(self, payload: Payload) -> Payload:
        """Say which own nodes the ids are that another site has named."""
        place = {name: index for index, name in enumerate(self._origin.names)}
        for peer, message in self._receive("claim", payload).items():
            self._placed[peer] = {}
            for key in ("external", "shared"):
                names = message.get(key)
                if type(names) is not list or any(name not in place for name in names):
                    raise Refused(f"{peer} names ids that are not at {self.name}")
                if len(names) > self._asked[peer][key]:
                    raise Refused(f"{peer} names more ids than it has asked for")
                self._placed[peer][key] = np.array([place[name] for name in names], np.int64)
            asked, found = self._asked[peer]["external"], len(self._placed[peer]["external"])
            self._tell(f"{peer} has asked for {asked:,} ids: {found:,} of them are here")
        return self._send("place", dict(self._placed))

    def link(self, payload: Payload) -> Payload:
        """Tell the own edges to the other site's nodes."""
        own_place = {name: index for index, name in enumerate(self._origin.names)}
        for peer, message in self._receive("place", payload).items():
            claimed, theirs = self._claimed[peer], {}
            for key in ("external", "shared"):
                theirs[key] = _indices(message, key)
                if len(theirs[key]) != len(claimed[key]):
                    raise Refused(f"{peer} does not place all ids that it has")
            remote = dict(zip(claimed["external"], theirs["external"].tolist(), strict=True))
            copies = np.array([own_place[name] for name in claimed["shared"]], np.int64)
            between = Links.between_copies(copies, theirs["shared"])
            self._mine[peer] = Links.joined([self._external_links(remote), between])
        return self._send("link", {peer: vars(links) for peer, links in self._mine.items()})

    def count(self, payload: Payload) -> Payload:
        """Put both sites' edges together and tell how many neighbors the own ends have."""
        for peer, message in self._receive("link", payload).items():
            others = self._checked_links(peer, message)
            first = self._before(peer)
            self._links[peer] = unite(self._mine[peer], others, first, self._graph.directed)
        degree = self._graph.degree.copy()
        for links in self._links.values():
            ends = links.own[incoming(links, self._graph.directed)]
            degree += np.bincount(ends, minlength=len(degree))
        return self._send(
            "count", {peer: {"degree": degree[links.own]} for peer, links in self._links.items()}
        )

    def finish(self, payload: Payload) -> Payload:
        """Have the boundary ready."""
        degrees = {}
        for peer, message in self._receive("count", payload).items():
            degrees[peer] = _indices(message, "degree")
            if len(degrees[peer]) != len(self._links[peer]) or (degrees[peer] < 0).any():
                raise Refused(f"{peer} does not tell the neighbors of all its ends")
        self._boundary = boundary_of(self._links, degrees, self._graph.directed, self._weighted)
        return {"boxes": {}}

    def write(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Put the boundary into the graph file; how many edges it has is all that is told."""
        replace_boundary(self._path, self._boundary)
        found = {name for one in self._claimed.values() for name in one["external"]}
        wanted = set(self._origin.external.name)
        for peer, links in self._links.items():
            shared = max(len(self._claimed[peer]["shared"]), len(self._placed[peer]["shared"]))
            self._tell(f"{peer}: {len(links):,} edges, {shared:,} ids at both")
        self._tell(f"{len(wanted) - len(found):,} of {len(wanted):,} ids that edges lead to are "
                   "at no other site")  # fmt: skip
        return {"edges": len(self._boundary)}

    @cached_property
    def _weighted(self) -> bool:
        return self._graph.edge_weight is not None

    def _before(self, peer: str) -> bool:
        """Whether this site comes before the other in the order that all have."""
        return self._order.index(self.name) < self._order.index(peer)

    def _external_links(self, remote: Mapping[str, int]) -> Links:
        """Own edges to nodes of another site, whose places there are known."""
        edges = self._origin.external
        theirs = np.array([remote.get(name, -1) for name in edges.name], np.int64)
        here = theirs >= 0
        weight = np.ones(len(edges), np.float32) if edges.weight is None else edges.weight
        return Links(edges.local[here], theirs[here], edges.out[here], weight[here])

    def _checked_links(self, peer: str, message: Payload) -> Links:
        """The other site's edges, as this one sees them; only to nodes that it has asked for."""
        theirs, own = _indices(message, "own"), _indices(message, "theirs")
        out, weight = message.get("out"), message.get("weight")
        known = np.concatenate(list(self._placed[peer].values()))
        right = (
            isinstance(out, np.ndarray)
            and isinstance(weight, np.ndarray)
            and out.dtype == np.bool_
            and weight.dtype == np.float32
            and theirs.shape == own.shape == out.shape == weight.shape
            and bool(np.isfinite(weight).all())
            and bool((weight >= 0).all())
            and bool((theirs >= 0).all())
            and bool(np.isin(own, known).all())
        )
        if not right:
            raise Refused(f"{peer} tells of edges that cannot be")
        return Links(theirs, own, np.asarray(out), np.asarray(weight)).turned()

    def _send(self, stage: str, messages: Mapping[str, Mapping[str, Any]]) -> Payload:
        seal = self._ring.seal
        boxes = {
            peer: seal(peer, _PURPOSE, stage, encode(dict(messages[peer]))) for peer in messages
        }
        return {"boxes": boxes}

    def _receive(self, stage: str, payload: Payload) -> dict[str, Payload]:
        """What every other site has told this one."""
        boxes = payload.get("boxes")
        if type(boxes) is not dict or {*boxes} != {*self._peers}:
            raise Refused("a message of another site is missing")
        return {
            peer: decode(self._ring.unseal(peer, _PURPOSE, stage, _bytes(boxes, peer)))
            for peer in self._peers
        }


def _bytes(message: Mapping[str, Any], key: str) -> bytes:
    value = message.get(key)
    if type(value) is not bytes:
        raise Refused(f"'{key}' of another site is no message")
    return value


def _indices(message: Mapping[str, Any], key: str) -> Ints:
    value = message.get(key)
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != 1:
        raise Refused(f"'{key}' of another site is no list of nodes")
    return value


def matchers(
    paths: Sequence[Path], tell: Callable[[str, str], None]
) -> dict[str, Callable[[Context], Matcher]]:
    """A matcher for each graph file, named by its stem; ``tell`` gets the name and a line."""

    def make(path: Path) -> Callable[[Context], Matcher]:
        return lambda context: Matcher(path, context, lambda line: tell(context.name, line))

    return {path.stem: make(path) for path in paths}
