"""Edges between two sites: what each knows of them, put together, and the boundary of a site.

Both ends of such an edge may be in the tables of both sites, of one, or, where an account is at
both sites, in none. Either site puts together the same list, in the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofgl.graphs.client_graph import Bools, Boundary, Floats, Ints


@dataclass(frozen=True)
class Links:
    """Row k is an edge between an own node and a node of one other site.

    Attributes:
        own, theirs: Its ends, as indices into the two sites' nodes, ``[k]``.
        out: Whether it leads from the own end to the other, ``[k]``.
        weight: Its weight, ``[k]``.
    """

    own: Ints
    theirs: Ints
    out: Bools
    weight: Floats

    def __len__(self) -> int:
        return len(self.own)

    def turned(self) -> "Links":
        """The same edges as the other site sees them."""
        return Links(self.theirs, self.own, ~self.out, self.weight)

    @classmethod
    def joined(cls, parts: Sequence["Links"]) -> "Links":
        """All rows of several lists."""
        columns = ("own", "theirs", "out", "weight")
        return cls(*(np.concatenate([getattr(part, key) for part in parts]) for key in columns))

    @classmethod
    def between_copies(cls, own: Ints, theirs: Ints) -> "Links":
        """Edges, in both directions, between the two nodes of every account at both sites."""
        ones = np.ones(len(own), np.float32)
        forth = cls(own, theirs, np.ones(len(own), np.bool_), ones)
        return cls.joined([forth, cls(own, theirs, ~forth.out, ones)])


def unite(mine: Links, others: Links, first: bool, directed: bool) -> Links:
    """One list of what two sites know of their edges, alike at both.

    An edge that several rows list is one edge and weighs what the heaviest of them does; in
    undirected graphs its directions are one edge, too.

    Args:
        mine: As this site sees them.
        others: The other site's, as this site sees them.
        first: Whether this site comes before the other in the order of sites, which decides the
            order of rows.
        directed: Whether edges have a direction.
    """
    rows = Links.joined([mine, others])
    # the order is by the first site's end, the second's, and whether it leads away from the first
    ends = (rows.own, rows.theirs) if first else (rows.theirs, rows.own)
    away = (rows.out == first) if directed else np.zeros(len(rows), np.bool_)
    order = np.lexsort((-rows.weight, away, ends[1], ends[0]))
    keys = np.stack([ends[0], ends[1], away.astype(np.int64)])[:, order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    kept = order[new]
    out = rows.out[kept] if directed else np.zeros(len(kept), np.bool_)
    return Links(rows.own[kept], rows.theirs[kept], out, rows.weight[kept])


def incoming(links: Links, directed: bool) -> Bools:
    """Rows that are in the site's boundary: in directed graphs those that lead to it."""
    return ~links.out if directed else np.ones(len(links), np.bool_)


def boundary_of(
    links: Mapping[str, Links], degrees: Mapping[str, Ints], directed: bool, weighted: bool
) -> Boundary:
    """The boundary of a site with these edges to others; ``degrees`` are of the other ends."""
    names = tuple(links)
    parts: list[tuple[Ints, Ints, Ints, Ints, Floats]] = []
    for number, name in enumerate(names):
        here = incoming(links[name], directed)
        own, theirs = links[name].own[here], links[name].theirs[here]
        owner = np.full(len(own), number, np.int64)
        parts.append((own, owner, theirs, degrees[name][here], links[name].weight[here]))
    if not parts:
        return Boundary.empty()
    local, owner, remote, degree, weight = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    given = weight.astype(np.float32) if weighted else None
    return Boundary(local, owner, remote, degree, names, given)
