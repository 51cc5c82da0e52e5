"""What a federation is like, from one secure sum: it decides which recipes are worth racing.

Every client counts what it has; the server learns sums only. Labels are those of training and
validation nodes, test nodes are left alone. Homophily is the share h of edges between labeled nodes
whose ends have the same label, set against what chance would give with class shares p (Platonov et
al., "Characterizing graph datasets for node classification", 2023, without degrees)::

    adjusted = (h - Σ_c p_c²) / (1 - Σ_c p_c²)

Skew says how far clients' class shares p_i are from each other: the mean over clients of
Σ_c (p_ic - mean p_c)², which is 0 where all have the same mix, and at most 1.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.replies import Array, Form
from autofgl.runtime.summing import COUNT_UNIT

#: What ``sizes`` counts.
_SIZES = ("nodes", "links", "boundary", "train", "val", "filled", "odd", "same", "paired")
#: What ``clients`` counts: those that answer, and those without training nodes, with nodes of a
#: single class, with edges to others, willing to convolve across them.
_CLIENTS = ("clients", "unlabeled", "single_class", "connected", "willing")

FORMS: dict[str, Form] = {
    "sizes": Array((len(_SIZES),), -ROUNDING),
    "labels": Array((None,), -ROUNDING),
    "shares": Array((None,), -ROUNDING),
    "squares": Array((None,), -ROUNDING),
    "clients": Array((len(_CLIENTS),), -ROUNDING),
}


def look_at(graph: ClientGraph, willing: bool = False) -> dict[str, Any]:
    """What one client adds to the sum; whether it is ``willing`` to convolve across clients."""
    known = graph.train_mask | graph.val_mask
    labels = np.bincount(graph.y[graph.train_mask], minlength=graph.classes).astype(np.float64)
    source, target = graph.edge_index
    paired = known[source] & known[target] & (source != target)
    same = graph.y[source] == graph.y[target]
    filled, odd = _feature_shares(graph)
    nodes, halves = graph.num_nodes, 1 if graph.directed else 2
    sizes = [
        nodes, graph.num_links, len(graph.boundary), labels.sum(), graph.val_mask.sum(),
        filled * nodes, odd * nodes, (paired & same).sum() / halves, paired.sum() / halves,
    ]  # fmt: skip
    shares = labels / max(labels.sum(), 1.0)
    connected = len(graph.boundary) > 0
    clients = [1, not labels.any(), (labels > 0).sum() == 1, connected, willing]
    return {
        "sizes": np.array(sizes, np.float64) / COUNT_UNIT,
        "labels": labels / COUNT_UNIT,
        "shares": shares,
        "squares": shares**2,
        "clients": np.array(clients, np.float64),
    }


def _feature_shares(graph: ClientGraph) -> tuple[float, float]:
    """Shares of the features that are not 0, and that are neither 0 nor 1."""
    if not graph.num_nodes or not graph.num_features:
        return 0.0, 0.0
    values = graph.x.data if sp.issparse(graph.x) else np.asarray(graph.x)
    entries = graph.num_nodes * graph.num_features
    filled, ones = np.count_nonzero(values), np.count_nonzero(values == 1)
    return filled / entries, (filled - ones) / entries


@dataclass(frozen=True)
class Look:
    """What a federation is like.

    ``density`` is the share of features that are not 0, ``binary`` whether all others are 1;
    ``cross`` the share of edges between clients, ``across`` whether all are willing to convolve
    across them; ``labels_per_client`` training nodes, and ``class_shares`` the classes' shares of
    them.
    """

    clients: int
    nodes: int
    edges: int
    classes: int
    train: int
    val: int
    labels_per_client: float
    rarest_class: float
    homophily: float
    adjusted_homophily: float
    skew: float
    density: float
    binary: bool
    cross: float
    unlabeled: int
    single_class: int
    across: bool
    class_shares: list[float]

    @classmethod
    def of(cls, total: Mapping[str, Any]) -> "Look":
        """From the sum of what clients measure."""
        sizes = dict(zip(_SIZES, (total["sizes"] * COUNT_UNIT).tolist(), strict=True))
        clients = dict(zip(_CLIENTS, np.rint(total["clients"]).tolist(), strict=True))
        labels = np.maximum(np.asarray(total["labels"], np.float64) * COUNT_UNIT, 0.0)
        p = labels / max(labels.sum(), 1.0)
        labeled = max(clients["clients"] - clients["unlabeled"], 1.0)
        mean = np.asarray(total["shares"], np.float64) / labeled
        skew = float((np.asarray(total["squares"]) / labeled - mean**2).sum())
        homophily = sizes["same"] / max(sizes["paired"], 1.0)
        chance = float((p**2).sum())
        across, within = sizes["boundary"] / 2, sizes["links"]
        return cls(
            clients=int(clients["clients"]),
            nodes=round(sizes["nodes"]),
            edges=round(within + across),
            classes=len(labels),
            train=round(sizes["train"]),
            val=round(sizes["val"]),
            labels_per_client=round(sizes["train"] / labeled, 1),
            rarest_class=round(float(p[p > 0].min(initial=1.0)), 4),
            homophily=round(homophily, 3),
            adjusted_homophily=round((homophily - chance) / max(1 - chance, 1e-9), 3),
            skew=round(max(skew, 0.0), 3),
            density=round(sizes["filled"] / max(sizes["nodes"], 1.0), 4),
            binary=sizes["odd"] < 0.001 * max(sizes["filled"], 1e-9),
            cross=round(across / max(across + within, 1.0), 3),
            unlabeled=int(clients["unlabeled"]),
            single_class=int(clients["single_class"]),
            across=bool(clients["connected"] and clients["willing"] == clients["clients"]),
            class_shares=[round(float(one), 4) for one in p],
        )

    @property
    def homophilous(self) -> bool:
        """Whether neighbors tell a node's class; also where nobody can say."""
        return self.adjusted_homophily >= 0.3 or self.val + self.train == 0

    def to_json(self) -> dict[str, Any]:
        """For ``result.json``."""
        return asdict(self)
