"""The figures of ASFGNN, as plain data."""

from dataclasses import replace

from autofgl.reproduce.asfgnn_rows import (
    ALPHAS,
    GROUPS,
    LABELS,
    MEASURES,
    NETWORK,
    PAPER,
    ROUNDS,
    SFGNN,
    SPLIT,
    TUNED,
    by_alpha,
)
from autofgl.reproduce.figure import Figure, Line, Panel

_SFGNN = Line("sfgnn", "SFGNN", SFGNN, method="sfgnn", own=TUNED["sfgnn"])
_FL = Line("fl", "FL", NETWORK, method="fedavg", own=TUNED["fedavg"])
_SP = Line("sp", "SP", NETWORK, method="separate", own=TUNED["separate"])

_DATASETS = ("cora", "citeseer")
_TUNING = "Hyper-parameters are those of `asfgnn-table3`. The paper shows Cora only."


def _panel(dataset: str, level: str, clients: int, **settings: object) -> Panel:
    return Panel(
        name=f"{dataset}-{level}",
        label=f"{LABELS[dataset]}, {level}",
        group=dataset,
        dataset=f"planetoid:{dataset}",
        clients=clients,
        partition="labels",
        settings=settings,
        level=level,
    )


_FIG_3 = Figure(
    name="asfgnn-fig3",
    title="Accuracy for clients of ever more different labels",
    source=f"{PAPER}, Fig. 3",
    claim="SFGNN is better than SP and FL for α > 0.75, FL is the best below, and SP is better "
    "than FL for α > 0.88 (section 5.2.3).",
    chart="levels",
    panels=[
        _panel(dataset, alpha, 2, label_groups=GROUPS[dataset], label_alpha=float(alpha))
        for dataset in _DATASETS
        for alpha in reversed(ALPHAS)
    ],
    lines=tuple(replace(line, own=by_alpha(line.method)) for line in (_SFGNN, _FL, _SP)),
    rounds=ROUNDS,
    notes=(
        MEASURES.partition("*All classes*")[0].strip(),
        SPLIT,
        "Hyper-parameters of each line were found as for `asfgnn-table3`, for α = 1 and for 0.6 to "
        "0.9 together. The paper shows Cora only.",
        "A client takes α of its own group of classes and 1 − α of the other; edges between "
        "clients are cut, so that with a smaller α each client has fewer of them.",
    ),
    axis="α",
)

_FIG_4 = Figure(
    name="asfgnn-fig4",
    title="Accuracy for two to five clients without a common label",
    source=f"{PAPER}, Fig. 4",
    claim="The mean accuracy of ASFGNN rises with the number of clients and then stays "
    "(section 5.2.4).",
    chart="levels",
    panels=[
        _panel(dataset, str(clients), clients) for dataset in _DATASETS for clients in (2, 3, 4, 5)
    ],
    lines=(
        _SFGNN,
        _SP,
        Line(
            "asfgnn",
            "ASFGNN",
            {**SFGNN, "trials": 12, "trial_rounds": 50, "startup": 6, "tune_hidden": "64"},
            method="asfgnn",
        ),
    ),
    rounds=ROUNDS,
    notes=(
        "Classes go, from large to small, to the client with the fewest nodes so far.",
        _TUNING,
        "ASFGNN tunes every client in 12 trials instead.",
    ),
    axis="clients",
)

ASFGNN_FIGURES = (_FIG_3, _FIG_4)
