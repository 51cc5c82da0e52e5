"""Cut a graph into client graphs with boundaries, and pool client graphs again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import (
    MASKS,
    Bools,
    Boundary,
    ClientGraph,
    Features,
    Floats,
    Ints,
    sorted_unique,
)


def cut(graph: ClientGraph, owner: Ints, names: Sequence[str]) -> list[ClientGraph]:
    """Give every node to one client; edges between clients become boundaries on both sides.

    Nodes keep their order within a client. ``owner`` is the index of each node's client, ``[n]``;
    one that owns nothing gets an empty graph. The cost is linear in nodes and edges, however many
    clients there are.
    """
    _check_whole(graph)
    key = _owner_key(owner, graph.num_nodes, len(names))
    nodes = _grouped(np.arange(graph.num_nodes), key, len(names))
    local = np.empty(graph.num_nodes, np.int64)
    for own in nodes:
        local[own] = np.arange(len(own))
    source, target = graph.edge_index
    inside = key[source] == key[target]
    internal = _grouped(np.flatnonzero(inside), key[target[inside]], len(names))
    crossing = _grouped(np.flatnonzero(~inside), key[target[~inside]], len(names))
    owners, clients = tuple(names), []
    for index, name in enumerate(names):
        inner, across = internal[index], crossing[index]
        ours, theirs = target[across], source[across]
        owner, degree = key[theirs].astype(np.int64), graph.degree[theirs]
        ends = (local[ours], owner, local[theirs], degree)
        boundary = Boundary(*ends, owners, _weights(graph, across))
        edges = local[graph.edge_index[:, inner]]
        clients.append(_part(graph, name, nodes[index], edges, boundary, _weights(graph, inner)))
    return clients


def cut_overlapping(
    graph: ClientGraph, member: Bools, names: Sequence[str], rng: Generator | None = None
) -> list[ClientGraph]:
    """Give every client the subgraph over its nodes; clients may hold the same node.

    Each node has one home among its holders, and a client that lacks a neighbor asks the home.
    An edge to a node that nobody holds is dropped, and such a neighbor does not count in any
    degree. Unlike after :func:`cut`, boundaries need not mirror each other: the home of ``u`` may
    hold both ends of an edge that another holder of ``v`` sees as crossing.

    ``member`` says which client holds which node, ``[clients, n]``. Homes are drawn by ``rng``;
    without it a node's home is its first holder.
    """
    _check_whole(graph)
    if member.shape != (len(names), graph.num_nodes):
        raise GraphError(
            f"'member' has shape {member.shape}; it must be clients × nodes, "
            f"({len(names)}, {graph.num_nodes})"
        )
    home, home_index = _homes(member, rng)
    source, target = graph.edge_index
    counted = (source != target) & (home[source] >= 0)
    degree = np.bincount(target[counted], minlength=graph.num_nodes).astype(np.int64)
    owners, clients = tuple(names), []
    for own, name in zip(member, names, strict=True):
        local = np.cumsum(own) - 1
        internal = own[source] & own[target]
        crossing = own[target] & ~own[source] & (home[source] >= 0)
        ours, theirs = target[crossing], source[crossing]
        remote = home_index[theirs]
        ends = (local[ours], home[theirs], remote, degree[theirs])
        boundary = Boundary(*ends, owners, _weights(graph, crossing))
        edges, nodes = local[graph.edge_index[:, internal]], np.flatnonzero(own)
        clients.append(_part(graph, name, nodes, edges, boundary, _weights(graph, internal)))
    return clients


def labels_of(graph: ClientGraph, part: ClientGraph) -> ClientGraph:
    """The whole graph that a part was cut from, with the labels and the masks of the part alone.

    A comparison, and nothing private: the part sees nodes, features and edges of all others.
    """
    order = np.argsort(graph.node_id, kind="stable")
    own = order[np.searchsorted(graph.node_id, part.node_id, sorter=order)]
    y, masks = np.full_like(graph.y, -1), np.zeros((len(MASKS), graph.num_nodes), np.bool_)
    y[own] = part.y
    for mask, key in zip(masks, MASKS, strict=True):
        mask[own] = getattr(part, key)
    return replace(graph, name=part.name, y=y).with_masks(*masks)


def withhold(
    graph: ClientGraph, share: float, rng: Generator, *, whole_graph: bool = False
) -> tuple[ClientGraph, ClientGraph]:
    """What is left for the clients, and a graph of random nodes that the server keeps for itself.

    Test nodes stay where they are, and nodes without a label; so the server may get less than its
    share of all nodes. Edges between the two are gone, but with ``whole_graph`` both keep all nodes
    and edges, and only labels are divided.
    """
    able = np.flatnonzero((graph.y >= 0) & ~graph.test_mask)
    count = min(round(share * graph.num_nodes), len(able))
    owner = np.zeros(graph.num_nodes, np.int64)
    owner[rng.choice(able, count, replace=False)] = 1
    if whole_graph:
        parts = cut(graph, owner, [graph.name, "server"])
        return labels_of(graph, parts[0]), labels_of(graph, parts[1])
    rest, kept = cut(graph, owner, [graph.name, "server"])
    return replace(rest, boundary=Boundary.empty()), replace(kept, boundary=Boundary.empty())


def pool(clients: Sequence[ClientGraph]) -> ClientGraph:
    """Put client graphs back together, as the method ``centralized`` wants them.

    Edges across clients come back from the boundaries; a boundary that only one side lists is
    mirrored unless edges are directed, and rows that point to a client outside ``clients`` are
    dropped. Nodes and edges are sorted by ``node_id``. Where some edges have weights, others weigh
    one.

    Two clients may hold the same ``node_id`` for two reasons: they overlap, or their files number
    their nodes 0, 1, 2, … each for itself. The ids count as common only if *all* repeated ids
    agree: same features, same label, the same edges among the nodes that two clients share, and
    no boundary row that leads to a node the client itself holds. Then the copies are merged: a
    node is in the training set if any copy is, else in the validation set if any copy is, else in
    the test set, and parallel edges become one. Otherwise all nodes are different nodes, and get
    new ids 0..N-1 in the order of the clients.
    """
    if not clients:
        raise GraphError("there are no clients to pool")
    every = np.concatenate([client.node_id for client in clients])
    ids, first, position = np.unique(every, return_index=True, return_inverse=True)
    merged = len(ids) < len(position)
    x, y = _rows(clients, first)
    if merged and not _same_nodes(clients, position, x, y):
        ids = first = position = np.arange(len(position))
        merged = False
        x, y = _rows(clients, first)
    edges, weight = _pooled_edges(clients, position, len(ids), merged=merged)
    classes = max(client.classes for client in clients)
    whole = ClientGraph.unsplit("pooled", x, edges, y, classes)
    whole = replace(whole, node_id=ids, edge_weight=weight, directed=_any_directed(clients))
    return whole.with_masks(*_pooled_masks(clients, position, len(ids)))


def _check_whole(graph: ClientGraph) -> None:
    if len(graph.boundary):
        raise GraphError(
            f"{graph.name}: a graph with a boundary is one client's part and cannot be cut again; "
            "pool the parts first, or leave the boundary out"
        )


def _owner_key(owner: Ints, nodes: int, clients: int) -> np.ndarray:
    """The owners as small integers, which NumPy sorts in linear time."""
    if owner.shape != (nodes,):
        raise GraphError(f"'owner' has shape {owner.shape}; it must have one entry per node")
    if nodes and (owner.min() < 0 or owner.max() >= clients):
        raise GraphError(f"'owner' must lie in 0..{clients - 1}, one index per named client")
    return owner.astype(np.uint16 if clients <= 2**16 else np.int64)


def _grouped(items: Ints, key: np.ndarray, groups: int) -> list[Ints]:
    """The items of each group, in their order."""
    bounds = np.cumsum(np.bincount(key, minlength=groups))[:-1]
    return np.split(items[np.argsort(key, kind="stable")], bounds)


def _part(
    graph: ClientGraph,
    name: str,
    nodes: Ints,
    edge_index: Ints,
    boundary: Boundary,
    weight: Floats | None,
) -> ClientGraph:
    parts = {key: getattr(graph, key)[nodes] for key in ("x", "y", *MASKS, "node_id")}
    edges: dict[str, Any] = {"edge_index": edge_index, "edge_weight": weight}
    return replace(graph, name=name, boundary=boundary, **edges, **parts)


def _weights(graph: ClientGraph, edges: Ints | Bools) -> Floats | None:
    """Weights of some internal edges, if edges have any."""
    return None if graph.edge_weight is None else graph.edge_weight[edges]


def _homes(member: Bools, rng: Generator | None) -> tuple[Ints, Ints]:
    """Home of each node, -1 where nobody holds it, and the node's index there."""
    clients, nodes = member.shape
    holders = member.sum(axis=0)
    turn = np.zeros(nodes, np.int64)
    if rng is not None:
        turn = np.floor(rng.random(nodes) * holders).astype(np.int64)
    home, index, seen = np.full(nodes, -1), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    for client in range(clients):
        here = member[client] & (seen == turn)
        home[here] = client
        index[here] = (np.cumsum(member[client]) - 1)[here]
        seen += member[client]
    return home, index


