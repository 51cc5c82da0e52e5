"""Cut one graph into clients by a named partitioner, and say what came out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from autofgl.errors import UserError, unknown_name
from autofgl.graphs import partitioners
from autofgl.graphs.client_graph import Bools, ClientGraph, Ints
from autofgl.graphs.cut import cut, cut_overlapping
from autofgl.graphs.validation import validate_graph
from autofgl.seeding import numpy_generator


class PartitionSettings(BaseModel):
    """Settings of the partitioners; each reads only its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    louvain_resolution: float = Field(
        default=1.0, gt=0, description="louvain: larger values give more and smaller communities"
    )
    dirichlet_beta: float = Field(
        default=0.5,
        gt=0,
        description="dirichlet: concentration; the smaller, the more skewed the labels",
    )
    label_alpha: float = Field(
        default=1.0, ge=0, le=1, description="labels: share of its own classes that a client takes"
    )
    label_groups: str | None = Field(
        default=None,
        pattern=r"^\d+(,\d+)*(\|\d+(,\d+)*)*$",
        description="labels: classes of each client, such as 0,1,2,4|3,5,6; else balanced",
    )
    degree_threshold: int | None = Field(
        default=3,
        ge=0,
        description="degree: the first of two clients goes up to it; null: halves",
    )
    overlap_mean: float = Field(
        default=0.8, gt=0, le=1, description="overlap: mean share of all nodes that a client draws"
    )
    overlap_spread: float = Field(
        default=0.0, ge=0, description="overlap: standard deviation of that share between clients"
    )
    shared_nodes: float = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="shared: share of a client's nodes that another client has too",
    )


Assign: TypeAlias = Callable[
    [ClientGraph, int, np.random.Generator, PartitionSettings], Ints | Bools
]


@dataclass(frozen=True)
class Partitioner:
    """An entry of the table: what it does, and the function.

    Attributes:
        description: One line for a list of choices.
        assign: Gives the owner of each node ``[n]``, or who holds what ``[clients, n]``.
        overlapping: Whether ``assign`` gives the latter.
    """

    description: str
    assign: Assign
    overlapping: bool = False


PARTITIONERS: dict[str, Partitioner] = {
    "metis": Partitioner(
        "equal sizes, few edges between clients (METIS)",
        lambda graph, clients, rng, _: partitioners.metis(graph, clients, rng),
    ),
    "louvain": Partitioner(
        "communities packed into clients of nearly equal size (Louvain)",
        lambda graph, clients, rng, settings: partitioners.louvain(
            graph, clients, rng, resolution=settings.louvain_resolution
        ),
    ),
    "random": Partitioner(
        "equal sizes, nodes drawn uniformly",
        lambda graph, clients, rng, _: partitioners.random(graph, clients, rng),
    ),
    "dirichlet": Partitioner(
        "label skew, shares of each class drawn from Dirichlet(dirichlet_beta)",
        lambda graph, clients, rng, settings: partitioners.dirichlet(
            graph, clients, rng, beta=settings.dirichlet_beta
        ),
    ),
    "labels": Partitioner(
        "label skew, a group of classes per client (ASFGNN)",
        lambda graph, clients, rng, settings: partitioners.labels(
            graph, clients, rng, alpha=settings.label_alpha, groups=settings.label_groups
        ),
    ),
    "degree": Partitioner(
        "degree skew, from nodes with few neighbours to nodes with many (ASFGNN)",
        lambda graph, clients, rng, settings: partitioners.degree(
            graph, clients, rng, threshold=settings.degree_threshold
        ),
    ),
    "labels-degree": Partitioner(
        "skew of labels and degrees, nodes where both agree; the rest left out (ASFGNN)",
        lambda graph, clients, rng, settings: partitioners.labels_and_degree(
            graph,
            clients,
            rng,
            alpha=settings.label_alpha,
            groups=settings.label_groups,
            threshold=settings.degree_threshold,
        ),
        overlapping=True,
    ),
    "overlap": Partitioner(
        "each client draws a share of all nodes, clients overlap (FedGraph)",
        lambda graph, clients, rng, settings: partitioners.overlap(
            graph, clients, rng, mean=settings.overlap_mean, spread=settings.overlap_spread
        ),
        overlapping=True,
    ),
    "shared": Partitioner(
        "as random, and some nodes are with another client too (GraphFL)",
        lambda graph, clients, rng, settings: partitioners.shared(
            graph, clients, rng, share=settings.shared_nodes
        ),
        overlapping=True,
    ),
}


