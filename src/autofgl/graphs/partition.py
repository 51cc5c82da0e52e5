"""Cut one graph into clients by a named partitioner.

Each partitioner is a pure function ``(graph, clients, rng, settings) -> owner`` with the index of
every node's client, ``[n]``; the overlapping ones return who has what, ``[clients, n]``. Graphs
have at least as many nodes as there are clients.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from autofgl.errors import UserError, unknown_name
from autofgl.graphs.catalog import CLIENT_SPLITS, PARTITIONERS, PartitionSettings
from autofgl.graphs.client_graph import Bools, ClientGraph, Ints
from autofgl.graphs.cut import cut, cut_overlapping, labels_of
from autofgl.graphs.datasets import split_clients
from autofgl.graphs.label_skew import by_labels, by_labels_to_the_letter, packed, spread
from autofgl.graphs.objects import GraphLike, as_graph
from autofgl.seeding import numpy_generator


def partition(
    graph: GraphLike,
    clients: int,
    method: str = "metis",
    seed: int = 0,
    settings: PartitionSettings | None = None,
    *,
    directed: bool = False,
    split: str | None = None,
) -> list[ClientGraph]:
    """Cut a whole graph into client graphs with boundaries.

    ``graph`` is whatever :func:`autofgl.as_graph` takes; ``seed`` and ``directed`` are handed on.
    ``method`` is a name in :data:`autofgl.graphs.catalog.PARTITIONERS`. The same arguments give the
    same clients, named ``client-0``, ``client-1``, … (``client-00`` with more than ten). Skewed
    partitioners may leave a client empty. ``split="openfgl"`` draws masks in each client after the
    cut: 20/40/40 % of each class.

    Raises:
        UserError: The name is unknown, or the number of clients does not fit.
        GraphError: The graph is malformed.
    """
    if method not in PARTITIONERS:
        raise unknown_name("partition", method, PARTITIONERS)
    if clients < 1:
        raise UserError(f"a federation needs at least 1 client, not {clients}")
    graph = as_graph(graph, seed=seed, directed=directed)
    if clients > graph.num_nodes:
        raise UserError(
            f"{graph.name} has {graph.num_nodes} nodes and cannot be cut into {clients} clients: "
            "use fewer clients"
        )
    parts = _parts(graph, clients, method, seed, settings or PartitionSettings(), split)
    if settings is not None and settings.whole_graph:
        return [labels_of(graph, part) for part in parts]
    return parts


def _parts(
    graph: ClientGraph,
    clients: int,
    method: str,
    seed: int,
    settings: PartitionSettings,
    split: str | None,
) -> list[ClientGraph]:
    """The client graphs, cut and split."""
    rng = numpy_generator(seed, "partition", method)
    assigned = _ASSIGN[method](graph, clients, rng, settings)
    width = len(str(clients - 1))  # names sort like numbers
    names = [f"client-{index:0{width}d}" for index in range(clients)]
    if split in CLIENT_SPLITS:
        if PARTITIONERS[method].overlapping:
            raise UserError(
                f"split={split} draws in each client, where partition '{method}' gives nodes to "
                "several: one would train on what another tests on"
            )
        return split_clients(cut(graph, assigned.astype(np.int64), names), seed)
    if PARTITIONERS[method].overlapping:
        return cut_overlapping(graph, assigned.astype(np.bool_), names, rng)
    return cut(graph, assigned.astype(np.int64), names)


def _metis(graph: ClientGraph, clients: int, rng: Generator, _: PartitionSettings) -> Ints:
    """METIS: parts of nearly equal size with few edges between them.

    On tiny graphs METIS may leave a part empty; such a part takes a node from the largest one.
    """
    import pymetis

    if clients == 1:
        return np.zeros(graph.num_nodes, np.int64)
    adjacency = _adjacency(graph)
    index = pymetis.zero_copy_dtype()
    seed = int(rng.integers(2**31 - 1))
    rows = pymetis.CSRAdjacency(adjacency.indptr.astype(index), adjacency.indices.astype(index))
    parts = pymetis.part_graph(clients, rows, options=pymetis.Options(seed=seed))[1]
    return _nobody_empty(np.array(parts, np.int64), clients)


def _louvain(graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings) -> Ints:
    """Louvain communities, packed into clients of nearly equal size.

    A community larger than a fair share (nodes / clients, rounded up) is split into equal pieces
    along a breadth-first (Cuthill–McKee) order, which keeps neighbors together. While there are
    fewer pieces than clients, the largest piece is halved. Then, from large to small, each piece
    goes to the client with the fewest nodes.
    """
    adjacency = sp.csr_matrix(_adjacency(graph))
    community = _communities(adjacency, rng, settings)
    order = sp.csgraph.reverse_cuthill_mckee(adjacency, symmetric_mode=True)
    order = order[np.argsort(community[order], kind="stable")]
    pieces = _pieces(np.bincount(community), clients)
    owner = np.empty(graph.num_nodes, np.int64)
    owner[order] = np.repeat(packed(pieces, clients), pieces)
    return owner


#: How many nodes OpenFGL's cut may miss the fair share by.
_DELTA = 20


def _louvain_openfgl(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> Ints:
    """Louvain as OpenFGL packs communities, from what it does and not from its code.

    Communities larger than nodes / clients − 20 are cut off there, whatever is next to what. From
    large to small, groups go to the clients in turn: one that has its share is full, one that the
    group would take more than 20 beyond it is passed over. Where OpenFGL would look on forever, the
    client with the fewest nodes takes the group.
    """
    fair, delta = graph.num_nodes // clients, min(_DELTA, graph.num_nodes // (2 * clients))
    groups: list[Ints] = []
    community = _communities(sp.csr_matrix(_adjacency(graph)), rng, settings)
    for one in range(int(community.max(initial=0)) + 1):
        nodes = np.flatnonzero(community == one)
        cap = max(fair - delta, 1)
        groups += [nodes[start : start + cap] for start in range(0, len(nodes), cap)]
    owner = np.empty(graph.num_nodes, np.int64)
    sizes, turn = np.zeros(clients, np.int64), 0
    for group in sorted(groups, key=len, reverse=True):
        order = (turn + np.arange(clients)) % clients
        room = (sizes[order] < fair) & (sizes[order] + len(group) < fair + delta)
        turn = int(order[np.argmax(room)] if room.any() else np.argmin(sizes))
        owner[group] = turn
        sizes[turn] += len(group)
    return _nobody_empty(owner, clients)


def _communities(adjacency: sp.csr_matrix, rng: Generator, settings: PartitionSettings) -> Ints:
    """Louvain's community of each node."""
    from sknetwork.clustering import Louvain

    seed, resolution = int(rng.integers(2**31 - 1)), settings.louvain_resolution
    if not adjacency.nnz:  # without edges each node is its own
        return np.arange(adjacency.shape[0])
    outputs = {"return_probs": False, "return_aggregate": False}
    louvain = Louvain(resolution=resolution, shuffle_nodes=True, random_state=seed, **outputs)
    return np.asarray(louvain.fit_predict(adjacency), np.int64)