def _offsets(clients: Sequence[ClientGraph]) -> Ints:
    """Where each client's nodes begin in the concatenation of all."""
    return np.cumsum([0, *(client.num_nodes for client in clients)])


def _rows(clients: Sequence[ClientGraph], nodes: Ints) -> tuple[Features, Ints]:
    """Features and labels of some nodes, given by their place in the concatenation of all."""
    order = np.argsort(nodes)
    parts = np.split(nodes[order], np.searchsorted(nodes[order], _offsets(clients)[1:-1]))
    chosen = [part - start for part, start in zip(parts, _offsets(clients), strict=False)]
    back = np.empty(len(nodes), np.int64)
    back[order] = np.arange(len(nodes))
    features = [client.x[rows] for client, rows in zip(clients, chosen, strict=True)]
    y = np.concatenate([client.y[rows] for client, rows in zip(clients, chosen, strict=True)])
    if any(sp.issparse(part) for part in features):
        return sp.vstack([sp.csr_array(part) for part in features], format="csr")[back], y[back]
    return np.concatenate(features)[back], y[back]


def _pooled_masks(clients: Sequence[ClientGraph], position: Ints, nodes: int) -> list[Bools]:
    masks = []
    taken = np.zeros(nodes, np.bool_)
    for key in MASKS:
        mask = np.zeros(nodes, np.bool_)
        mask[position[np.concatenate([getattr(client, key) for client in clients])]] = True
        masks.append(mask & ~taken)
        taken |= mask
    return masks


