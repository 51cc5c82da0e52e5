"""What may be named on the command line: datasets, kinds of split, partitioners, their settings.

Nothing here needs NumPy or torch, so that a mistake is answered at once. What the names do is in
:mod:`autofgl.graphs.datasets` and :mod:`autofgl.graphs.partition`.
"""

from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)

from autofgl import plugins
from autofgl.errors import UserError, unknown_name

#: Kinds of split, see :func:`autofgl.graphs.datasets.split_nodes`.
SPLITS = ("public", "per-class", "fraction", "supervised", "openfgl")
#: Those that are drawn in each client, after the cut.
CLIENT_SPLITS = ("openfgl",)


Whole: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Rest: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
NonNegative: TypeAlias = Annotated[float, Field(ge=0)]

#: The text below a setting is its description.
CONFIG = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class SyntheticSettings(BaseModel):
    """The knobs of a synthetic graph. A bad value is a :class:`UserError` naming its knob."""

    model_config = CONFIG

    nodes: int = Field(default=2000, ge=2, le=2**31)
    """synthetic: number of nodes"""
    classes: int = Field(default=5, ge=2)
    """synthetic: number of classes, equally large unless 'minority' says otherwise"""
    minority: float = Field(default=0.0, ge=0, lt=1)
    """synthetic: share of the nodes that are of the last class, as in 0.03; 0: as many as of any
    other"""
    features: int = Field(default=500, ge=2)
    """synthetic: size of the vocabulary"""
    degree: NonNegative = 10.0
    """synthetic: average number of neighbors"""
    homophily: Share = 0.8
    """synthetic: share of edges within a class"""
    degree_power: float = Field(default=2.5, gt=2)
    """synthetic: exponent of the degrees' power law; larger is more even"""
    words_per_node: Positive = 20.0
    """synthetic: average number of words of a node"""
    topic_strength: Share = 0.2
    """synthetic: share of words from the topic of the node's class"""
    label_noise: Share = 0.0
    """synthetic: share of labels that are wrong"""

    @model_validator(mode="wrap")
    @classmethod
    def _one_sentence(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            first = error.errors()[0]
            key = str(first["loc"][0]) if first["loc"] else "settings"
            if first["type"] == "extra_forbidden":
                raise unknown_name("setting", key, cls.model_fields) from None
            reason = first["msg"].removeprefix("Input ")
            raise UserError(f"setting {key}={first['input']!r}: it {reason}") from None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.classes > min(self.nodes, self.features):
            raise UserError(
                f"setting classes={self.classes}: it should not exceed nodes={self.nodes} or "
                f"features={self.features}"
            )
        if self.degree > self.nodes - 1:
            raise UserError(f"setting degree={self.degree}: it should be below nodes={self.nodes}")
        return self


class DataSettings(SyntheticSettings):
    """All settings of the data: of its edges, of the split, and the knobs of ``synthetic``."""

    split: str | None = None
    """kind of split (public, per-class, fraction, supervised); else the dataset's own; openfgl:
    20/40/40 % of each class in each client, drawn after the cut"""
    train_per_class: int = Field(default=20, ge=1)
    """per-class split: training nodes per class"""
    val_nodes: Whole = 500
    """per-class split: validation nodes"""
    test_nodes: Whole = 1000
    """per-class split: test nodes"""
    train_fraction: float | None = Field(default=None, gt=0, le=1)
    """split by fraction: share that trains; else all that is left"""
    val_fraction: Rest = 0.2
    """split by fraction: share for validation"""
    test_fraction: Rest = 0.2
    """split by fraction: share for testing"""
    directed: bool = False
    """graph files and objects: keep edges in their direction instead of making them undirected"""
    whole_graph_hops: int = Field(
        default=0,
        ge=0,
        description="not private, to compare with GraphFL's public code: average the features over "
        "this many hops of the whole graph before it is cut",
    )

    @field_validator("split")
    @classmethod
    def _check_split(cls, kind: str | None) -> str | None:
        if kind is not None and kind not in SPLITS:
            raise unknown_name("split", kind, SPLITS)
        return kind


class PartitionSettings(BaseModel):
    """Settings of the partitioners; each reads only its own."""

    model_config = CONFIG

    louvain_resolution: Positive = 1.0
    """louvain: larger values give more and smaller communities"""
    dirichlet_beta: Positive = 0.5
    """dirichlet: concentration; the smaller, the more skewed the labels"""
    label_alpha: Share = 1.0
    """labels: share of its own classes that a client takes"""
    label_groups: str | None = Field(default=None, pattern=r"^\d+(,\d+)*(\|\d+(,\d+)*)*$")
    """labels: classes of each client, such as 0,1,2,4|3,5,6; else balanced"""
    degree_threshold: int | None = Field(default=3, ge=0)
    """degree: the first of two clients goes up to it; null: halves"""
    overlap_mean: float = Field(default=0.8, gt=0, le=1)
    """overlap: mean share of all nodes that a client draws"""
    overlap_spread: NonNegative = 0.0
    """overlap: standard deviation of that share between clients"""
    shared_nodes: Rest = 0.2
    """shared: share of a client's nodes that another client has too"""
    whole_graph: bool = Field(
        default=False,
        description="not private, to compare with code that does so: every client has the nodes, "
        "features and edges of the whole graph, and the labels of its own nodes only",
    )


class Dataset(NamedTuple):
    """What the name of a dataset stands for."""

    description: str  # one line
    size: str  # nodes, undirected edges, features and classes, in words
    split: str  # kind of split unless the user names one


DATASETS: dict[str, Dataset] = {
    "cora": Dataset(
        "citations between machine-learning papers; embedded, works offline",
        "2,708 nodes, 5,278 edges, 1,433 features, 7 classes",
        "per-class",
    ),
    "synthetic": Dataset(
        "random graph with bag-of-words features, of any size (--set nodes=…)",
        "2,000 nodes, about 10,000 edges, 500 features, 5 classes by default",
        "fraction",
    ),
    "reddit-like": Dataset(
        "random graph as 'synthetic', of Reddit's size; not Reddit (--set nodes=… for less)",
        "230,000 nodes, about 5.7 million edges, 600 features, 41 classes",
        "fraction",
    ),
    "planetoid:cora": Dataset(
        "Cora with Planetoid's public split",
        "2,708 nodes, 5,278 edges, 1,433 features, 7 classes",
        "public",
    ),
    "planetoid:citeseer": Dataset(
        "CiteSeer with Planetoid's public split; 15 nodes are isolated and unlabeled",
        "3,327 nodes, 4,552 edges, 3,703 features, 6 classes",
        "public",
    ),
    "planetoid:pubmed": Dataset(
        "PubMed's diabetes papers with Planetoid's public split",
        "19,717 nodes, 44,324 edges, 500 features, 3 classes",
        "public",
    ),
    "coauthor:cs": Dataset(
        "co-authors in computer science",
        "18,333 nodes, 81,894 edges, 6,805 features, 15 classes",
        "per-class",
    ),
    "coauthor:physics": Dataset(
        "co-authors in physics",
        "34,493 nodes, 247,962 edges, 8,415 features, 5 classes",
        "per-class",
    ),
    "amazon:photo": Dataset(
        "cameras and the like that are bought together",
        "7,650 nodes, 119,081 edges, 745 features, 8 classes",
        "per-class",
    ),
    "amazon:computers": Dataset(
        "computers and the like that are bought together",
        "13,752 nodes, 245,861 edges, 767 features, 10 classes",
        "per-class",
    ),
    "dblp": Dataset(
        "citations between papers of four research areas",
        "17,716 nodes, 52,867 edges, 1,639 features, 4 classes",
        "per-class",
    ),
    "roman-empire": Dataset(
        "words of an article by their syntax; neighbors are seldom of a class",
        "22,662 nodes, 32,927 edges, 300 features, 18 classes",
        "public",
    ),
    "amazon-ratings": Dataset(
        "products that are bought together, by their rating",
        "24,492 nodes, 93,050 edges, 300 features, 5 classes",
        "public",
    ),
    "minesweeper": Dataset(
        "a grid with mines, and how many are near",
        "10,000 nodes, 39,402 edges, 7 features, 2 classes",
        "public",
    ),
    "tolokers": Dataset(
        "workers of a platform, by who was banned",
        "11,758 nodes, 519,000 edges, 10 features, 2 classes",
        "public",
    ),
    "questions": Dataset(
        "users of a site that answer each other, by who stayed",
        "48,921 nodes, 153,540 edges, 301 features, 2 classes",
        "public",
    ),
    "ogbn-arxiv": Dataset(
        "citations between papers of computer science, split by year",
        "169,343 nodes, 1,157,799 edges, 128 features, 40 classes",
        "public",
    ),
    "corafull": Dataset(
        "citations between papers of 70 research areas, all of Cora",
        "19,793 nodes, 63,421 edges, 8,710 features, 70 classes",
        "per-class",
    ),
    "reddit": Dataset(
        "posts linked by common commenters, split by time; needs about 9 GB of memory",
        "232,965 nodes, 57,307,946 edges, 602 features, 41 classes",
        "public",
    ),
}


#: Datasets that are drawn, and the knobs that they have unless a run sets others.
DRAWN: dict[str, dict[str, Any]] = {
    "synthetic": {},
    "reddit-like": {
        "nodes": 230_000,
        "classes": 41,
        "features": 600,
        "degree": 50.0,
        "homophily": 0.6,
        "words_per_node": 30.0,
        "topic_strength": 0.1,
        "label_noise": 0.05,
    },
}


def check_dataset(name: str) -> None:
    """Refuse the name of a dataset that nobody has; one of a plug-in is not loaded yet."""
    if name in DATASETS:
        return
    if name.rpartition(":")[0].endswith(".py"):
        plugins.check_file("dataset", name)
    elif name not in (known := plugins.entry_points("dataset")):
        plugins.check_named("dataset", name)
        raise unknown_name("dataset", name, [*DATASETS, *known])


class Partitioner(NamedTuple):
    """What the name of a partitioner stands for."""

    description: str  # one line
    overlapping: bool = False  # whether nodes may be at several clients, or at none


PARTITIONERS: dict[str, Partitioner] = {
    "metis": Partitioner("equal sizes, few edges between clients (METIS)"),
    "louvain": Partitioner("communities packed into clients of nearly equal size (Louvain)"),
    "louvain-openfgl": Partitioner("Louvain as OpenFGL cuts: groups capped, packed in turn"),
    "random": Partitioner("equal sizes, nodes drawn uniformly"),
    "dirichlet": Partitioner(
        "label skew, shares of each class drawn from Dirichlet(dirichlet_beta)"
    ),
    "labels": Partitioner("label skew, a group of classes per client (ASFGNN)"),
    "labels-asfgnn": Partitioner(
        "label skew by the letter of ASFGNN: clients keep their sizes",
        overlapping=True,
    ),
    "degree": Partitioner("degree skew, from nodes with few neighbors to nodes with many (ASFGNN)"),
    "labels-degree": Partitioner(
        "skew of labels and degrees, nodes where both agree; the rest left out (ASFGNN)",
        overlapping=True,
    ),
    "overlap": Partitioner(
        "each client draws a share of all nodes, clients overlap (FedGraph)", overlapping=True
    ),
    "shared": Partitioner(
        "as random, and some nodes are with another client too (GraphFL)", overlapping=True
    ),
}
