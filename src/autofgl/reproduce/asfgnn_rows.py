"""What the tables and figures of ASFGNN have in common: cuts, rows and their hyper-parameters."""

from typing import Any

from autofgl.reproduce.table import Column, Row

PAPER = "Zheng, Zhou, Chen, Wu, Wang, Zhang: ASFGNN, 2020"

#: Classes of client A | of client B, which give the sizes of the paper's Table 2.
GROUPS = {"cora": "0,1,2,4|3,5,6", "citeseer": "0,1,2|3,4,5", "pubmed": "0,1|0,2"}
LABELS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}

#: Features scaled so that the rows sum to 1, which is better on PubMed.
SCALED: dict[str, Any] = {"normalize_features": True}
#: Of SFGNN and of SP, for which the same turned out best.
_OWN_MESSAGES: dict[str, dict[str, Any]] = {
    "cora": {"dropout": 0.25, "weight_decay": 5e-4, "layers": 3, "lr": 0.0042},
    "citeseer": {"dropout": 0.25, "weight_decay": 1e-3, "layers": 4, "lr": 0.0061},
    "pubmed": {"dropout": 0.0, "weight_decay": 5e-4, "layers": 1, "lr": 0.012, **SCALED},
}
#: What `benchmarks/asfgnn_tuning.py` found for its rows, rounded; ``without`` is without JS.
TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "sfgnn": _OWN_MESSAGES,
    "without": {
        "cora": {"dropout": 0.25, "weight_decay": 1e-3, "layers": 4, "lr": 0.0042},
        "citeseer": _OWN_MESSAGES["citeseer"],
    },
    "separate": _OWN_MESSAGES,
    "fedavg": {
        "cora": {"dropout": 0.25, "weight_decay": 1e-3, "layers": 4, "lr": 0.002},
        "citeseer": {"dropout": 0.25, "weight_decay": 1e-3, "layers": 2, "lr": 0.002},
        "pubmed": {"dropout": 0.7, "weight_decay": 5e-4, "layers": 3, "lr": 0.02, **SCALED},
    },
    "centralized": {
        "cora": {"dropout": 0.25, "weight_decay": 1e-3, "layers": 4, "lr": 0.002},
        "citeseer": {"dropout": 0.25, "weight_decay": 1e-3, "layers": 2, "lr": 0.002},
        "pubmed": {"dropout": 0.5, "weight_decay": 5e-4, "layers": 2, "lr": 0.017, **SCALED},
    },
}
_OVERLAPPING_CORA: dict[str, Any] = {
    "dropout": 0.7, "weight_decay": 1e-3, "layers": 2, "lr": 0.02,
}  # fmt: skip
_OVERLAPPING_SFGNN: dict[str, dict[str, Any]] = {
    "cora": _OVERLAPPING_CORA,
    "citeseer": {"dropout": 0.7, "weight_decay": 1e-3, "layers": 1, "lr": 0.02, **SCALED},
}
#: For labels that overlap: found by the same search, over α = 0.6 to 0.9 together, unless what was
#: found for α = 1 is better there too.
_OVERLAPPING: dict[str, dict[str, dict[str, Any]]] = {
    "sfgnn": _OVERLAPPING_SFGNN,
    "without": _OVERLAPPING_SFGNN,
    "separate": {
        "cora": TUNED["separate"]["cora"],
        "citeseer": {"dropout": 0.7, "weight_decay": 1e-3, "layers": 3, "lr": 0.0075},
    },
    "fedavg": {"cora": _OVERLAPPING_CORA, "citeseer": TUNED["fedavg"]["citeseer"]},
}
#: How much of a client's nodes is of its own group of classes.
ALPHAS = ("1.0", "0.9", "0.8", "0.7", "0.6")

#: Rounds of every row.
ROUNDS = 200
#: Features as they are: by validation that is better for every row on Cora and CiteSeer.
COMMON: dict[str, Any] = {"normalize_features": False}
#: Of the baselines: the same network, and the same choice of a round.
NETWORK: dict[str, Any] = {**COMMON, "model": "sfgnn", "select": "accuracy"}
#: Of SFGNN: each client chooses its round, as in SP.
SFGNN: dict[str, Any] = {**COMMON, "chosen_by": "client"}

SPLIT = (
    "All networks are the same: GraphSAGE with the mean aggregator, embeddings of length 1, a "
    "discriminator of two layers, tanh, width 64. FL averages all of it by gradients (Eq. 2 of "
    "FL-AGCNS: one step for all clients), SP nothing, CM is trained on the uncut graph."
)
TUNING = (
    "Hyper-parameters (dropout, L2, K, learning rate, the same for both clients) were chosen for "
    "each method by the same search, by the mean validation accuracy on the cuts of seeds that are "
    "not in the table (`benchmarks/asfgnn_tuning.py`): 14 trials and seeds 10 to 12 on Cora and "
    "CiteSeer, and then what the other methods had found; 8 trials and seed 10 on PubMed (CM: 2). "
    "In each run the round with the best validation accuracy counts; with SP and SFGNN each client "
    "chooses its own. Test nodes are only reported on."
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


def by_alpha(tuned: str) -> dict[str, dict[str, Any]]:
    """What was found for a row of the tuning, by dataset and α, such as ``cora-0.8``."""
    return {
        f"{dataset}-{alpha}": TUNED[tuned][dataset] if alpha == "1.0" else overlapping
        for dataset, overlapping in _OVERLAPPING[tuned].items()
        for alpha in ALPHAS
    }


def row(name: str, label: str, method: str, **settings: Any) -> Row:
    """A method with the hyper-parameters that were found for it."""
    own = {**SFGNN, "collect_models": True} if method == "sfgnn" else NETWORK
    all_settings = {"rounds": ROUNDS, **own, **settings}
    return Row(name, label, method, "fixed", 3, all_settings, own=TUNED[method])