def _nobody_empty(owner: Ints, clients: int) -> Ints:
    """Each client without a node takes one from the largest."""
    sizes = np.bincount(owner, minlength=clients)
    for client in np.flatnonzero(sizes == 0):
        donor = int(np.argmax(sizes))
        owner[np.flatnonzero(owner == donor)[-1]] = client
        sizes[donor] -= 1
        sizes[client] += 1
    return owner


def _dirichlet(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> Ints:
    """Label skew: the shares of each class over the clients are drawn from Dirichlet(β).

    Nodes without a label are spread evenly. A client may stay empty when β is small.
    """
    owner = spread(graph.num_nodes, clients, rng)
    for label in np.unique(graph.y[graph.y >= 0]):
        nodes = rng.permutation(np.flatnonzero(graph.y == label))
        shares = rng.dirichlet(np.full(clients, settings.dirichlet_beta))
        bounds = np.cumsum(shares)[:-1] * len(nodes)
        owner[nodes] = np.searchsorted(bounds, np.arange(len(nodes)) + 0.5)
    return owner


def _degree(graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings) -> Ints:
    """Degree skew: the first client has the nodes with the fewest neighbors.

    Two clients are split at ``degree_threshold``: up to it, and above. Otherwise, or without a
    threshold, the clients are quantiles of equal size, with ties broken at random.
    """
    threshold = settings.degree_threshold
    if clients == 2 and threshold is not None:
        return (graph.degree > threshold).astype(np.int64)
    owner = np.empty(graph.num_nodes, np.int64)
    order = np.lexsort((rng.random(graph.num_nodes), graph.degree))
    owner[order] = np.arange(graph.num_nodes) * clients // graph.num_nodes
    return owner


def _labels_and_degree(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> Bools:
    """ASFGNN's skew of labels and graph (section 5.2.2): the nodes on which both cuts agree.

    A client has those nodes that ``labels`` and ``degree`` both give to it, so that with two
    clients and α = 1 the first has nodes of the first group of classes with few neighbors, the
    second nodes of the second group with many. All other nodes belong to nobody.
    """
    by_label = by_labels(graph, clients, rng, settings)
    by_degree = _degree(graph, clients, rng, settings)
    owner = np.where((by_label == by_degree) & (graph.y >= 0), by_label, -1)
    return np.asarray(owner == np.arange(clients)[:, None])


def _overlap(
    graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings
) -> Bools:
    """FedGraph's setting: client i draws a share ξ_i of all nodes, and clients overlap.

    ξ ~ Normal(mean, spread), clipped to (0, 1]: at least one node, at most all.
    """
    nodes = graph.num_nodes
    shares = rng.normal(settings.overlap_mean, settings.overlap_spread, clients)
    sizes = np.clip(np.rint(shares * nodes), 1, nodes).astype(np.int64)
    member = np.zeros((clients, nodes), np.bool_)
    for row, size in zip(member, sizes, strict=True):
        row[rng.choice(nodes, size, replace=False, shuffle=False)] = True
    return member


def _shared(graph: ClientGraph, clients: int, rng: Generator, settings: PartitionSettings) -> Bools:
    """Equal random parts, to each of which other clients' nodes are added.

    Of a client's nodes the share ``shared_nodes`` are such copies, drawn uniformly: the "20 % node
    overlapping" of Rezaei et al., 2024, which does not say who shares what with whom.
    """
    share = settings.shared_nodes
    owner = spread(graph.num_nodes, clients, rng)
    member: Bools = owner == np.arange(clients)[:, None]
    for row in member:
        others = np.flatnonzero(~row)
        extra = min(round(share / (1 - share) * int(row.sum())), len(others))
        row[rng.choice(others, extra, replace=False, shuffle=False)] = True
    return member


_Assign: TypeAlias = Callable[[ClientGraph, int, Generator, PartitionSettings], Ints | Bools]
_ASSIGN: dict[str, _Assign] = {
    "metis": _metis,
    "louvain": _louvain,
    "louvain-openfgl": _louvain_openfgl,
    "random": lambda graph, clients, rng, _: spread(graph.num_nodes, clients, rng),
    "dirichlet": _dirichlet,
    "labels": by_labels,
    "labels-asfgnn": by_labels_to_the_letter,
    "degree": _degree,
    "labels-degree": _labels_and_degree,
    "overlap": _overlap,
    "shared": _shared,
}


def _adjacency(graph: ClientGraph) -> sp.csr_array:
    """Symmetric 0/1 adjacency without self loops: METIS may crash on anything else."""
    real = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    ends = tuple(np.concatenate([real, real[::-1]], axis=1))
    matrix = sp.csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(graph.num_nodes,) * 2)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def _pieces(communities: Ints, clients: int) -> Ints:
    """Sizes of the pieces that the communities, in their order, are split into."""
    fair = -(-int(communities.sum()) // clients)
    pieces = []
    for whole in communities.tolist():
        parts = -(-whole // fair)
        pieces += [(whole + part) // parts for part in range(parts)]
    while len(pieces) < clients:
        largest = pieces.index(max(pieces))
        half = pieces[largest] // 2
        pieces[largest : largest + 1] = [half, pieces[largest] - half]
    return np.array(pieces, np.int64)
