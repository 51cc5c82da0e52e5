"""What the tables and figures of ASFGNN have in common: cuts, rows and their hyper-parameters."""

from collections.abc import Mapping
from typing import Any

from autofgl.reproduce.table import Column, Row

PAPER = "Zheng, Zhou, Chen, Wu, Wang, Zhang: ASFGNN, 2020"

#: Classes of client A | of client B, which give the sizes of the paper's Table 2.
GROUPS = {"cora": "0,1,2,4|3,5,6", "citeseer": "0,1,2|3,4,5", "pubmed": "0,1|0,2"}
LABELS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}

#: What `benchmarks/asfgnn_tuning.py --trials 10` found, on the cut of seed 0 with α = 1, by
#: validation accuracy, rounded; the defaults count where it was not run.
TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "sfgnn": {"cora": {"dropout": 0.5, "weight_decay": 0.0, "layers": 3, "lr": 0.002}},
    "separate": {"cora": {"dropout": 0.5, "weight_decay": 0.0005, "layers": 2, "lr": 0.0105}},
    "fedavg": {"cora": {"dropout": 0.5, "weight_decay": 0.0005, "layers": 2, "lr": 0.0105}},
    "centralized": {"cora": {"dropout": 0.5, "weight_decay": 0.0005, "layers": 2, "lr": 0.0105}},
}

#: The same network and the same choice of rounds everywhere.
NETWORK: dict[str, Any] = {"model": "sfgnn", "select": "accuracy"}

SPLIT = (
    "All networks are the same: GraphSAGE with the mean aggregator, embeddings of length 1, a "
    "discriminator of two layers, tanh, width 64. FL averages all of it by gradients (Eq. 2 of "
    "FL-AGCNS: one step for all clients), SP nothing, CM is trained on the uncut graph."
)
TUNING = (
    "Hyper-parameters on Cora (dropout, L2, K, learning rate, the same for both clients) were "
    "chosen for each method by the same search of 10 trials (`benchmarks/asfgnn_tuning.py`), by "
    "validation on the cut of seed 0. On the other datasets nothing is tuned: dropout 0.5, L2 "
    "5e-4, K = 2, learning rate 0.01. In each run the round with the best validation accuracy "
    "counts; test nodes are only reported on."
)
MEASURES = (
    "*Ours* is the share of right predictions over all clients' test nodes; *mean over clients* is "
    "the paper's figure, the mean of the clients' accuracies on their own test nodes. In both a "
    "client has to know its own classes only. *All classes* is the accuracy of every client's "
    "network on the test nodes of all clients, in the uncut graph."
)


def column(dataset: str, name: str = "", label: str = "", **changed: Any) -> Column:
    """Two clients of a dataset, by labels unless said otherwise."""
    settings = {"label_groups": GROUPS[dataset], **changed.pop("settings", {})}
    parts: dict[str, Any] = {"clients": 2, "partition": "labels", **changed}
    return Column(
        name or dataset,
        label or LABELS[dataset],
        f"planetoid:{dataset}",
        settings=settings,
        **parts,
    )


def row(name: str, label: str, method: str, **settings: Any) -> Row:
    """A method with the hyper-parameters that were found for it."""
    own = {**(NETWORK if method != "sfgnn" else {"collect_models": True}), **settings}
    return Row(name, label, method, "fixed", 3, {"rounds": 100, **own}, own=TUNED[method])


def tuned(method: str, dataset: str) -> Mapping[str, Any]:
    """The hyper-parameters that were found for a method on a dataset."""
    return TUNED[method].get(dataset, {})
