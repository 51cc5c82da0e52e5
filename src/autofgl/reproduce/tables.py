"""The tables that can be reproduced, as plain data.

The figures are copied from the papers' text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from autofgl.reproduce.asfgnn_tables import ASFGNN_TABLES
from autofgl.reproduce.ga_tables import GA_TABLES
from autofgl.reproduce.table import Column, Published, Row, Table

_PAPER = "Wang, Chen, Li, Wang: FL-AGCNS, 2021"

_CHOICE = (
    "Rounds, architectures and finalists are chosen on validation nodes; test nodes are only "
    "reported on."
)
_TRAINING = (
    "The paper does not state its regularisation. Here every network is trained with Adam 0.01, "
    "weight decay 5e-4 and dropout 0.5 until the validation loss has not fallen for 100 rounds, at "
    "most for 600, and the round with the lowest loss is kept."
)
_SGC = "SGC has no hidden layer and is trained with Adam 0.2 and weight decay 1e-4."
_TIME = (
    "The paper gives all searches the same running time but does not say how long. Here each has "
    "the budget, and the training of what it found comes after it; a search that has made all "
    "its generations or candidates ends before."
)


def _search(
    name: str,
    label: str,
    method: str = "fl-agcns",
    *,
    seeds: int = 3,
    partition: str | None = None,
    **settings: Any,
) -> Row:
    return Row(name, label, method, "search", seeds, settings, partition)


def _fixed(label: str, *, seeds: int = 5, **settings: Any) -> Row:
    name = label.lower()
    own = {"model": name, "aggregate": "gradients", "rounds": 600, "patience": 100, **settings}
    return Row(name, label, "fedavg", "fixed", seeds, own)


def _published(
    columns: Sequence[Column], rows: Mapping[str, Sequence[tuple[float, float]]]
) -> dict[tuple[str, str], Published]:
    """Figures by row and column; each row of ``rows`` is in the order of the columns."""
    return {
        (row, column.name): Published(*figures)
        for row, line in rows.items()
        for column, figures in zip(columns, line, strict=True)
    }


_CITATIONS = (
    Column("cora", "Cora", "planetoid:cora"),
    Column("citeseer", "CiteSeer", "planetoid:citeseer"),
    Column("pubmed", "PubMed", "planetoid:pubmed"),
)
_CORA = _CITATIONS[:1]
#: Generations that leave time for the trials in a budget of minutes.
_SHORT: dict[str, Any] = {"generations": 30, "warmup": 18}
_PHYSICS = (Column("physics", "Physics", "coauthor:physics", clients=8),)

_TABLE_3 = Table(
    name="fl-agcns-table3",
    title="Searches and fixed networks under federation",
    source=f"{_PAPER}, Table 3",
    columns=_CITATIONS,
    rows=(
        _search("fl-agcns", "FL-AGCNS", **_SHORT),
        _search("fl-gradient", "FL-Gradient", "fl-darts"),
        _search("fl-rl", "FL-RL", "fl-rl", candidates=80),
        _search("fl-random", "FL-Random", "fl-random"),
        _fixed("GAT"),
        _fixed("SAGE"),
        _fixed("GCN"),
        _fixed("SGC", lr=0.2, weight_decay=1e-4),
        _fixed("APPNP"),
        _fixed("AGNN"),
        _fixed("ARMA"),
        _fixed("GatedGraph"),
    ),
    paper=_published(
        _CITATIONS,
        {
            "fl-agcns": ((82.9, 0.105), (70.6, 0.250), (78.4, 0.036)),
            "fl-gradient": ((65.4, 0.045), (37.0, 0.300), (77.9, 0.099)),
            "fl-rl": ((75.6, 0.101), (70.2, 0.242), (68.6, 0.032)),
            "fl-random": ((79.8, 0.113), (47.4, 0.296), (64.3, 0.066)),
            "gat": ((79.0, 0.092), (68.0, 0.238), (77.5, 0.032)),
            "sage": ((78.8, 0.184), (66.6, 0.475), (75.2, 0.064)),
            "gcn": ((81.3, 0.102), (68.6, 0.260), (77.3, 0.034)),
            "sgc": ((78.1, 0.010), (67.0, 0.022), (76.3, 0.002)),
            "appnp": ((82.2, 0.092), (69.5, 0.237), (77.5, 0.032)),
            "agnn": ((81.2, 0.023), (68.7, 0.059), (78.1, 0.008)),
            "arma": ((75.2, 0.092), (63.8, 0.237), (76.8, 0.032)),
            "gatedgraph": ((76.6, 0.130), (63.5, 0.275), (77.3, 0.070)),
        },
    ),
    notes=(_CHOICE, _TIME, _TRAINING, _SGC),
)

_TABLE_5 = Table(
    name="fl-agcns-table5",
    title="Who evolves, and how the graph is cut",
    source=f"{_PAPER}, Table 5",
    columns=_CORA,
    rows=(
        _search("full", "FL-AGCNS", **_SHORT),
        _search("controller", "ControllerEO", optimisers="controller", **_SHORT),
        _search("clients", "ClientEO", optimisers="clients", **_SHORT),
        _search("random-partition", "RandomPartition", partition="random", **_SHORT),
    ),
    paper=_published(
        _CORA,
        {
            "full": ((82.9, 0.105),),
            "controller": ((71.6, 0.117),),
            "clients": ((78.6, 0.105),),
            "random-partition": ((52.6, 0.143),),
        },
    ),
    notes=(
        _CHOICE,
        _TIME,
        _TRAINING,
        "The paper swaps γ of ControllerEO and ClientEO; here each does what its name says.",
    ),
)

_PHYSICS_TABLE = Table(
    name="fl-agcns-physics",
    title="A co-author graph with eight clients",
    source=f"{_PAPER}, Table 4",
    columns=_PHYSICS,
    rows=(_search("fl-agcns", "FL-AGCNS", seeds=1, **_SHORT), _fixed("GCN", seeds=1)),
    paper=_published(_PHYSICS, {"fl-agcns": ((77.1, 0.547),), "gcn": ((76.5, 0.581),)}),
    notes=(
        _CHOICE,
        _TIME,
        _TRAINING,
        "The graph has no public split: 20 training nodes per class, 500 validation and 1,000 "
        "test nodes are drawn by the seed.",
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _TABLE_3,
        _TABLE_5,
        _PHYSICS_TABLE,
        *ASFGNN_TABLES,
        *GA_TABLES,
    )
}