def partition(
    graph: ClientGraph,
    clients: int,
    method: str = "metis",
    seed: int = 0,
    settings: PartitionSettings | None = None,
) -> list[ClientGraph]:
    """Cut a whole graph into client graphs with boundaries.

    The same arguments give the same clients. Skewed partitioners may leave a client empty.

    Args:
        graph: The graph to cut.
        clients: Number of clients.
        method: A name in :data:`PARTITIONERS`.
        seed: Root seed.
        settings: What the partitioners read.

    Returns:
        Clients named ``client-0``, ``client-1``, … (``client-00`` with more than ten).

    Raises:
        UserError: The name is unknown, or the number of clients does not fit.
        GraphError: The graph is malformed.
    """
    if method not in PARTITIONERS:
        raise unknown_name("partition", method, PARTITIONERS)
    if clients < 1:
        raise UserError(f"a federation needs at least 1 client, not {clients}")
    if clients > graph.num_nodes:
        raise UserError(
            f"{graph.name} has {graph.num_nodes} nodes and cannot be cut into {clients} clients: "
            "use fewer clients"
        )
    validate_graph(graph)
    chosen = PARTITIONERS[method]
    rng = numpy_generator(seed, "partition", method)
    assigned = chosen.assign(graph, clients, rng, settings or PartitionSettings())
    names = client_names(clients)
    if chosen.overlapping:
        return cut_overlapping(graph, assigned.astype(np.bool_), names, rng)
    return cut(graph, assigned.astype(np.int64), names)


def client_names(clients: int) -> list[str]:
    """Names that sort like numbers."""
    width = len(str(clients - 1))
    return [f"client-{index:0{width}d}" for index in range(clients)]


@dataclass(frozen=True)
class ClientSummary:
    """Sizes of one client graph; edges are undirected.

    Attributes:
        name: Name of the client.
        nodes: Own nodes.
        edges: Internal edges.
        cut_edges: Edges to nodes of other clients.
        train, val, test: Nodes in each mask.
        labels: Nodes of each class.
        unlabelled: Nodes without a label.
    """

    name: str
    nodes: int
    edges: int
    cut_edges: int
    train: int
    val: int
    test: int
    labels: list[int]
    unlabelled: int


@dataclass(frozen=True)
class PartitionSummary:
    """What a partition looks like.

    Attributes:
        clients: One summary per client.
        cut_share: Share of all edges that run between clients.
    """

    clients: list[ClientSummary]
    cut_share: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def describe(clients: Sequence[ClientGraph]) -> PartitionSummary:
    """Sizes, label counts and cut of a set of clients."""
    summaries = [_summary(client) for client in clients]
    crossing = sum(client.cut_edges for client in summaries) / 2  # both sides list an edge
    total = crossing + sum(client.edges for client in summaries)
    return PartitionSummary(summaries, crossing / total if total else 0.0)


def _summary(client: ClientGraph) -> ClientSummary:
    source, target = client.edge_index
    loops = int(np.count_nonzero(source == target))
    known = client.y[client.y >= 0]
    return ClientSummary(
        name=client.name,
        nodes=client.num_nodes,
        edges=(client.num_edges - loops) // 2 + loops,
        cut_edges=len(client.boundary),
        train=int(client.train_mask.sum()),
        val=int(client.val_mask.sum()),
        test=int(client.test_mask.sum()),
        labels=np.bincount(known, minlength=client.classes).tolist(),
        unlabelled=client.num_nodes - len(known),
    )