def _pooled_edges(
    clients: Sequence[ClientGraph], position: Ints, nodes: int, *, merged: bool
) -> tuple[Ints, Floats | None]:
    """All edges of the pooled graph ``[2, E]``, sorted by source, then target, and their weights.

    Of copies that are merged, the first one's weight stays.
    """
    stride = max(nodes, 1)
    weights = _pooled_weights(clients)
    across = np.concatenate(_cross_edges(clients, position), axis=1)
    forth, back = across[0] * stride + across[1], across[1] * stride + across[0]
    inner = [edges[0] * stride + edges[1] for edges in _inner_edges(clients, position)]
    keys = np.concatenate([*inner, forth])
    mirrored = not _any_directed(clients) and not np.array_equal(np.sort(forth), np.sort(back))
    if weights is None:
        if mirrored:
            keys = np.concatenate([*inner, sorted_unique(np.concatenate([forth, back]))])
        keys.sort()
        return np.stack(np.divmod(sorted_unique(keys) if merged else keys, stride)), None
    if mirrored:
        outer, first = np.unique(np.concatenate([forth, back]), return_index=True)
        split = len(keys) - len(forth)
        twice = np.concatenate([weights[split:], weights[split:]])
        keys = np.concatenate([keys[:split], outer])
        weights = np.concatenate([weights[:split], twice[first]])
    if merged:
        keys, first = np.unique(keys, return_index=True)
        return np.stack(np.divmod(keys, stride)), weights[first]
    order = np.argsort(keys, kind="stable")
    return np.stack(np.divmod(keys[order], stride)), weights[order]


