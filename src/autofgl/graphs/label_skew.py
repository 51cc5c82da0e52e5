"""Cuts by groups of classes, one for each client (ASFGNN), and how items are dealt out."""

import heapq

import numpy as np
from numpy.random import Generator

from autofgl.errors import UserError
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import Bools, ClientGraph, Ints


def by_labels(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> Ints:
    """ASFGNN's label skew: classes form one group per client.

    A client takes the share α of its own group; the rest of the group is spread evenly over the
    other clients. With two clients, A takes α of group one and 1−α of group two, and B the reverse.
    Nodes without a label are spread evenly over all. ``label_groups`` names the classes of each
    client, such as ``0,1,2,4|3,5,6``; a class of several clients, as in ``0,1|0,2``, is spread
    evenly over them. Left out, the classes go, from large to small, to the client with the fewest
    nodes so far.
    """
    owner, group = _by_group(graph, clients, rng, settings)
    for client in range(clients):
        nodes = rng.permutation(np.flatnonzero(group == client))
        stay = round(settings.label_alpha * len(nodes)) if clients > 1 else len(nodes)
        owner[nodes[:stay]] = client
        others = np.delete(np.arange(clients), client)
        if stay < len(nodes):
            owner[nodes[stay:]] = others[spread(len(nodes) - stay, clients - 1, rng)]
    return owner


def by_labels_to_the_letter(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> Bools:
    """ASFGNN's label skew by the letter of its section 5.1.2.

    Client A takes α·N₁ nodes of group one and (1−α)·N₁ of group two, so that its size stays that of
    its own group, whatever α is. The latter are drawn from what their own client does not keep, so
    far as that goes: no node has two clients, and where groups differ in size some have none.
    """
    owner, group = _by_group(graph, clients, rng, settings)
    owner[group >= 0] = -1
    left: list[Ints] = []
    for client in range(clients):
        nodes = rng.permutation(np.flatnonzero(group == client))
        stay = round(settings.label_alpha * len(nodes)) if clients > 1 else len(nodes)
        owner[nodes[:stay]] = client
        left.append(nodes[stay:])
    for client in range(clients):
        wanted = int((group == client).sum()) - int((owner[group == client] == client).sum())
        others = np.delete(np.arange(clients), client)
        shares = np.bincount(spread(wanted, clients - 1, rng), minlength=clients - 1)
        for other, share in zip(others.tolist(), shares.tolist(), strict=True):
            owner[left[other][:share]], left[other] = client, left[other][share:]
    return np.asarray(owner == np.arange(clients)[:, None])


def _by_group(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> tuple[Ints, Ints]:
    """Nodes spread evenly, as those without a label stay, and whose group of classes a node is in;
    -1 without a label.
    """
    homes = _label_groups(graph, clients, settings.label_groups)
    owner = spread(graph.num_nodes, clients, rng)
    group = np.full(graph.num_nodes, -1, np.int64)
    for label, own in enumerate(homes):
        nodes = np.flatnonzero(graph.y == label)
        if len(own):
            group[nodes] = own[0] if len(own) == 1 else own[spread(len(nodes), len(own), rng)]
    return owner, group


def _label_groups(graph: ClientGraph, clients: int, groups: str | None) -> list[Ints]:
    """Clients of each class; none for a class without nodes that nobody named."""
    sizes = np.bincount(graph.y[graph.y >= 0], minlength=graph.classes)
    if groups is not None:
        return _given_groups(sizes, clients, groups)
    present = np.flatnonzero(sizes)
    if len(present) < clients:
        raise UserError(
            f"partition 'labels' gives each of the {clients} clients classes of its own, but the "
            f"graph has nodes of {len(present)}: use fewer clients, or partition 'dirichlet'"
        )
    homes = [np.empty(0, np.int64)] * graph.classes
    for label, client in zip(present, packed(sizes[present], clients), strict=True):
        homes[label] = np.array([client])
    return homes


def _given_groups(sizes: Ints, clients: int, groups: str) -> list[Ints]:
    """Read ``0,1,2,4|3,5,6`` and check it against the clients and the classes."""
    parts = groups.split("|")
    if len(parts) != clients:
        raise UserError(
            f"label_groups '{groups}' has {len(parts)} groups for {clients} clients: "
            "give one per client, separated by '|'"
        )
    homes: list[list[int]] = [[] for _ in sizes]
    for client, part in enumerate(parts):
        for label in map(int, part.split(",")):
            if label >= len(sizes):
                raise UserError(f"label_groups names class {label}, the graph has {len(sizes)}")
            if client in homes[label]:
                raise UserError(f"label_groups names class {label} twice in one group")
            homes[label].append(client)
    missing = [label for label, own in enumerate(homes) if not own and sizes[label] > 0]
    if missing:
        raise UserError(f"label_groups leaves out class {', '.join(map(str, missing))}")
    return [np.array(own, np.int64) for own in homes]


def spread(items: int, clients: int, rng: Generator) -> Ints:
    """A uniformly random assignment of items to clients, even but for one item."""
    return rng.permutation(items) % clients


def packed(sizes: Ints, bins: int) -> Ints:
    """Bin of each item: from large to small, always into the bin with the least content."""
    filled = [(0, index) for index in range(bins)]
    chosen = np.empty(len(sizes), np.int64)
    for item in np.argsort(-sizes, kind="stable"):
        content, index = filled[0]
        chosen[item] = index
        heapq.heapreplace(filled, (content + int(sizes[item]), index))
    return chosen