def _pooled_weights(clients: Sequence[ClientGraph]) -> Floats | None:
    """Weights of all internal edges, client by client, then of all rows of boundaries."""
    inner = [(client.edge_weight, client.num_edges) for client in clients]
    within = [_rows_within(client, clients) for client in clients]
    outer = [
        (None if client.boundary.weight is None else client.boundary.weight[rows], int(rows.sum()))
        for client, rows in zip(clients, within, strict=True)
    ]
    if all(weight is None for weight, _ in [*inner, *outer]):
        return None
    parts = [np.ones(n, np.float32) if w is None else w for w, n in [*inner, *outer]]
    return np.concatenate(parts)


def _any_directed(clients: Sequence[ClientGraph]) -> bool:
    return any(client.directed for client in clients)


def _inner_edges(clients: Sequence[ClientGraph], position: Ints) -> list[Ints]:
    """Internal edges of each client between pooled nodes."""
    return [
        position[start + client.edge_index]
        for client, start in zip(clients, _offsets(clients)[:-1], strict=True)
    ]


def _cross_edges(clients: Sequence[ClientGraph], position: Ints) -> list[Ints]:
    """Boundary rows of each client between pooled nodes, remote end first."""
    index = {client.name: number for number, client in enumerate(clients)}
    offsets = _offsets(clients)
    pairs = []
    for client, start in zip(clients, offsets[:-1], strict=True):
        boundary = client.boundary
        numbers = np.array([index.get(name, -1) for name in boundary.owners], np.int64)
        owner, here = numbers[boundary.owner], _rows_within(client, clients)
        remote = offsets[owner[here]] + boundary.remote[here]
        pairs.append(position[np.stack([remote, start + boundary.local[here]])])
    return pairs


def _rows_within(client: ClientGraph, clients: Sequence[ClientGraph]) -> Bools:
    """Rows of a boundary that lead to one of the clients."""
    names = {other.name for other in clients}
    within = np.array([name in names for name in client.boundary.owners], np.bool_)
    return within[client.boundary.owner]


def _same_nodes(clients: Sequence[ClientGraph], position: Ints, x: Features, y: Ints) -> bool:
    """Whether nodes with the same id are copies of one node (rule in :func:`pool`)."""
    places = np.split(position, _offsets(clients)[1:-1])
    for client, place in zip(clients, places, strict=True):
        if not np.array_equal(client.y, y[place]):
            return False
        own = sp.csr_array(client.x) if sp.issparse(x) else client.x
        differ = own != x[place]
        if differ.nnz if sp.issparse(differ) else np.any(differ):
            return False
    holds = np.zeros((len(clients), len(y)), np.bool_)
    for row, place in zip(holds, places, strict=True):
        row[place] = True
    across = _cross_edges(clients, position)
    if any(row[remote].any() for row, (remote, _) in zip(holds, across, strict=True)):
        return False
    return _edges_agree(_inner_edges(clients, position), holds)


def _edges_agree(edges: Sequence[Ints], holds: Bools) -> bool:
    """Whether an edge one client has is at all clients that hold both of its ends.

    ``edges`` are each client's internal ones; ``holds`` is ``[clients, nodes]``, of pooled nodes.
    """
    nodes = holds.shape[1]
    own = [sorted_unique(source * nodes + target) for source, target in edges]
    keys, count = np.unique(np.concatenate(own), return_counts=True)
    source, target = np.divmod(keys, nodes)
    expected = np.zeros(len(keys), np.int64)
    for row in holds:
        expected += row[source] & row[target]
    return np.array_equal(count, expected)
